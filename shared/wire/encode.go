package wire

import (
	"encoding/base64"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Encode writes any message but a Desired, deterministically. It panics on a value that cannot
// be written, which only a bug in our own code makes. Raw fields keep their bytes.
func Encode[M Message](m *M) []byte {
	if d, ok := any(m).(*Desired); ok {
		return d.Append(nil)
	}
	b, err := json.Marshal(m, json.Deterministic(true), jsontext.PreserveRawStrings(true))
	if err != nil {
		panic("wire: cannot encode: " + err.Error())
	}
	return b
}

// Append adds the envelope's JSON to b and returns it. It is written by hand because a unit's
// documents are encoded by the ten thousand and because the body must not be touched.
func (d *Desired) Append(b []byte) []byte {
	b = append(b, `{"v":`...)
	b = strconv.AppendInt(b, int64(d.V), 10)
	b = member(b, "unit", d.Unit)
	b = member(b, "node", d.Node)
	b = member(b, "kind", string(d.Kind))
	b = append(b, `,"epoch":`...)
	b = strconv.AppendUint(b, d.Epoch, 10)
	b = append(b, `,"rev":`...)
	b = strconv.AppendUint(b, d.Rev, 10)
	b = member(b, "version", d.Version)
	b = member(b, "hash", d.Hash)
	b = append(b, `,"issued":"`...)
	b = d.Issued.UTC().AppendFormat(b, time.RFC3339Nano)
	b = append(b, '"')
	b = member(b, "mode", string(d.Mode))
	if d.ConfirmWithin != "" {
		b = member(b, "confirmWithin", d.ConfirmWithin)
	}
	if len(d.Body) > 0 {
		b = append(b, `,"body":`...)
		b = append(b, d.Body...)
	}
	if d.Ref != nil {
		b = append(b, `,"ref":{`...)
		b = append(b, `"url":`...)
		b = quoted(b, d.Ref.URL)
		b = member(b, "hash", d.Ref.Hash)
		if d.Ref.Size != 0 {
			b = append(b, `,"size":`...)
			b = strconv.AppendInt(b, d.Ref.Size, 10)
		}
		b = append(b, '}')
	}
	if d.Sig != nil {
		b = append(b, `,"sig":`...)
		b = d.Sig.append(b)
	}
	return append(b, '}')
}

func (s *Signature) append(b []byte) []byte {
	b = append(b, `{"kid":`...)
	b = quoted(b, s.KeyID)
	b = append(b, `,"ed25519":"`...)
	b = base64.StdEncoding.AppendEncode(b, s.Ed25519)
	b = append(b, '"')
	if len(s.Path) > 0 {
		b = append(b, `,"path":"`...)
		b = base64.StdEncoding.AppendEncode(b, s.Path)
		b = append(b, '"')
	}
	return append(b, '}')
}

func member(b []byte, name, value string) []byte {
	b = append(b, ',', '"')
	b = append(b, name...)
	b = append(b, '"', ':')
	return quoted(b, value)
}

func quoted(b []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			out, err := jsontext.AppendQuote(b, s)
			if err != nil { // invalid UTF-8: AppendQuote has replaced it
				return out
			}
			return out
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}
