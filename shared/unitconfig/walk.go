package unitconfig

import (
	"bytes"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/shared/strictjson"
)

// walk calls visit for v, whose JSON pointer is ptr, and for every value in it, in document order. It panics unless v
// is JSON, which this package's own output is.
func walk(ptr string, v jsontext.Value, visit func(ptr string, v jsontext.Value)) {
	visit(ptr, v)
	kind := v.Kind()
	if kind != '{' && kind != '[' {
		return
	}
	dec := jsontext.NewDecoder(bytes.NewReader(v))
	must(dec.ReadToken())
	for i := 0; ; i++ {
		child := ptr + "/" + strconv.Itoa(i)
		switch dec.PeekKind() {
		case '}', ']':
			return
		}
		if kind == '{' {
			child = strictjson.Member(ptr, must(dec.ReadToken()).String())
		}
		walk(child, must(dec.ReadValue()).Clone(), visit)
	}
}

// must returns v, and panics on an error.
func must[T any](v T, err error) T {
	if err != nil {
		panic("unitconfig: own output cannot be read: " + err.Error())
	}
	return v
}

// leaf reports whether v has no values in it: a scalar, or an empty object or array.
func leaf(v jsontext.Value) bool {
	k := v.Kind()
	return k != '{' && k != '[' || len(bytes.TrimSpace(v[1:len(v)-1])) == 0
}

// index returns the array index in a token of a pointer from walk.
func index(token string) int { return must(strconv.Atoi(token)) }
