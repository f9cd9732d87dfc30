package api_test

import (
	"fmt"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
)

// openapi is the document that is served.
var openapi = sync.OnceValues(func() (doc map[string]any, err error) {
	text, err := os.ReadFile("openapi.json")
	if err == nil {
		err = json.Unmarshal(text, &doc)
	}
	return doc, err
})

// described reports whether an answer to a request is one that the document describes.
func described(t *testing.T, method, target string, w *httptest.ResponseRecorder) {
	t.Helper()
	doc, err := openapi()
	if err != nil {
		t.Fatal(err)
	}
	path, _, _ := strings.Cut(target, "?")
	o := operationAt(doc, method, path)
	if o == nil || !strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") {
		return // no operation: nothing is there; no JSON: a stream or a file
	}
	responses := o["responses"].(map[string]any)
	response, ok := responses[fmt.Sprint(w.Code)].(map[string]any)
	if !ok {
		response = follow(doc, responses["default"].(map[string]any))
	}
	media, ok := response["content"].(map[string]any)["application/json"].(map[string]any)
	if !ok {
		t.Errorf("%s %s: status %d with JSON is not described", method, target, w.Code)
		return
	}
	var v any
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		t.Errorf("%s %s: %v", method, target, err)
		return
	}
	if err := fits(doc, media["schema"].(map[string]any), v, ""); err != nil {
		t.Errorf("%s %s: %v in %s", method, target, err, w.Body)
	}
}

// operationAt finds the operation of a path, nil if there is none.
func operationAt(doc map[string]any, method, path string) map[string]any {
	var found map[string]any
	fewest := 100
	for pattern, item := range doc["paths"].(map[string]any) {
		o, ok := item.(map[string]any)[strings.ToLower(method)].(map[string]any)
		want, got := strings.Split(pattern, "/"), strings.Split(path, "/")
		if !ok || len(want) != len(got) {
			continue
		}
		parts := 0
		for i := range want {
			if strings.HasPrefix(want[i], "{") {
				parts++
			} else if want[i] != got[i] {
				parts = 100
			}
		}
		if parts < fewest {
			found, fewest = o, parts
		}
	}
	return found
}

// follow returns what a schema refers to, or the schema itself.
func follow(doc, schema map[string]any) map[string]any {
	ref, ok := schema["$ref"].(string)
	if !ok {
		return schema
	}
	at := doc
	for part := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
		at = at[part].(map[string]any)
	}
	return at
}

// fits returns why a value is not what a schema describes; a member that it does not name is a mistake.
func fits(doc, schema map[string]any, v any, at string) error {
	schema = follow(doc, schema)
	if anyOf, ok := schema["anyOf"].([]any); ok {
		var err error
		for _, s := range anyOf {
			if err = fits(doc, s.(map[string]any), v, at); err == nil {
				return nil
			}
		}
		return err
	}
	names := map[string]string{
		"string": "string", "number": "float64", "integer": "float64", "boolean": "bool",
		"array": "[]interface {}", "object": "map[string]interface {}", "null": "<nil>",
	}
	kind, _ := schema["type"].(string)
	if kind == "" {
		return nil // anything
	}
	if got := fmt.Sprintf("%T", v); got != names[kind] {
		return fmt.Errorf("%s is %s, and described as %s", at, got, kind)
	}
	switch v := v.(type) {
	case []any:
		for i, e := range v {
			if err := fits(doc, schema["items"].(map[string]any), e, fmt.Sprintf("%s/%d", at, i)); err != nil {
				return err
			}
		}
	case map[string]any:
		return fitsObject(doc, schema, v, at)
	}
	return nil
}

func fitsObject(doc, schema, v map[string]any, at string) error {
	required, _ := schema["required"].([]any)
	for _, name := range required {
		if _, ok := v[name.(string)]; !ok {
			return fmt.Errorf("%s/%s is required and missing", at, name)
		}
	}
	properties, _ := schema["properties"].(map[string]any)
	others, open := schema["additionalProperties"].(map[string]any)
	for name, e := range v {
		s, ok := properties[name].(map[string]any)
		if !ok && !open {
			return fmt.Errorf("%s/%s is not described", at, name)
		}
		if !ok {
			s = others
		}
		if err := fits(doc, s, e, at+"/"+name); err != nil {
			return err
		}
	}
	return nil
}

// TestFits: what does not fit is seen.
func TestFits(t *testing.T) {
	doc, err := openapi()
	if err != nil {
		t.Fatal(err)
	}
	schema := map[string]any{"$ref": "#/components/schemas/Verification"}
	for text, want := range map[string]string{
		`{"ok":true,"report":"all"}`:       "<nil>",
		`{"ok":true}`:                      "/report is required and missing",
		`{"ok":1,"report":"all"}`:          "/ok is float64",
		`{"ok":true,"report":"all","x":1}`: "/x is not described",
		`[]`:                               "described as object",
	} {
		var v any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(fits(doc, schema, v, "")); !strings.Contains(got, want) {
			t.Errorf("%s: %s", text, got)
		}
	}
}
