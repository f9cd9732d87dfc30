package items

import "testing"

// TestNear: who has another type in mind, or misspells a name, is told what there is.
func TestNear(t *testing.T) {
	known := []Ref{{Service, "sensor"}, {Component, "base"}, {Layer, "base"}, {Service, "view"}}
	for _, c := range []struct {
		r    Ref
		want string
	}{
		{Ref{Component, "sensor"}, "; did you mean service/sensor?"},
		{Ref{Service, "sensr"}, "; did you mean service/sensor?"},
		{Ref{"", "sensr"}, "; did you mean service/sensor?"},
		{Ref{Component, "bse"}, "; did you mean component/base?"},
		{Ref{Service, "base"}, "; did you mean one of component/base, layer/base?"},
		{Ref{Service, "other"}, ""},
	} {
		if got := Near(c.r, known); got != c.want {
			t.Errorf("%s: %q, want %q", c.r, got, c.want)
		}
	}
}
