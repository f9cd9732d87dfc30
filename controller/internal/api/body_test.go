package api_test

import (
	"strings"
	"testing"

	"tandem.internal/controller/internal/api"
	"tandem.internal/controller/internal/api/apitest"
)

// What is wrong with a body is said with its place.
func TestBodiesThatAreNoJSON(t *testing.T) {
	h := api.New(apitest.StartSample(t), api.Config{Tokens: keys})
	for body, want := range map[string]string{
		"":                               `"message":"the body is empty; a JSON object is needed"`,
		"{\"where\":\"é\",\n \"expect\"": `"message":"the body is not JSON: it ends too early","line":2,"column":10`,
		"{\"where\":\"é\",,}":            `","line":1,"column":14`,
		`{"were":""}`:                    `"path":"/were"`,
		`{"where":"type:*","reboot":{"reason":"x"}}`: `set this if that is meant`,
	} {
		w := call(h, "POST", "/v1/nodes/order", body)
		if w.Code/100 != 4 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s; want %s", body, w.Code, w.Body, want)
		}
	}
	w := call(h, "GET", "/v1/nodes/node-1/documents/konfig/why", "")
	if want := "there are components, config, health"; w.Code != 404 || !strings.Contains(w.Body.String(), want) {
		t.Error(w.Body)
	}
}
