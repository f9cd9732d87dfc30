package workload

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// EnvPrefix begins the name of a property that hooks find in their environment by the rest of the name, too.
const EnvPrefix = "env."

// SecretPrefix begins the names of properties whose values are hidden from those who may only view the unit.
const SecretPrefix = "secret."

// Hidden is what those see instead.
const Hidden = "(hidden)"

// IsSecret reports whether a property has a name that hides its value.
func IsSecret(name string) bool { return strings.HasPrefix(name, SecretPrefix) }

// Hide returns a JSON document without the values of the members that have such a name, and otherwise as it is; the
// error is that of its syntax.
func Hide(document []byte) ([]byte, error) {
	dec := jsontext.NewDecoder(bytes.NewReader(document), jsontext.AllowDuplicateNames(true))
	var out []byte
	done := 0 // bytes of document that out stands for
	for {
		kind, length := dec.StackIndex(dec.StackDepth())
		if kind != '{' || length%2 == 0 || !IsSecret(dec.StackPointer().LastToken()) { // not the value of a secret
			switch _, err := dec.ReadToken(); {
			case errors.Is(err, io.EOF):
				return append(out, document[done:]...), nil
			case err != nil:
				return nil, err
			}
			continue
		}
		value, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		end := int(dec.InputOffset())
		out = append(append(out, document[done:end-len(value)]...), '"')
		out = append(append(out, Hidden...), '"')
		done = end
	}
}
