package wire

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// strict are the options for decoding: names are case-sensitive; duplicate names, and names that the contract does not
// have, are errors.
var strict = json.JoinOptions(json.RejectUnknownMembers(true))

// Message is any message of the wire.
type Message interface {
	Desired | Reported | Live | Event | Request | Reply | Beacon | Submission | Answer | UnitStatus |
		CheckParams | CheckResult | EventsParams | NewestParams | ShowParams | Shown | ConfirmParams | NodeInfo |
		Health | HealthSettings | RebootParams | TryParams | ApproveParams |
		Workloads | LogsParams | LogsResult | RestartParams | Policies | PoliciesReport | Components |
		ComponentsReport | AgentLogParams | AgentLog | LogLevelParams | Samples
}

// Decode decodes and checks one message. The error is always a *Error whose path is a JSON pointer into the message.
// Raw fields (Body, Params, Result, Detail, Document) are copies of the exact bytes in data. A field that is null
// counts as absent; a message that is null is an error.
func Decode[M Message](data []byte) (*M, error) {
	m := new(M)
	if err := decode(data, m); err != nil {
		return nil, err
	}
	return m, nil
}

// decode is Decode into a pointer to any message: one function for all of them.
func decode(data []byte, m any) error {
	if len(data) > MaxPayload {
		return New(CodeTooLarge, "", fmt.Sprintf("%d bytes; a message has at most %d", len(data), MaxPayload))
	}
	if tooDeep(data) {
		return New(CodeMalformed, "", fmt.Sprintf("nested more than %d deep", maxDepth))
	}
	if err := Unmarshal(data, m, strict); err != nil {
		return AsError(err)
	}
	if data = bytes.TrimLeft(data, " \t\r\n"); data[0] != '{' {
		return New(CodeBadValue, "", "a message is an object")
	}
	return check(m)
}

// Unmarshal decodes JSON into a pointer, as package json does. Times may have a t or z in lower case (RFC 3339, section
// 5.6), which the library refuses: hardly anybody writes them so, and messages without them cost nothing more.
func Unmarshal(data []byte, m any, opts ...json.Options) error {
	err := json.Unmarshal(data, m, opts...)
	if s, ok := errors.AsType[*json.SemanticError](err); !ok || s.GoType != reflect.TypeFor[time.Time]() {
		return err
	}
	reflect.ValueOf(m).Elem().SetZero()
	if json.Unmarshal(data, m, append(opts, anyCase)...) == nil {
		return nil
	}
	return err
}

// anyCase reads times with a t and z of any case.
var anyCase = json.WithUnmarshalers(json.UnmarshalFromFunc(func(d *jsontext.Decoder, t *time.Time) error {
	if d.PeekKind() != '"' {
		return errors.ErrUnsupported
	}
	text, err := d.ReadValue()
	if err != nil {
		return err
	}
	return t.UnmarshalJSON(bytes.ToUpper(text))
}))

// maxDepth is the deepest nesting of a message. Documents have far less, and decoding so many levels needs little
// memory.
const maxDepth = 128

// tooDeep reports whether data is nested deeper than maxDepth. It allocates nothing. It first counts all brackets, also
// those in strings: that is several times faster, and is enough for nearly every message.
func tooDeep(data []byte) bool {
	if len(data) <= maxDepth || bytes.Count(data, []byte{'{'})+bytes.Count(data, []byte{'['}) <= maxDepth {
		return false
	}
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

// AsError returns err as an *Error. An *Error that err wraps is returned as it is. An error of the JSON library gets
// its JSON pointer. Any other error gets CodeMalformed.
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

// HashPrefix is the beginning of every hash of the contract.
const HashPrefix = "sha256:"

// Hash returns the SHA-256 of a body's exact bytes: "sha256:" and 64 hexadecimal digits.
func Hash(body []byte) string {
	var buf [len(HashPrefix) + 2*sha256.Size]byte
	copy(buf[:], HashPrefix)
	sum := sha256.Sum256(body)
	hex.Encode(buf[len(HashPrefix):], sum[:])
	return string(buf[:])
}
