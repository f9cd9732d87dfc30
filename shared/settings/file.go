package settings

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"tandem.internal/shared/durable"
)

// maxFile is the size of the largest settings file, in bytes.
const maxFile = 1 << 20

// readFile reads a YAML file and sets the settings that it names; some: others than fields are passed over. An empty
// file is valid.
func readFile(path string, fields []*field, some bool) error {
	data, err := durable.ReadFile(path, maxFile)
	if err != nil {
		var pe *fs.PathError
		if errors.As(err, &pe) {
			err = pe.Err
		}
		return &Error{Where: path, Message: "the settings file cannot be read: " + err.Error()}
	}
	return decodeFile("file ", path, data, fields, some)
}

// decodeFile sets the settings that data, the content of the file at path, names; what is the word for it before its
// name. The error is a *Error.
func decodeFile(what, path string, data []byte, fields []*field, some bool) error {
	lines, err := parseFile(path, data)
	if err != nil {
		return err
	}
	for _, l := range lines {
		f := find(fields, l.key.Value)
		if f == nil && some {
			continue
		}
		if f == nil {
			return l.bad(path, l.key.Line, "no such setting"+suggest("", l.key.Value, fields, "--help lists them"))
		}
		if line, why := setNode(f.ptr, l.value); why != "" {
			return l.bad(path, line, f.redacted(why))
		}
		f.source = what + place(path, l.key.Line)
	}
	return nil
}

// entry is a line of a settings file.
type entry struct{ key, value *yaml.Node }

func (e entry) bad(path string, line int, message string) error {
	return &Error{Where: place(path, line), Key: e.key.Value, Message: message}
}

// parseFile reads YAML that has each key once.
func parseFile(path string, data []byte) (lines []entry, err error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); err == io.EOF {
		return nil, nil
	} else if err != nil {
		return nil, syntax(path, err)
	}
	if err := dec.Decode(&more); err == nil {
		return nil, &Error{Where: place(path, more.Line), Message: "a second YAML document; one is allowed"}
	} else if err != io.EOF {
		return nil, syntax(path, err)
	}
	top := doc.Content[0]
	if top.ShortTag() == "!!null" {
		return nil, nil
	}
	if top.Kind != yaml.MappingNode {
		return nil, &Error{Where: place(path, top.Line), Message: "want lines of the form key: value"}
	}
	seen := map[string]int{}
	for i := 0; i < len(top.Content); i += 2 {
		e := entry{top.Content[i], top.Content[i+1]}
		if first := seen[e.key.Value]; first != 0 {
			return nil, e.bad(path, e.key.Line, "already set in line "+strconv.Itoa(first))
		}
		seen[e.key.Value] = e.key.Line
		lines = append(lines, e)
	}
	return lines, nil
}

// setNode sets *ptr to a YAML value. why is what is wrong with the value and line is the line of that; why is "" if
// nothing is wrong.
func setNode(ptr any, n *yaml.Node) (line int, why string) {
	line, n = n.Line, deref(n)
	var texts []string
	switch ptr.(type) {
	case *[]string:
		if n.Kind != yaml.SequenceNode {
			return line, "want a list of strings, not " + describe(n)
		}
		for _, item := range n.Content {
			at := item.Line
			if item = deref(item); !isText(item) {
				return at, "want a string, not " + describe(item) + quoteIt(item)
			}
			texts = append(texts, item.Value)
		}
	case *map[string]string:
		if n.Kind != yaml.MappingNode {
			return line, "want a map of strings, not " + describe(n)
		}
		for i := 0; i < len(n.Content); i += 2 {
			k, v := deref(n.Content[i]), deref(n.Content[i+1])
			if k.ShortTag() != "!!str" || strings.Contains(k.Value, "=") {
				return n.Content[i].Line, "want a string without = as a key"
			}
			if !isText(v) {
				return n.Content[i+1].Line, k.Value + ": want a string, not " + describe(v) + quoteIt(v)
			}
			texts = append(texts, k.Value+"="+v.Value)
		}
	default:
		tag, want := n.ShortTag(), ""
		switch ptr.(type) {
		case *bool:
			want = "!!bool"
		case *int, *uint64:
			want = "!!int"
		case *float64:
			if want = "!!float"; tag == "!!int" {
				tag = want
			}
		default:
			if want = "!!str"; isText(n) {
				tag = want
			}
		}
		if n.Kind != yaml.ScalarNode || tag != want {
			why = "want " + nouns[want] + ", not " + describe(n)
			if want == "!!str" {
				why += quoteIt(n)
			}
			return line, why
		}
		texts = []string{n.Value}
		if want == "!!bool" {
			texts[0] = strings.ToLower(n.Value)
		}
	}
	return line, set(ptr, texts)
}

// isText reports whether a value is text where that is wanted: a string, or a whole number, which counts as it stands
// there. What else has two readings, such as a date or true, is quoted.
func isText(n *yaml.Node) bool {
	return n.ShortTag() == "!!str" || n.ShortTag() == "!!int"
}

// nouns are the names of YAML tags in messages.
var nouns = map[string]string{"!!str": "a string", "!!bool": "true or false", "!!int": "a whole number",
	"!!float": "a number",
	"!!seq":   "a list", "!!map": "a map", "!!null": "nothing", "!!timestamp": "a date"}

// deref returns the node that an alias refers to; any other node as it is.
func deref(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// describe returns the type of a value, and the value itself if it is a scalar, for a message.
func describe(n *yaml.Node) string {
	noun := nouns[n.ShortTag()]
	if noun == "" {
		noun = n.ShortTag()
	}
	if n.Kind == yaml.ScalarNode && n.Value != "" {
		noun += " (" + n.Value + ")"
	}
	return noun
}

// quoteIt is the advice to quote a scalar, as the end of a message.
func quoteIt(n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode && n.Value != "" {
		return "; quote it"
	}
	return ""
}

func place(path string, line int) string { return path + ":" + strconv.Itoa(line) }

// syntax returns an error of the YAML library as an *Error. It takes the line from messages such as "yaml: line 3: what
// is wrong".
func syntax(path string, err error) error {
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	if numbered, ok := strings.CutPrefix(message, "line "); ok {
		if line, what, ok := strings.Cut(numbered, ": "); ok {
			path, message = path+":"+line, what
		}
	}
	return &Error{Where: path, Message: "not YAML: " + message}
}
