package near

import (
	"slices"
	"strings"
	"testing"
)

var known = []string{"apply", "check", "status", "history", "show", "node-1", "node-2", "Node-3"}

func TestBestAndAll(t *testing.T) {
	for name, want := range map[string]struct {
		best string
		all  []string
	}{
		"aply":                        {"apply", []string{"apply"}},     // a letter is missing
		"appyl":                       {"apply", []string{"apply"}},     // two are swapped
		"hist":                        {"history", []string{"history"}}, // the beginning
		"STATSU":                      {"status", []string{"status"}},   // case aside
		"hitsorry":                    {"history", []string{"history"}},
		"node-9":                      {"node-1", []string{"node-1", "node-2", "Node-3"}},
		"node-2":                      {"node-2", []string{"node-2"}}, // itself
		"node":                        {"node-1", []string{"node-1", "node-2", "Node-3"}},
		"rollback":                    {"", nil},
		"":                            {"", nil},
		"historically-long-and-wrong": {"", nil},
		strings.Repeat("apply", 100):  {"", nil},
	} {
		if got := Best(name, known); got != want.best {
			t.Errorf("Best of %.20q is %q, want %q", name, got, want.best)
		}
		if got := All(name, known); !slices.Equal(got, want.all) {
			t.Errorf("All of %.20q are %q, want %q", name, got, want.all)
		}
	}
}

// A search ends however many and however long the names are, and still finds what comes early.
func TestSearchIsBounded(t *testing.T) {
	long := strings.Repeat("x", 250)
	known := []string{long + "a"}
	for range 100_000 {
		known = append(known, strings.Repeat("y", 250))
	}
	if n := testing.AllocsPerRun(1, func() {
		if got := Best(long+"b", known); got != known[0] {
			t.Errorf("Best is %q", got)
		}
		if got := All(long+"b", known); !slices.Equal(got, known[:1]) {
			t.Errorf("All are %q", got)
		}
	}); n > 1_000 { // three for each pair of names that are compared
		t.Errorf("%v allocations", n)
	}
	if got := Best("apply", append(known, "aply")); got != "aply" {
		t.Errorf("behind names of another length: %q", got)
	}
}

func TestWords(t *testing.T) {
	for want, got := range map[string]string{
		`; did you mean "apply"?`:     Hint("aply", known),
		"":                            Hint("rollback", known) + Hint("apply", known) + Suggest(nil, ""),
		"; did you mean a?":           Suggest([]string{"a"}, "x"),
		"; did you mean one of a, b?": Suggest([]string{"a", "b"}, "x"),
		"; --help lists them":         Suggest([]string{"a", "b", "c", "d", "e"}, "--help lists them"),
		"; x":                         Suggest(nil, "x"),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
