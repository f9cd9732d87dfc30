package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/controller/internal/rollout"
	"tandem.internal/controller/internal/rollout/plan"
	"tandem.internal/shared/wire"
)

// largeRollout is a unit of 10,000 nodes in the middle of its rollout: some have failed, many wait for room.
func largeRollout(tb testing.TB) *rollout.Set {
	tb.Helper()
	p, problems := plan.Parse([]byte(`{"waves": [{"percent": 30}, {"percent": 100}], "failureBudget": {"percent": 5}}`),
		time.LoadLocation)
	if problems != nil {
		tb.Fatal(problems)
	}
	set, seq := rollout.NewSet(time.LoadLocation), uint64(0)
	var issued []rollout.NodeHash
	step := func(ev rollout.Event) {
		var out rollout.Out
		if err := set.Step(apitest.Now, seq, ev, &out); err != nil {
			tb.Fatal(err)
		}
		seq += uint64(len(out.Records))
		for _, e := range out.Effects {
			issued = append(issued, e.Nodes...)
		}
	}
	facts, targets := rollout.Facts{}, map[string]string{}
	for i := range 10_000 {
		name := fmt.Sprintf("node-%05d", i)
		facts = append(facts, rollout.Fact{Node: name, Type: "edge", Online: true, Since: apitest.Now, Boot: "b"})
		targets[name] = "B"
	}
	step(facts)
	step(rollout.Begin{ID: "r1", Salt: "s", Kind: wire.KindConfig, Plan: p, Targets: targets})
	for _, n := range issued[:len(issued)/10] {
		failed := &rollout.Failure{Ref: rollout.Ref{Rev: seq, Hash: "B"}, Reason: "apply-failed: exit status 1"}
		step(rollout.Doc{Node: n.Node, Kind: wire.KindConfig, Failed: failed})
	}
	if v, _ := set.Show(apitest.Now, "r1"); v.Nodes.All != 10_000 || v.Nodes.Failed < 50 || v.Held == nil {
		tb.Fatalf("%+v", v)
	}
	return set
}

// benchRollout measures a command about a rollout of 10,000 nodes: the controller's answer, the way by the socket, and
// what is printed.
func benchRollout(b *testing.B, lines int, args ...string) {
	set := largeRollout(b)
	u := apitest.Start(b)
	served := benchOf(b, u, showing(u, set, apitest.Now))
	b.ResetTimer()
	for range b.N {
		io := served.surroundings()
		var out bytes.Buffer
		io.Out = &out
		if exit := Run(b.Context(), args, io); exit != 0 || strings.Count(out.String(), "\n") < lines {
			b.Fatalf("exit status %d\n%s", exit, out.String())
		}
	}
}

func BenchmarkRolloutShow(b *testing.B) {
	benchRollout(b, 100, "rollout", "show", "r1", "--limit", "100")
}
func BenchmarkRolloutList(b *testing.B) { benchRollout(b, 2, "rollout", "list") }

// BenchmarkRolloutFloor is a request by the same socket that asks nothing of the unit.
func BenchmarkRolloutFloor(b *testing.B) {
	served := benchOf(b, apitest.Start(b), apitest.Start(b))
	c := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", served.socket)
		},
	}}
	b.ResetTimer()
	for range b.N {
		r, err := c.Get("http://tandem/healthz")
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			b.Fatal(err)
		}
		if err := r.Body.Close(); err != nil {
			b.Fatal(err)
		}
		c.CloseIdleConnections() // as a command has a connection of its own
	}
}
