package apidoc

import (
	"reflect"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Schema returns the JSON schema, 2020-12, of a file that people write: of type t, with members that are listed and no
// others. Root is the directory of the workspace. The error names everything that lacks a comment.
func Schema(root, title string, t reflect.Type) ([]byte, error) {
	s := &schemas{
		src: source{root: root, packages: map[string]*comments{}}, names: map[reflect.Type]string{}, file: true,
	}
	ref := s.of(t)
	doc, err := json.Marshal(append(object{
		{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"title", title},
	}, append(ref, member{"$defs", s.components()})...), jsontext.WithIndent(" "), jsontext.EscapeForHTML(false))
	if err != nil {
		return nil, err
	}
	return append(doc, '\n'), s.err()
}
