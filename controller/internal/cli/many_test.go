package cli

import (
	"bytes"
	"strings"
	"testing"

	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/controller/internal/tokens"
)

// TestOrderToNodes orders something of the nodes that a filter selects, one after the other on one unit, for people and
// as JSON.
func TestOrderToNodes(t *testing.T) {
	for _, suffix := range []string{"", "-json"} {
		b := newBench(t, apitest.StartSample(t))
		for _, c := range []struct{ name, args string }{
			{"dry", "node reboot --where type:mainType --reason kernel --dry-run"},
			{"dry-all", "node reboot --where name:* --reason kernel --dry-run"},
			{"dry-none", "node reboot --where type:none --reason kernel --dry-run"},
			{"pipe", "node reboot --where type:mainType --reason kernel"},
			{"pipe-all", "node reboot --where name:* --reason kernel"},
			{"pipe-none", "node reboot --where type:none --reason kernel"},
			{"yes", "node reboot --where type:mainType --reason kernel --yes"},
			{"yes-all", "node reboot --where name:* --reason kernel --yes"},
			{"yes-none", "node reboot --where type:none --reason kernel --yes"},
			{"offline", "node reboot --where name:* --reason kernel --yes-all-nodes --expect 4"},
			{"another-number", "node reboot --where type:mainType --reason kernel --expect 3"},
			{"others", "node reboot --where type:mainType --reason kernel --expect 2-0123456789abcdef"},
			{"bad-expect", "node reboot --where type:mainType --reason kernel --expect two"},
			{"no-expect", "node reboot --where type:mainType --reason kernel --expect="},
			{"those", "node reboot --where type:mainType --reason kernel --expect 2-b9f41a39d3adf705"},
			{"no-filter", "node reboot --where tpye:x --reason kernel --yes"},
			{"no-reason", "node reboot --where type:mainType --yes"},
			{"both", "node reboot node-1 --where type:mainType --reason kernel"},
			{"no-where", "node reboot node-1 --reason kernel --dry-run"},
			{"try", "node try --where node-1 --version 1.5.0 --yes"},
			{"approve", "node approve --where node-1 --version 1.5.0 --yes"},
			{"set", "property set --where type:mainType line 4 --yes"},
			{"set-bad", "property set --where type:mainType line {} --yes"},
			{"unset", "property unset --where name:* line --expect 4 --yes-all-nodes"},
			{"revoke", "node revoke --where state:offline --reason sold --yes"},
		} {
			args := strings.Fields(c.args)
			if suffix != "" {
				args = append(args, "--json")
			}
			golden(t, "node-many-"+c.name+suffix, b.transcript("", args...))
		}
	}
}

// TestOrderToNodesIsAsked: at a terminal whoever types y goes on, and for all nodes whoever types how many they are.
// Nothing is ordered if other nodes are selected by then.
func TestOrderToNodesIsAsked(t *testing.T) {
	const some, all = "type:mainType", "name:*"
	for _, c := range []struct{ where, typed, asks, want string }{
		{some, "y\n", "reboot: 2 nodes: node-1, node-2\nGo on? [y/N] ", "taken by 2 of 2 nodes"},
		{some, "Yes\n", "Go on? [y/N] ", "taken by 2 of 2 nodes"},
		{some, "\n", "Go on? [y/N] ", "nothing was ordered"},
		{some, "", "Go on? [y/N] ", "nothing was ordered"},
		{some, "2\n", "Go on? [y/N] ", "nothing was ordered"},
		{all, "4\n", "4 nodes, 1 of them offline: node-1, node-2, node-3, node-4\nThese are all nodes. Type 4, their " +
			"number, to go on: ", "taken by 3 of 4 nodes"},
		{all, "y\n", "Type 4", "nothing was ordered"},
		{"type:none", "", "", "no such node"},
	} {
		b := newBench(t, apitest.StartSample(t))
		b.io.InTerminal, b.io.ErrTerminal = true, true
		stdout, stderr, status := b.run(c.typed, "node", "reboot", "--where", c.where, "--reason", "kernel")
		if !strings.Contains(stderr, c.asks) || !strings.Contains(stdout+stderr, c.want) ||
			(status == exitRefused) != (c.want == "nothing was ordered") {
			t.Errorf("%s %q: status %d\n%s%s", c.where, c.typed, status, stdout, stderr)
		}
	}
}

// typing is whoever is asked: they answer yes once something has happened.
type typing func()

func (t typing) Read(p []byte) (int, error) {
	t()
	return copy(p, "y\n"), nil
}

// TestOrderToNodesAfterAQuestion: those are ordered that were shown. Others, though they are as many, are not.
func TestOrderToNodesAfterAQuestion(t *testing.T) {
	for _, c := range []struct {
		happens func(*apitest.Rig)
		want    string
	}{
		{func(*apitest.Rig) {}, "reboot: taken by 3 of 3 nodes\n"},
		{func(u *apitest.Rig) { u.Connect("node-1", false) }, "selects 2 nodes now, not 3: nothing was ordered"},
		{func(u *apitest.Rig) { u.Connect("node-1", false); u.Connect("node-4", true) },
			"selects 3 nodes as before, but not the same: nothing was ordered"},
	} {
		b := newBench(t, apitest.StartSample(t))
		var out bytes.Buffer
		io := b.surroundings()
		io.InTerminal, io.ErrTerminal = true, true
		io.In, io.Out, io.Err = typing(func() { c.happens(b.unit) }), &out, &out
		status := Run(b.ctx, []string{"node", "reboot", "--where", "online:yes", "--reason", "kernel"}, io)
		if !strings.Contains(out.String(), c.want) || (status == 0) != strings.Contains(c.want, "taken") {
			t.Errorf("status %d, %s; want %s", status, out.String(), c.want)
		}
	}
}

// TestOrderToNodesNeedsTheRole: what needs the role admin of one node needs it of many.
func TestOrderToNodesNeedsTheRole(t *testing.T) {
	b := newBench(t, apitest.StartSample(t))
	delete(b.env, "TANDEM_SOCKET")
	b.env["TANDEM_URL"] = b.tcp
	for role, want := range map[tokens.Role]int{
		tokens.View: exitRefused, tokens.Operate: exitRefused, tokens.Admin: 0,
	} {
		b.env["TANDEM_TOKEN"] = b.tokens[role]
		if _, stderr, status := b.run("", "node", "revoke", "--where", "node-4", "--yes"); status != want {
			t.Errorf("%s: status %d, %s", role, status, stderr)
		}
	}
}
