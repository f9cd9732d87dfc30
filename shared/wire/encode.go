package wire

import (
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Encode returns a message as JSON. Equal messages give equal bytes. Raw fields (Body, Params, Result, Detail,
// Document) keep their bytes and are the last member of their message. U+FFFD replaces invalid UTF-8 in a string.
// Encode panics on a value that JSON cannot express, such as a raw field with a syntax error, which is a mistake of the
// caller. It does not check the body of a Desired.
func Encode[M Message](m *M) []byte { return encode(m) }

// encode is Encode for a pointer to any message: one function for all of them.
func encode(m any) []byte {
	switch m := m.(type) {
	case *Desired:
		return m.Append(nil)
	case *Reported:
		bare := *m
		bare.Detail = nil
		return splice(marshal(&bare), "detail", m.Detail)
	case *Event:
		bare := *m
		bare.Detail = nil
		return splice(marshal(&bare), "detail", m.Detail)
	case *Request:
		if len(m.Params) > 0 && !m.Params.IsValid() {
			panic("wire: cannot encode: params is not JSON")
		}
		return m.Append(nil)
	case *Reply:
		bare := *m
		bare.Result = nil
		return splice(marshal(&bare), "result", m.Result)
	case *Submission:
		bare := *m
		bare.Document = nil
		return splice(marshal(&bare), "document", m.Document)
	case *CheckParams:
		bare := *m
		bare.Body = nil
		return splice(marshal(&bare), "body", m.Body)
	}
	return marshal(m)
}

func marshal(m any) []byte {
	b, err := json.Marshal(m, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		panic("wire: cannot encode: " + err.Error())
	}
	return b
}

// splice adds a raw member at the end of object, byte for byte. The JSON library would remove white space, and the
// bytes would not have the signed hash any more.
func splice(object []byte, name string, raw jsontext.Value) []byte {
	if len(raw) == 0 {
		return object
	}
	if !raw.IsValid() {
		panic("wire: cannot encode: " + name + " is not JSON")
	}
	object = append(object[:len(object)-1], `,"`...)
	object = append(object, name...)
	object = append(object, `":`...)
	object = append(object, raw...)
	return append(object, '}')
}

// Append appends the envelope's JSON to b. It does not use the JSON library because a controller encodes ten thousand
// documents at a time, and because the body must keep its bytes.
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

// Append appends the request's JSON to b. Params must be JSON, which Append does not check, because the controller
// sends the same document to thousands of nodes.
func (r *Request) Append(b []byte) []byte {
	b = append(b, `{"v":`...)
	b = strconv.AppendInt(b, int64(r.V), 10)
	b = member(b, "unit", r.Unit)
	b = member(b, "node", r.Node)
	b = member(b, "id", r.ID)
	b = member(b, "method", string(r.Method))
	b = append(b, `,"notAfter":"`...)
	b = r.NotAfter.AppendFormat(b, time.RFC3339Nano)
	b = append(b, '"')
	if r.Sig != nil {
		b = append(b, `,"sig":`...)
		b = r.Sig.append(b)
	}
	if len(r.Params) > 0 {
		b = append(b, `,"params":`...)
		b = append(b, r.Params...)
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

// member appends a comma and a member with a string value.
func member(b []byte, name, value string) []byte {
	b = append(b, ',', '"')
	b = append(b, name...)
	b = append(b, '"', ':')
	return quoted(b, value)
}

// quoted appends a JSON string.
func quoted(b []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			b, err := jsontext.AppendQuote(b, strings.ToValidUTF8(s, "\uFFFD"))
			if err != nil {
				panic("wire: cannot quote: " + err.Error())
			}
			return b
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}
