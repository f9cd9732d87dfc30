package cli

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"tandem.internal/controller/internal/api"
	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/rollout"
	"tandem.internal/controller/internal/tokens"
	"tandem.internal/controller/internal/view"
)

// completes runs the hidden command that shells call, and returns the names.
func (b *bench) completes(args ...string) string {
	b.t.Helper()
	out, errs, exit := b.run("", append([]string{"__complete"}, args...)...)
	if exit != 0 || strings.Contains(errs, "tandem:") {
		b.t.Errorf("%q: %d %s", args, exit, errs)
	}
	var names []string
	for line := range strings.Lines(out) {
		if !strings.HasPrefix(line, ":") && !strings.Contains(line, "\t") { // a directive; a command
			names = append(names, strings.TrimSpace(line))
		}
	}
	return strings.Join(names, " ")
}

const allNodes = "node-1 node-2 node-3 node-4"

// TestCompletion: names of the unit complete where commands take them, and nowhere else.
func TestCompletion(t *testing.T) {
	u := apitest.StartSample(t)
	receivesNotices(u)
	b := benchOf(t, u, apitest.Instead(u,
		api.Ask(op.ListPolicies, fixed(view.Policies{Policies: []view.Policy{{Name: "press"}, {Name: "line"}}})),
		api.Ask(op.ListRollouts, fixed(view.Rollouts{Rollouts: []view.Rollout{{View: rollout.View{ID: "r7"}}}})),
		api.Ask(op.ListSubjects, fixed(view.Subjects{Subjects: []view.Subject{{Codename: "line-4"}}})),
		apitest.Fixed(op.ListItems, view.Items{Items: []view.Item{{Codename: "web"}, {Codename: "web"},
			{Codename: "$(reboot)"}, {Codename: "a b"}, {Codename: "we\x1b[2J"}}}),
		apitest.Fixed(op.ListSlots, op.Slots{Slots: []view.Slot{{Slot: "web@node-1"}, {Slot: "db@node-2"}}})))
	b.io.Config = b.dir + "/home"
	b.runs("context", "add", "line4", "--socket", b.socket)
	b.runs("context", "add", "line5", "--url", b.tcp)
	for args, want := range map[string]string{
		"node ": allNodes, "node reboot node-": allNodes, "why node node-4": "node-4", "health x": "",
		"config show --node node-": allNodes, "events --node ": allNodes, "diff ": "", "node diff node-3": "node-3",
		"policy show p": "press", "policy status ": "line press", "policy apply ": "", "why policy p": "press",
		"policy why press node-": allNodes, "rollout show ": "r7", "rollout pause r": "r7",
		"subject show ": "line-4", "subject attach l": "line-4", "item show ": "web", "item show web ": "",
		"desired why node-1 w": "web", "workload restart w": "web@node-1", "workload why ": "db@node-2 web@node-1",
		"notify show p": "pager presses", "notify add p": "", "context use ": "line4 line5",
		"context remove line5": "line5", "nodes --context l": "line4 line5", "context use line4 ": "",
		"token create ": "", "diag --logs ": allNodes,
		"diag --logs node-2,":              "node-2,node-1 node-2,node-3 node-2,node-4",
		"diag --logs node-2,node-3,node-1": "node-2,node-3,node-1", "diag --logs node-2,x": "",
		"events --node node-2,": "", "policy match p --node node-": "",
		"why document node-1 con": "config", "node log-level node-1 d": "debug default", "unit log-level w": "warn",
		"token create x --role ": "admin metrics operate view", "nodes --sort s": "since state",
		"token revoke v": "view", "node forget node-1 node-": allNodes,
	} {
		if got := b.completes(strings.Split(args, " ")...); got != want {
			t.Errorf("%s: %q, want %q", args, got, want)
		}
	}
}

// TestNoFilesAreCompleted: where an argument is no file, a shell proposes none.
func TestNoFilesAreCompleted(t *testing.T) {
	b := newBench(t, apitest.StartSample(t))
	for args, files := range map[string]bool{
		"nodes ": false, "nodes a:b ": false, "node reboot --where ": false, "why node node-1 ": false,
		"nodes --state ": false, "unit log-level ": false, "config apply ": true,
	} {
		out, _, _ := b.run("", append([]string{"__complete"}, strings.Split(args, " ")...)...)
		if strings.HasSuffix(out, ":0\n") != files {
			t.Errorf("%s: %s", args, out)
		}
	}
}

// TestCompletionIsSilentAndBounded: what goes wrong is not told in the middle of a line that is typed, nor waited for,
// and of many names some are shown.
func TestCompletionIsSilentAndBounded(t *testing.T) {
	u := apitest.StartSample(t)
	many := view.Policies{}
	for i := range 1000 {
		many.Policies = append(many.Policies, view.Policy{Name: fmt.Sprintf("p%04d", i)})
	}
	b := benchOf(t, u, apitest.Instead(u, api.Ask(op.ListPolicies, fixed(many)),
		api.Ask(op.ListRollouts, func(ctx context.Context) (view.Rollouts, error) {
			<-ctx.Done() // when the caller has gone
			return view.Rollouts{}, ctx.Err()
		})))
	if n := len(strings.Fields(b.completes("policy", "show", ""))); n != 100 {
		t.Errorf("%d names", n)
	}
	if got := b.completes("policy", "show", "p0999"); got != "p0999" {
		t.Errorf("%q", got)
	}
	if got := b.completes("rollout", "show", ""); got != "" {
		t.Errorf("%q", got)
	}
	b.env = map[string]string{"TANDEM_TOKEN": b.tokens[tokens.Metrics]}
	for _, door := range [][]string{
		{"--socket", b.dir + "/none"}, {"--url", b.tcp}, {"--url", "x"}, {"--context", "x"},
	} {
		if got := b.completes(append(door, "node", "reboot", "")...); got != "" {
			t.Errorf("%q: %q", door, got)
		}
	}
}
