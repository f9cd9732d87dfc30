package bittorrent

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"tandem.internal/nodeagent/internal/fetch"
	"tandem.internal/nodeagent/internal/fetch/fetchtest"
	"tandem.internal/nodeagent/internal/inbox"
	"tandem.internal/nodeagent/internal/kinds/policies"
	"tandem.internal/nodeagent/internal/policy"
	"tandem.internal/shared/clock"
	"tandem.internal/shared/event"
	"tandem.internal/shared/wire"
)

// agent is what a node has of BitTorrent: one client, its resources, and what its policies fetch. It is the kind's
// host.
type agent struct {
	t         *testing.T
	dir       string
	resources *node
	releases  *node // its swarm alone; nil until it is there
	kind      *policies.Policies
	staged    chan string // contents
	states    chan string // as they are reported
	stop      func()
}

func (a *agent) Do(f func())                               { f() }
func (a *agent) Later(func(context.Context) (then func())) { panic("not used") }
func (a *agent) Report(wire.Kind)                          {}
func (a *agent) Emit(_ string, err *wire.Error, detail any) {
	a.states <- fmt.Sprint(detail.(event.PolicyDetail).State, " ", err)
}

// beginAgent starts an agent in dir.
func beginAgent(t *testing.T, dir string, peers fetch.Peers, u policy.Update) *agent {
	t.Helper()
	limit := fetch.NewLimiter(0)
	torrents, err := New(fetch.TorrentsConfig{Peers: peers, Limit: limit})
	if err != nil {
		t.Fatal(err)
	}
	a := &agent{t: t, dir: dir, releases: &node{t: t}, staged: make(chan string, 1), states: make(chan string, 100)}
	a.resources = beginIn(t, fetch.Config{Dir: filepath.Join(dir, "resources"), Limit: limit}, torrents)
	began := time.Now()
	a.kind, err = policies.New(policies.Config{
		Dir: dir, Log: zaptest.NewLogger(t), Chance: rand.Float64, Serves: peers.Listen != "",
		Now: func() clock.Now { return clock.Now{Mono: time.Since(began), Wall: time.Now()} },
		Open: func(dir string) (policies.Store, error) {
			return fetch.Open(fetch.Config{Dir: dir, Limit: limit, Log: zaptest.NewLogger(t),
				Torrents: joined{torrents, a.releases}})
		},
		Stage: func(_ context.Context, _ wire.AgentRelease, path, _ string) (uint64, *wire.Error, bool) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Error(err)
			}
			a.staged <- string(data)
			return 4, nil, false
		},
	}, a)
	if err != nil {
		t.Fatal(err)
	}
	end := fetchtest.Run(t, func(ctx context.Context) error { a.kind.Kind().Run(ctx); return nil })
	a.stop = func() { end(); a.resources.stop(); torrents.Close() }
	t.Cleanup(a.stop)
	a.kind.Updated(u)
	return a
}

// desire has the policy of a document go to a release.
func (a *agent) desire(r wire.AgentRelease) {
	a.t.Helper()
	up := &wire.AgentUpgrade{Version: wire.VersionCurrent, Start: time.Now().Add(-time.Hour)}
	doc := &wire.Policies{FormatVersion: wire.PoliciesFormat, Agents: []wire.AgentRelease{r},
		Policies: []wire.NodePolicy{{Name: "p", Rev: 1, Agent: up}}}
	k := a.kind.Kind()
	in := inbox.Doc{Body: wire.Encode(doc), Stamp: wire.Stamp{Epoch: 1, Rev: 1}}
	content, errs := k.Check(in)
	if errs != nil {
		a.t.Fatal(errs[0])
	}
	in.Content = content
	if err := k.InForce(in); err != nil {
		a.t.Fatal(err)
	}
}

func (a *agent) stages(want []byte) {
	a.t.Helper()
	select {
	case got := <-a.staged:
		if got != string(want) {
			a.t.Fatalf("%d bytes are staged, of another content", len(got))
		}
	case <-time.After(late):
		a.t.Fatal("nothing is staged")
	}
}

// TestReleasesFromPeers: a node that has fetched a version of the agent from the store gives it to others, after the
// restart into it, too, by the client that its resources have. What is another content is not staged, whoever sends it.
func TestReleasesFromPeers(t *testing.T) {
	program, resource := content(11, 3<<20+7), content(12, 1<<20)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data := program
		if r.URL.Path == "/resource" {
			data = resource
		}
		http.ServeContent(w, r, "x.bin", time.Time{}, bytes.NewReader(data))
	}))
	defer site.Close()
	release := wire.AgentRelease{Version: "1.1.0", Hash: wire.Hash(program), Size: int64(len(program)),
		URLs: []string{site.URL + "/program", plainURL(t, program)}}
	wanted := artifact(sha(resource), len(resource), site.URL+"/resource", plainURL(t, resource))
	listen := fetch.Peers{Listen: "127.0.0.1:0", Allow: []string{"127.0.0.1"}}
	old := policy.Update{Running: "1.0.0", Slots: true}
	dir := t.TempDir()

	one := beginAgent(t, dir, listen, old)
	one.desire(release)
	one.stages(program)
	one.stop()
	one = beginAgent(t, dir, listen, policy.Update{Running: "1.1.0", Slots: true, Number: 4,
		Ended: []policy.Outcome{{Number: 4, Kept: true}}})
	one.desire(release)
	one.resources.Want(wants{wanted})
	one.resources.ready(wanted, resource)
	at := served(one.resources)
	if other := served(one.releases); other != at {
		t.Fatalf("releases are served at %s, resources at %s", other, at)
	}
	site.Close()

	two := beginAgent(t, t.TempDir(), fetch.Peers{Addresses: []string{at}}, old)
	two.resources.Want(wants{wanted})
	two.desire(release)
	two.stages(program)
	two.resources.ready(wanted, resource)

	three := beginAgent(t, t.TempDir(), fetch.Peers{Addresses: []string{at}}, old)
	release.Hash = wire.Hash([]byte("another program"))
	three.desire(release)
	for end, failed := time.After(late), false; !failed; {
		select {
		case state := <-three.states: // the first failure may be that of the site
			failed = strings.Contains(state, string(wire.PolicyDownloadFailed)) &&
				strings.Contains(state, string(wire.CodeHashMismatch))
		case <-three.staged:
			t.Fatal("another content is staged")
		case <-end:
			t.Fatal("it does not fail")
		}
	}

	// What one store served ends with it, and the other goes on.
	one.resources.stop()
	if all := one.releases.swarm.client.Torrents(); len(all) != 1 {
		t.Errorf("%d torrents are served", len(all))
	}
}
