package journal

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Export writes the records that f picks as JSON lines:
//
//	{"seq":1,"at":"2026-11-20T10:00:00.000000001Z","type":"report","node":"n1","who":"","kind":"config","data":{…}}
//
// data is the record's data with its white space taken out. Data that is not JSON (a node may
// have sent anything) comes as "raw", base64, instead. Empty data is null.
func (j *Journal) Export(w io.Writer, f Filter) error {
	out := bufio.NewWriterSize(w, 64<<10)
	var line []byte
	err := j.Scan(f, func(r Record) (err error) {
		if line, err = appendLine(line[:0], &r); err != nil {
			return fmt.Errorf("export record %d: %w", r.Seq, err)
		}
		_, err = out.Write(line)
		return err
	})
	if err != nil {
		return err
	}
	return out.Flush()
}

func appendLine(b []byte, r *Record) (_ []byte, err error) {
	b = append(b, `{"seq":`...)
	b = strconv.AppendUint(b, r.Seq, 10)
	b = append(b, `,"at":"`...)
	b = r.At.UTC().AppendFormat(b, time.RFC3339Nano)
	b = append(b, '"')
	for _, f := range [...]struct{ key, value string }{
		{"type", r.Type.String()}, {"node", r.Node}, {"who", r.Who}, {"kind", r.Kind},
	} {
		b = append(append(append(b, `,"`...), f.key...), `":`...)
		if b, err = jsontext.AppendQuote(b, f.value); err != nil {
			return nil, err
		}
	}
	data := jsontext.Value(r.Data).Clone()
	switch {
	case len(data) == 0:
		b = append(b, `,"data":null`...)
	case data.Compact(jsontext.AllowDuplicateNames(true)) == nil:
		b = append(append(b, `,"data":`...), data...)
	default:
		b = append(b, `,"raw":"`...)
		b = base64.StdEncoding.AppendEncode(b, r.Data)
		b = append(b, '"')
	}
	return append(b, '}', '\n'), nil
}
