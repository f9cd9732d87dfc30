package enrol

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/op"
	"tandem.internal/shared/policy"
	"tandem.internal/shared/wire"
)

// listed is a node of a list.
type listed struct {
	op.ListedNode
	properties []policy.Property // in the order of the list
}

// place is where something of a list stands; both from 1, the column in characters.
type place struct{ line, column int }

// cell is a value of a list, with its place.
type cell struct {
	place
	text string
}

// row is a node of a list, as it was read: the columns that it has, in their order.
type row struct {
	place
	names []string
	cells []cell
}

// propertyColumn begins the name of a column that is a property.
const propertyColumn = "property."

// The controller gives tokens no other lives than these.
const minLife, maxLife = time.Minute, 30 * 24 * time.Hour

// columns are those that a list may have besides.
var columns = []string{"node", "type", "expires"}

// reader reads a list, and collects what is wrong with it.
type reader struct{ problems []*wire.Error }

func (r *reader) bad(at place, code wire.Code, format string, a ...any) {
	e := wire.New(code, "", fmt.Sprintf(format, a...))
	e.Line, e.Column = at.line, at.column
	r.problems = append(r.problems, e)
}

// parse reads a list of nodes: YAML if the file is called so, or, from standard input, if it begins with a dash; else
// CSV. What is wrong has its line and column.
func parse(src command.Source) ([]listed, []*wire.Error) {
	var r reader
	text := bytes.TrimPrefix(src.Text, []byte("\ufeff"))
	ext := strings.ToLower(filepath.Ext(src.File))
	var rows []row
	if ext == ".yaml" || ext == ".yml" || ext == "" && bytes.HasPrefix(bytes.TrimSpace(text), []byte("-")) {
		rows = r.yaml(text)
	} else {
		rows = r.csv(text)
	}
	var all []listed
	seen := map[string]int{}
	for _, one := range rows {
		if n, ok := r.node(one, seen); ok {
			all = append(all, n)
		}
	}
	if len(rows) == 0 && len(r.problems) == 0 {
		r.bad(place{1, 1}, wire.CodeMissing, "the list has no node")
	}
	if len(all) > op.MaxEnrolList {
		r.bad(place{1, 1}, wire.CodeTooLarge, "%d nodes; a list has at most %d", len(all), op.MaxEnrolList)
	}
	slices.SortStableFunc(r.problems, func(a, b *wire.Error) int {
		return (a.Line-b.Line)*1e6 + a.Column - b.Column
	})
	return all, r.problems
}

// node reads one row. seen has the lines of the names so far.
func (r *reader) node(in row, seen map[string]int) (n listed, ok bool) {
	before := len(r.problems)
	named := false
	for i, name := range in.names {
		c := in.cells[i]
		if c.text == "" && name != "node" {
			continue // an empty cell of CSV
		}
		switch {
		case name == "node":
			named = true
			n.Node = c.text
			if !wire.ValidName(c.text) {
				r.bad(c.place, wire.CodeBadValue, "%.80q cannot be a node's ID: letters, digits, dot, underscore and "+
					"dash, at most 63", c.text)
			} else if first := seen[c.text]; first != 0 {
				r.bad(c.place, wire.CodeDuplicate, "%s is in line %d, too", c.text, first)
			} else {
				seen[c.text] = c.line
			}
		case name == "type":
			n.Type = c.text
			if err := (&op.Enroll{Type: c.text}).Check(); err != nil {
				r.bad(c.place, wire.CodeBadValue, "%s", err.Message)
			}
		case name == "expires":
			var d command.Duration
			if err := d.Set(c.text); err != nil {
				r.bad(c.place, wire.CodeBadValue, "%s", err)
			} else if life := time.Duration(d); life < minLife || life > maxLife {
				r.bad(c.place, wire.CodeBadValue, "a token lives from 1 minute to %d days, not %s",
					maxLife/(24*time.Hour), c.text)
			}
			n.TTL = d.ISO()
		default:
			r.property(&n, strings.TrimPrefix(name, propertyColumn), c)
		}
	}
	if !named {
		r.bad(in.place, wire.CodeMissing, "the node has no name: node")
	}
	return n, len(r.problems) == before
}

// property reads a property, as tandem property set does: JSON, or else a text.
func (r *reader) property(n *listed, name string, c cell) {
	v := jsontext.Value(c.text)
	if !v.IsValid() {
		v = jsontext.Value(quote(c.text))
	}
	p := policy.Property{Name: name, Value: v}
	one := policy.Node{Properties: []policy.Property{p}}
	if _, problems := policy.ParseNode(policy.EncodeNode(&one)); problems != nil {
		r.bad(c.place, problems[0].Code, "property %.80q: %s", name, problems[0].Message)
		return
	}
	n.properties = append(n.properties, p)
}

// known reports whether a list may have a column of this name.
func (r *reader) known(at place, name string) bool {
	property, is := strings.CutPrefix(name, propertyColumn)
	if slices.Contains(columns, name) || is && property != "" {
		return true
	}
	r.bad(at, wire.CodeUnknownField, "%.80q is no column of a list%s", name, command.Suggest(name, columns,
		"there are "+strings.Join(columns, ", ")+" and "+propertyColumn+"NAME"))
	return false
}

// csv reads lines of values after a line with their names.
func (r *reader) csv(text []byte) (rows []row) {
	in := csv.NewReader(bytes.NewReader(text))
	in.FieldsPerRecord, in.TrimLeadingSpace, in.Comment = -1, true, '#'
	line, _, _ := bytes.Cut(text, []byte("\n"))
	if bytes.Contains(line, []byte(";")) && !bytes.Contains(line, []byte(",")) {
		in.Comma = ';' // as spreadsheets write it where the comma is in numbers
	}
	var head []string
	for {
		fields, err := in.Read()
		if err == io.EOF {
			return rows
		}
		if bad, ok := errors.AsType[*csv.ParseError](err); ok {
			r.bad(place{bad.Line, bad.Column}, wire.CodeMalformed, "no CSV: %s", bad.Err)
			return rows
		}
		if err != nil {
			r.bad(place{1, 1}, wire.CodeMalformed, "%s", err)
			return rows
		}
		at := func(i int) place {
			line, column := in.FieldPos(i)
			return place{line, column}
		}
		if head == nil {
			if head = r.head(fields, at); head == nil {
				return nil
			}
			continue
		}
		if len(fields) != len(head) {
			r.bad(at(0), wire.CodeMalformed, "a line of %d values; the first one names %d columns", len(fields),
				len(head))
			continue
		}
		one := row{place: at(0), names: head}
		for i, f := range fields {
			one.cells = append(one.cells, cell{at(i), strings.TrimSpace(f)})
		}
		rows = append(rows, one)
	}
}

// head reads the names of columns; nil: they are wrong.
func (r *reader) head(fields []string, at func(int) place) []string {
	names := make([]string, 0, len(fields))
	good := true
	for i, f := range fields {
		f = strings.TrimSpace(f)
		if slices.Contains(names, f) {
			r.bad(at(i), wire.CodeDuplicate, "the column %.80q is there twice", f)
			good = false
		}
		good = r.known(at(i), f) && good
		names = append(names, f)
	}
	if good && !slices.Contains(names, "node") {
		r.bad(at(0), wire.CodeMissing, "the first line names the columns, and one of them has to be node")
		good = false
	}
	if !good {
		return nil
	}
	return names
}

// yaml reads a list of names, or of maps with the columns of CSV as keys; properties may be a map of their own.
func (r *reader) yaml(text []byte) (rows []row) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		r.bad(place{lineOf(err), 1}, wire.CodeMalformed, "no YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
		return nil
	}
	if len(doc.Content) == 0 {
		return nil
	}
	if doc.Content[0].Kind != yaml.SequenceNode {
		r.bad(placeOf(doc.Content[0]), wire.CodeBadValue, "a list of nodes is expected, each with a dash before it")
		return nil
	}
	for _, n := range doc.Content[0].Content {
		one := row{place: placeOf(n)}
		switch n.Kind {
		case yaml.ScalarNode:
			one.names, one.cells = []string{"node"}, []cell{{placeOf(n), n.Value}}
		case yaml.MappingNode:
			if !r.entries(&one, n, "") {
				continue
			}
		default:
			r.bad(one.place, wire.CodeBadValue, "a node's name, or keys with values, are expected")
			continue
		}
		rows = append(rows, one)
	}
	return rows
}

// entries reads the keys of one node; prefix is what their names begin with.
func (r *reader) entries(one *row, n *yaml.Node, prefix string) bool {
	before := len(r.problems)
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		name := prefix + key.Value
		if name == "properties" && value.Kind == yaml.MappingNode {
			r.entries(one, value, propertyColumn)
			continue
		}
		switch {
		case slices.Contains(one.names, name):
			r.bad(placeOf(key), wire.CodeDuplicate, "%.80q is there twice", name)
		case !r.known(placeOf(key), name):
		case value.Kind == yaml.SequenceNode && prefix != "":
			r.texts(one, name, value)
		case value.Kind != yaml.ScalarNode || value.Tag == "!!null":
			r.bad(placeOf(value), wire.CodeBadValue, "%.80q needs one value", name)
		default:
			text := value.Value
			if prefix != "" && value.Tag == "!!str" {
				text = quote(text) // "4" is a text, and 4 a number
			}
			one.names, one.cells = append(one.names, name), append(one.cells, cell{placeOf(value), text})
		}
	}
	return len(r.problems) == before
}

// texts reads a property that is a list of texts.
func (r *reader) texts(one *row, name string, n *yaml.Node) {
	var all []string
	for _, item := range n.Content {
		if item.Kind != yaml.ScalarNode {
			r.bad(placeOf(item), wire.CodeBadValue, "a text is expected")
			return
		}
		all = append(all, quote(item.Value))
	}
	one.names = append(one.names, name)
	one.cells = append(one.cells, cell{placeOf(n), "[" + strings.Join(all, ",") + "]"})
}

// quote makes a text JSON. What is no UTF-8 in it becomes U+FFFD.
func quote(text string) string {
	b, err := jsontext.AppendQuote(nil, strings.ToValidUTF8(text, "\ufffd"))
	if err != nil {
		panic("enrol: a valid text cannot be quoted: " + err.Error())
	}
	return string(b)
}

func placeOf(n *yaml.Node) place { return place{n.Line, n.Column} }

// lineOf finds the line in an error of the YAML library, which has it in its text only.
func lineOf(err error) int {
	_, rest, ok := strings.Cut(err.Error(), "line ")
	digits, _, _ := strings.Cut(rest, ":")
	if n, aerr := strconv.Atoi(digits); ok && aerr == nil {
		return n
	}
	return 1
}
