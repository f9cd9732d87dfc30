package op_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/op"
	"tandem.internal/shared/wire"
)

// TestVerbs: a source has the operations, and each submission the parameters, that make sense for it.
func TestVerbs(t *testing.T) {
	const always = "apply show status watch history diff rollback retry"
	for _, c := range []struct {
		subject           op.Subject
		verbs, parameters string
	}{
		{op.Subject{Name: "toys"}, always, "dryRun rollout offline force id"},
		{op.Subject{Name: "toys", Trial: true}, always + " confirm",
			"mode confirmWithin dryRun rollout offline force id"},
		{op.Subject{Name: "toys", Versioned: true, Lenient: true}, always,
			"version lenient dryRun rollout offline force id"},
		{op.Subject{Name: "toys", Copied: true}, always + " restore", "dryRun rollout offline force id"},
	} {
		var verbs, parameters []string
		for _, s := range c.subject.Specs() {
			verb, ok := strings.CutPrefix(s.Name, "toys.")
			if path := s.Path(); !ok || path != "/v1/toys" && !strings.HasPrefix(path, "/v1/toys/") {
				t.Errorf("%s %s", s.Name, path)
			}
			verbs = append(verbs, verb)
			if verb == "apply" {
				for _, p := range s.Input().Query {
					parameters = append(parameters, p.Name)
				}
			}
		}
		if got := strings.Join(verbs, " "); got != c.verbs {
			t.Errorf("%+v: %s, want %s", c.subject, got, c.verbs)
		}
		if got := strings.Join(parameters, " "); got != c.parameters {
			t.Errorf("%+v: %s, want %s", c.subject, got, c.parameters)
		}
	}
	in := op.Submit{Version: "1.0.0", Lenient: true, ID: "s1"}
	_, query := op.VerbsOf(op.Subject{Name: "toys"}).Apply.Spec().Request(&in)
	if query.Encode() != "id=s1" {
		t.Errorf("a parameter that the operation does not have is sent: %s", query.Encode())
	}
}

// TestSubmit: a mode is apply unless it is given, and a trial has a length.
func TestSubmit(t *testing.T) {
	for _, c := range []struct {
		in   op.Submit
		want string
	}{
		{op.Submit{}, "apply <nil>"},
		{op.Submit{Mode: wire.ModeTry, ConfirmWithin: time.Minute}, "try <nil>"},
		{op.Submit{Mode: wire.ModeTry}, "goes with mode=try"},
		{op.Submit{ConfirmWithin: time.Minute}, "goes with mode=try"},
		{op.Submit{Mode: "both"}, "is apply or try"},
		{op.Submit{Rollout: "{}"}, "apply <nil>"},
		{op.Submit{Rollout: "{}", Mode: wire.ModeTry, ConfirmWithin: time.Minute}, "on all nodes at once"},
	} {
		err := c.in.Check()
		got := fmt.Sprintf("%s %v", c.in.Mode, err)
		if !strings.Contains(got, c.want) {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
	if err := (&op.DiffIn{To: "1.0.0"}).Check(); err == nil || err.Code != wire.CodeInvalidArgument {
		t.Errorf("%v", err)
	}
	if !slices.ContainsFunc(op.VerbsOf(op.Subject{Name: "toys"}).Diff.Spec().Input().Query,
		func(p op.Param) bool { return p.Name == "from" && p.Need }) {
		t.Error("from is not required")
	}
}
