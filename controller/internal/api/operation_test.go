package api

import (
	"testing"

	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/controller/internal/op"
)

// TestEveryOperationIsBound: what the table has is answered, once.
func TestEveryOperationIsBound(t *testing.T) {
	bound := map[string]int{}
	for _, b := range New(apitest.New(apitest.State{}), Config{}).operations() {
		bound[b.spec.Name]++
	}
	for _, s := range op.All() {
		if bound[s.Name] != 1 {
			t.Errorf("%s is bound %d times", s.Name, bound[s.Name])
		}
	}
}
