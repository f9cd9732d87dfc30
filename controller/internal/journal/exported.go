package journal

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"maps"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/retain"
	"tandem.internal/shared/wire"
)

// Rule is what an export has to hold to.
type Rule string

// The rules.
const (
	RuleName     Rule = "name"     // a trim of the journal names the file, or one with these bytes
	RuleSum      Rule = "sum"      // its bytes have the hash that the trim has
	RulePacked   Rule = "packed"   // it is whole as gzip has it
	RuleLine     Rule = "line"     // a line is as ExportSome writes it
	RuleHash     Rule = "hash"     // a record has its chain hash
	RuleChain    Rule = "chain"    // a record follows the one before it in the file
	RuleDocument Rule = "document" // a document has the hash that its record has of it
	RuleTrim     Rule = "trim"     // the file has what the trim says of it
	RuleJournal  Rule = "journal"  // its records join those that the journal still has
)

// Fault is a rule that an export breaks, and where.
type Fault struct {
	Rule   Rule   `json:"rule"`
	Line   int    `json:"line,omitzero"` // from 1; 0: the whole file
	Seq    uint64 `json:"seq,omitzero"`  // the record there, if that could be read
	Detail string `json:"detail"`        // in words
}

// String is one line for people.
func (f *Fault) String() string {
	where := ""
	if f.Line > 0 {
		where = fmt.Sprintf("line %d", f.Line)
	}
	if f.Seq > 0 {
		where += fmt.Sprintf(", record %d", f.Seq)
	}
	if where != "" {
		where += ": "
	}
	return fmt.Sprintf("%s%s (rule %s)", where, f.Detail, f.Rule)
}

// ExportProof is what VerifyExport found.
type ExportProof struct {
	File      string  `json:"file"`               // base name
	Records   int     `json:"records"`            // that were read
	First     uint64  `json:"first,omitzero"`     // number of the first
	Last      uint64  `json:"last,omitzero"`      // of the last
	Documents int     `json:"documents,omitzero"` // with them
	Trim      uint64  `json:"trim,omitzero"`      // number of the record that says that these go
	Faults    []Fault `json:"faults,omitempty"`   // none: it is what was written; at most maxFaults
}

// maxFaults is how many faults are told of one file.
const maxFaults = 20

// maxLine bounds a line of an export: data and document in base64 and once more exact.
const maxLine = 8 * MaxData

// OK reports whether the file is what was written.
func (p *ExportProof) OK() bool { return len(p.Faults) == 0 }

// String tells people what was found.
func (p *ExportProof) String() string {
	text := fmt.Sprintf("%s: %s", p.File, count(p.Records, "record", "records"))
	if p.Records > 0 {
		text += fmt.Sprintf(" of %d to %d", p.First, p.Last)
	}
	if p.Documents > 0 {
		text += ", " + count(p.Documents, "document", "documents")
	}
	if p.OK() {
		return text + fmt.Sprintf(": each is proved, and the trim of record %d says that they went", p.Trim)
	}
	text += ": " + count(len(p.Faults), "fault", "faults")
	for i := range p.Faults {
		text += "\n" + p.Faults[i].String()
	}
	return text
}

// VerifyExport proves a file that a trim has written: each record by its chain hash, that they follow each other, and
// that the file is the one of which the journal says what went. What it finds is in the proof; the error says why it
// could not look.
func (j *Journal) VerifyExport(ctx context.Context, path string) (ExportProof, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO does not hold it up
	if err != nil {
		return ExportProof{}, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return ExportProof{}, errors.Join(fail(ErrNotExport, wire.CodeMalformed, err, path+" is not a regular file"),
			f.Close())
	}
	v := exportVerifier{j: j, ctx: ctx, kinds: map[string]int{}, sum: sha256.New()}
	v.proof.File = filepath.Base(path)
	err = v.read(f)
	if err = errors.Join(err, f.Close()); err == nil {
		err = v.hold()
	}
	return v.proof, err
}

// exportVerifier reads an export once.
type exportVerifier struct {
	j     *Journal
	ctx   context.Context
	proof ExportProof
	sum   hash.Hash // of the file's bytes
	line  int
	kinds map[string]int
	first Hash // before the first record
	last  mark // of the newest
	runs  []run
}

func (v *exportVerifier) found(rule Rule, seq uint64, format string, args ...any) {
	if len(v.proof.Faults) < maxFaults {
		v.proof.Faults = append(v.proof.Faults, Fault{rule, v.line, seq, fmt.Sprintf(format, args...)})
	}
}

// read reads the file to its end, also behind what is broken: its hash is of all bytes.
func (v *exportVerifier) read(f io.Reader) error {
	var failed error
	in := bufio.NewReaderSize(io.TeeReader(reads{f, &failed}, v.sum), 64<<10)
	z, err := gzip.NewReader(in)
	if err == nil {
		err = v.lines(bufio.NewReaderSize(z, 64<<10))
	}
	if v.ctx.Err() != nil {
		return v.ctx.Err()
	}
	if err != nil && failed == nil {
		v.found(RulePacked, 0, "from here on it cannot be read: %v", err)
	}
	v.line = 0
	if _, err := io.Copy(io.Discard, in); err != nil {
		return err
	}
	return failed
}

// reads notes why a file could not be read, which is no fault of its content.
type reads struct {
	io.Reader
	failed *error
}

func (r reads) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if err != nil && err != io.EOF {
		*r.failed = err
	}
	return n, err
}

// lines reads every line.
func (v *exportVerifier) lines(in *bufio.Reader) error {
	var line []byte
	for {
		if err := v.ctx.Err(); err != nil {
			return err
		}
		v.line++
		line = line[:0]
		for {
			some, err := in.ReadSlice('\n')
			line = append(line, some...)
			if err == nil {
				break
			}
			if err == io.EOF && len(line) == 0 {
				return nil
			}
			if err == io.EOF {
				v.found(RuleLine, 0, "it is cut off")
				return nil
			}
			if !errors.Is(err, bufio.ErrBufferFull) {
				return err
			}
			if len(line) > maxLine {
				return fmt.Errorf("a line of more than %d bytes", maxLine)
			}
		}
		v.record(line)
	}
}

// exportLine is a line of an export.
type exportLine struct {
	Seq      uint64         `json:"seq"`
	At       time.Time      `json:"at"`
	Type     string         `json:"type"`
	Node     string         `json:"node"`
	Who      string         `json:"who"`
	Kind     string         `json:"kind"`
	Data     jsontext.Value `json:"data"`
	Raw      []byte         `json:"raw"`
	Prev     string         `json:"prev"`
	Hash     string         `json:"hash"`
	Document *[]byte        `json:"document"`
	Exact    []byte         `json:"exact"`
}

// record proves a line.
func (v *exportVerifier) record(line []byte) {
	var e exportLine
	err := json.Unmarshal(line, &e, json.RejectUnknownMembers(true), jsontext.AllowDuplicateNames(true))
	if err != nil {
		v.found(RuleLine, 0, "it is no line of an export: %.200s", err.Error())
		return
	}
	typ, known := record.ParseType(e.Type)
	prev, perr := parseHex(e.Prev)
	own, herr := parseHex(e.Hash)
	r := Record{Seq: e.Seq, At: e.At, Type: typ, Node: e.Node, Who: e.Who, Kind: e.Kind, Data: e.exact()}
	if !known || perr != nil || herr != nil || e.Seq == 0 || checkRecord(&r) != nil {
		v.found(RuleLine, e.Seq, "it has no record that could have been in a journal")
		return
	}
	switch payload := appendPayload(nil, &r); {
	case link(prev, e.Seq, payload) != own:
		v.found(RuleHash, e.Seq, "it is not the record that has its hash")
	case v.last.seq > 0 && e.Seq <= v.last.seq:
		v.found(RuleChain, e.Seq, "it comes after record %d", v.last.seq)
	case v.last.seq+1 == e.Seq && v.proof.Records > 0 && prev != v.last.hash:
		v.found(RuleChain, e.Seq, "it does not follow record %d, which is before it", v.last.seq)
	default:
		v.same(line, &r, prev, own, e.Document)
	}
	if v.proof.Records == 0 {
		v.proof.First, v.first = e.Seq, prev
	}
	if n := len(v.runs); n > 0 && v.runs[n-1].to.seq == e.Seq-1 {
		v.runs[n-1].to = mark{e.Seq, own}
	} else if n < maxRuns {
		v.runs = append(v.runs, run{e.Seq, prev, mark{e.Seq, own}})
	}
	v.proof.Records++
	v.proof.Last, v.last = e.Seq, mark{e.Seq, own}
	v.kinds[kindOf(&r)]++
}

// kindOf is what a trim calls the kind of a record.
func kindOf(r *Record) string { return cmp.Or(string(retain.Of(r.Type, r.Kind)), r.Type.String()) }

// exact is the data of the record.
func (e *exportLine) exact() []byte {
	switch {
	case e.Exact != nil:
		return e.Exact
	case e.Raw != nil:
		return e.Raw
	case string(e.Data) == "null":
		return nil
	}
	return e.Data
}

// same compares a line with the one that its record has, byte by byte, and its document with the hash of it.
func (v *exportVerifier) same(line []byte, r *Record, prev, own Hash, document *[]byte) {
	want, err := appendProved(nil, r, prev, own)
	if err == nil {
		if document != nil {
			want = appendBase64(want, "document", *document)
			v.proof.Documents++
		}
		want = appendExactData(want, r)
	}
	if err != nil || string(append(want, '}', '\n')) != string(line) {
		v.found(RuleLine, r.Seq, "it is not written as the record is")
		return
	}
	if h, has := r.Body(); document != nil && (!has || sha256.Sum256(*document) != h) {
		v.found(RuleDocument, r.Seq, "the document is not the one that was submitted")
	}
}

func parseHex(s string) (h Hash, err error) {
	if len(s) != hex.EncodedLen(len(h)) {
		return h, errShort
	}
	_, err = hex.Decode(h[:], []byte(s))
	return h, err
}

// hold holds the file against the journal.
func (v *exportVerifier) hold() error {
	sum := wire.HashPrefix + hex.EncodeToString(v.sum.Sum(nil))
	var own, named *Trim
	err := v.j.Scan(Filter{Types: []Type{record.Trimmed}}, func(r Record) error {
		data, err := record.Decode(record.Trimmed, r.Data)
		if err != nil {
			return v.j.Damaged("the trim of record %d cannot be read", r.Seq)
		}
		t := Trim{r.Seq, r.At, data.(record.TrimmedData)}
		if t.File != "" && t.Sum == sum {
			own = &t
		}
		if t.File == v.proof.File {
			named = &t
		}
		return v.ctx.Err()
	})
	if err != nil {
		return err
	}
	switch {
	case own != nil && named != nil && own.Seq != named.Seq:
		v.found(RuleName, 0, "it is the file %s of the trim of record %d, and not that of record %d", own.File, own.Seq,
			named.Seq)
	case own == nil && named == nil:
		v.found(RuleName, 0, "no trim of this journal names it, nor a file with these bytes: it was written before a "+
			"crash, and another file has its records; or it is not of this journal")
	case own == nil:
		v.found(RuleSum, 0, "its bytes have the hash %s, and the trim of record %d has %s", sum, named.Seq, named.Sum)
	}
	if own == nil {
		own = named
	}
	if own == nil {
		return nil
	}
	v.proof.Trim = own.Seq
	v.trim(own)
	return v.joins(own)
}

// trim compares the file with what the trim says of it.
func (v *exportVerifier) trim(t *Trim) {
	p := &v.proof
	if p.Records != t.Count || p.First != t.First || p.Last != t.Last {
		v.found(RuleTrim, 0, "it has %s of %d to %d, and the trim of record %d has %d of %d to %d",
			count(p.Records, "record", "records"), p.First, p.Last, t.Seq, t.Count, t.First, t.Last)
	}
	if hex.EncodeToString(v.first[:]) != t.Before || hex.EncodeToString(v.last.hash[:]) != t.After {
		v.found(RuleTrim, 0, "its chain does not begin and end where the trim of record %d does", t.Seq)
	}
	if !maps.Equal(v.kinds, t.Kinds) {
		v.found(RuleTrim, 0, "it has other kinds of records than the trim of record %d", t.Seq)
	}
}
