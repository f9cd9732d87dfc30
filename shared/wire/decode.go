package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// strict is how every message of the wire is read: names are case-sensitive, duplicate names and
// names outside the contract are errors.
var strict = json.JoinOptions(json.RejectUnknownMembers(true))

// Message is any message of the wire.
type Message interface {
	Desired | Reported | Live | Event | Request | Reply | Beacon | Submission | Answer |
		CheckParams | CheckResult | EventsParams | ConfirmParams | NodeInfo
}

// Decode reads one message strictly. The error is always a *Error whose path points into the
// message. Body, Params and Detail keep the exact bytes of data, in memory of their own.
func Decode[M Message](data []byte) (*M, error) {
	if len(data) > MaxPacket {
		return nil, New(CodeTooLarge, "", fmt.Sprintf("%d bytes; a message has at most %d", len(data), MaxPacket))
	}
	if deep(data) {
		return nil, New(CodeMalformed, "", fmt.Sprintf("nested more than %d deep", maxDepth))
	}
	m := new(M)
	if err := json.Unmarshal(data, m, strict); err != nil {
		return nil, AsError(err)
	}
	if err := check(m); err != nil {
		return nil, err
	}
	return m, nil
}

// maxDepth bounds the nesting of a message: far above any document, far below what costs memory.
const maxDepth = 128

// deep reports whether data nests deeper than maxDepth, without building anything.
func deep(data []byte) bool {
	depth, quoted := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case quoted:
			if c == '\\' {
				i++
			} else if c == '"' {
				quoted = false
			}
		case c == '"':
			quoted = true
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}

// AsError turns an error of the JSON library into an *Error with a JSON pointer. Other errors
// become CodeMalformed.
func AsError(err error) *Error {
	if w, ok := errors.AsType[*Error](err); ok {
		return w
	}
	code, path, msg := CodeMalformed, "", err.Error()
	if s, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		path, msg = string(s.JSONPointer), s.Err.Error()
		if errors.Is(err, jsontext.ErrDuplicateName) {
			code, msg = CodeDuplicate, "the name appears twice in one object"
		}
	} else if s, ok := errors.AsType[*json.SemanticError](err); ok {
		path, code = string(s.JSONPointer), CodeBadValue
		switch {
		case errors.Is(err, json.ErrUnknownName):
			code, msg = CodeUnknownField, "no such field in this message"
		case s.Err != nil:
			msg = s.Err.Error()
		default:
			msg = "wrong type"
			if s.JSONKind != 0 {
				msg = "wrong type: " + s.JSONKind.String()
			}
		}
	}
	return New(code, path, strings.TrimPrefix(msg, "json: "))
}

// check holds what the contract demands beyond names and types.
func check(m any) error {
	switch m := m.(type) {
	case *Desired:
		return m.check()
	case *Reported:
		return m.check()
	case *Live:
		return first(version(m.V), present("/node", m.Node), present("/boot", m.Boot), positive("/session", m.Session))
	case *Event:
		return first(version(m.V), present("/node", m.Node), present("/boot", m.Boot), positive("/seq", m.Seq), present("/type", m.Type), bounded(m.Error))
	case *Request:
		return first(version(m.V), present("/unit", m.Unit), present("/node", m.Node), present("/id", m.ID), present("/method", string(m.Method)))
	case *Reply:
		return first(version(m.V), present("/node", m.Node), present("/id", m.ID), bounded(m.Error))
	case *Beacon:
		return first(version(m.V), present("/unit", m.Unit), positive("/epoch", m.Epoch))
	case *Submission:
		return first(version(m.V), present("/id", m.ID), present("/from", m.From), short("/id", m.ID), short("/from", m.From), present("/document", string(m.Document)))
	case *Answer:
		return first(version(m.V), present("/id", m.ID))
	}
	return nil
}

func (d *Desired) check() error {
	if err := first(version(d.V), present("/unit", d.Unit), present("/node", d.Node), present("/kind", string(d.Kind)),
		positive("/epoch", d.Epoch), positive("/rev", d.Rev), present("/version", d.Version), short("/version", d.Version), hash("/hash", d.Hash)); err != nil {
		return err
	}
	switch {
	case d.Mode != ModeApply && d.Mode != ModeTry:
		return New(CodeBadValue, "/mode", "neither apply nor try")
	case (d.Mode == ModeTry) != (d.ConfirmWithin != ""):
		return New(CodeBadValue, "/confirmWithin", "goes with mode try, and only with it")
	case (len(d.Body) == 0) == (d.Ref == nil):
		return New(CodeMissing, "/body", "exactly one of body and ref is needed")
	case len(d.Body) > MaxBody:
		return New(CodeTooLarge, "/body", fmt.Sprintf("%d bytes; a body has at most %d", len(d.Body), MaxBody))
	}
	return nil
}

func (r *Reported) check() error {
	if err := first(version(r.V), present("/node", r.Node), present("/kind", string(r.Kind)), present("/boot", r.Boot), short("/boot", r.Boot), positive("/seq", r.Seq)); err != nil {
		return err
	}
	if r.Running != nil {
		if err := first(positive("/running/epoch", r.Running.Epoch), positive("/running/rev", r.Running.Rev), hash("/running/hash", r.Running.Hash), short("/running/version", r.Running.Version)); err != nil {
			return err
		}
	}
	if l := r.Last; l != nil {
		if !l.State.Known() {
			return New(CodeBadValue, "/last/state", "no such state")
		}
		return first(positive("/last/epoch", l.Epoch), positive("/last/rev", l.Rev), hash("/last/hash", l.Hash), short("/last/version", l.Version), bounded(l.Error))
	}
	return nil
}

func first(errs ...*Error) error {
	for _, e := range errs {
		if e != nil {
			return e
		}
	}
	return nil
}

func version(v int) *Error {
	if v != Version {
		return New(CodeWrongVersion, "/v", fmt.Sprintf("wire version %d; this side speaks %d", v, Version))
	}
	return nil
}

func present(path, s string) *Error {
	if s == "" {
		return New(CodeMissing, path, "required")
	}
	return nil
}

// short bounds the strings that are kept for every node or shown in every table.
func short(path, s string) *Error {
	if len(s) > 256 {
		return New(CodeTooLarge, path, "longer than 256 bytes")
	}
	return nil
}

func positive(path string, n uint64) *Error {
	if n == 0 {
		return New(CodeMissing, path, "required, from 1")
	}
	return nil
}

func hash(path, h string) *Error {
	hexes, ok := strings.CutPrefix(h, HashPrefix)
	if !ok || len(hexes) != 2*sha256.Size || strings.Trim(hexes, "0123456789abcdef") != "" {
		return New(CodeBadValue, path, "not sha256: and 64 lower-case hex digits")
	}
	return nil
}

func bounded(e *Error) *Error {
	if e != nil && (len(e.Message) > MaxMessage || len(e.Path) > MaxPath || len(e.Code) > 64) {
		return New(CodeTooLarge, "/error", fmt.Sprintf("a message has at most %d bytes, a path %d", MaxMessage, MaxPath))
	}
	return nil
}

// HashPrefix begins every hash of the wire.
const HashPrefix = "sha256:"

// Hash names a body by its exact bytes: "sha256:" and 64 hex digits.
func Hash(body []byte) string {
	var buf [len(HashPrefix) + 2*sha256.Size]byte
	copy(buf[:], HashPrefix)
	sum := sha256.Sum256(body)
	hex.Encode(buf[len(HashPrefix):], sum[:])
	return string(buf[:])
}
