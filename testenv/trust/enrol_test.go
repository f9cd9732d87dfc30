package trust

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	controller "tandem.internal/controller/app"
	node "tandem.internal/nodeagent/app"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/wire"
)

// batch makes a batch, and returns its token.
func (r *Rig) batch(in controller.NewBatch) string {
	r.t.Helper()
	if in.From == nil {
		in.From = []string{"127.0.0.0/8"}
	}
	g, err := r.App.Unit().CreateBatch(controller.As(r.t.Context(), "ann"), in)
	if err != nil {
		r.t.Fatal(err)
	}
	return g.Token
}

// joinAs has a machine of that name join with the token of a batch.
func (r *Rig) joinAs(name, token string, steps ...durable.Steps) error {
	deps := node.JoinDeps{Now: r.Now}
	if len(steps) > 0 {
		deps.Steps = steps[0]
	}
	_, err := node.Join(r.t.Context(), node.JoinConfig{Controller: r.App.JoinURL(), Token: token, Node: name,
		StateDir: filepath.Join(r.Dir, name)}, deps)
	return err
}

func (r *Rig) pending() (nodes []controller.Pending) {
	r.t.Helper()
	all, err := r.App.Unit().Pending(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return all.Nodes
}

func (r *Rig) approve(names ...string) error {
	var in controller.JoinOrder
	for _, name := range names {
		node, key, _ := strings.Cut(name, "=")
		in.Nodes = append(in.Nodes, controller.NodeKey{Node: node, Key: key})
	}
	_, err := r.App.Unit().ApproveJoin(controller.As(r.t.Context(), "ann"), in)
	return err
}

// batchOf is what is listed of a batch.
func (r *Rig) batchOf(name string) (b controller.Batch) {
	r.t.Helper()
	all, err := r.App.Unit().Batches(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	i := slices.IndexFunc(all.Batches, func(b controller.Batch) bool { return b.Batch == name })
	if i < 0 {
		r.t.Fatalf("there is no batch %s", name)
	}
	return all.Batches[i]
}

// together does something for each name, a few at a time, and returns how often it went well.
func together(names []string, do func(name string) error) (good int, bad []error) {
	const atATime = 8
	var mu sync.Mutex
	var wg sync.WaitGroup
	queue := make(chan string)
	for range atATime {
		wg.Go(func() {
			for name := range queue {
				err := do(name)
				mu.Lock()
				if err == nil {
					good++
				} else {
					bad = append(bad, fmt.Errorf("%s: %w", name, err))
				}
				mu.Unlock()
			}
		})
	}
	for _, name := range names {
		queue <- name
	}
	close(queue)
	wg.Wait()
	return good, bad
}

func numbered(prefix string, n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("%s-%d", prefix, i))
	}
	return names
}

// A thousand nodes behind one address: of a list, by a batch on sight, and by one that has to be approved. The
// controller is stopped in the middle.
func TestThousandNodesJoin(t *testing.T) {
	r := NewRig(t)
	listed, seen, asked := numbered("oven", 400), numbered("press", 300), numbered("drill", 300)
	var in controller.EnrolList
	for _, name := range listed {
		in.Nodes = append(in.Nodes, controller.ListedNode{Node: name})
	}
	began := time.Now()
	all, err := r.App.Unit().EnrolNodes(controller.As(t.Context(), "ann"), in)
	if err != nil || len(all.Nodes) != len(listed) {
		t.Fatal(len(all.Nodes), err)
	}
	tokens := map[string]string{}
	for _, n := range all.Nodes {
		tokens[n.Node] = n.Token
	}
	sight := r.batch(controller.NewBatch{Name: "sight", Count: 300, Names: []string{"press-*"}, OnSight: true})
	one := r.batch(controller.NewBatch{Name: "one", Count: 300, Names: []string{"drill-*"}})

	if good, bad := together(listed, func(name string) error { return r.Join(name, tokens[name]) }); len(bad) > 0 {
		t.Fatalf("%d joined; %v", good, bad[0])
	}
	if good, bad := together(seen[:150], func(name string) error { return r.joinAs(name, sight) }); len(bad) > 0 {
		t.Fatalf("%d joined; %v", good, bad[0])
	}
	waits := func(name string) error {
		if err := r.joinAs(name, one); !errors.Is(err, &wire.Error{Code: wire.CodeUnavailable}) {
			return fmt.Errorf("it does not wait: %w", err)
		}
		return nil
	}
	if _, bad := together(asked, waits); len(bad) > 0 {
		t.Fatal(bad[0])
	}
	if got := r.pending(); len(got) != len(asked) {
		t.Fatalf("%d wait", len(got))
	}
	if err := r.approve(asked[:200]...); err != nil {
		t.Fatal(err)
	}
	r.Stop()
	r.Start(nil) // who waits has to ask again, who was approved has not
	if got := r.pending(); len(got) != 200 {
		t.Errorf("%d of 200 that were approved are left", len(got))
	}
	if good, bad := together(asked[:200], func(name string) error { return r.joinAs(name, one) }); len(bad) > 0 {
		t.Fatalf("%d joined; %v", good, bad[0])
	}
	if _, bad := together(asked[200:], waits); len(bad) > 0 {
		t.Fatal(bad[0])
	}
	if err := r.approve(asked[200:]...); err != nil {
		t.Fatal(err)
	}
	rest := slices.Concat(asked[200:], seen[150:])
	good, bad := together(rest, func(name string) error {
		if strings.HasPrefix(name, "drill") {
			return r.joinAs(name, one)
		}
		return r.joinAs(name, sight)
	})
	if len(bad) > 0 {
		t.Fatalf("%d joined; %v", good, bad[0])
	}
	t.Logf("1,000 nodes joined in %v", time.Since(began).Round(time.Millisecond))

	wantCode(t, "the 301st on sight", r.joinAs("press-x", sight), wire.CodeWrongState)
	wantCode(t, "the 301st", r.joinAs("drill-x", one), wire.CodeWrongState)
	for _, name := range []string{"sight", "one"} {
		if b := r.batchOf(name); b.Joined != 300 || b.State != "full" || b.Approved != 0 {
			t.Errorf("%+v", b)
		}
	}
	serials := map[string]bool{}
	for _, e := range r.Entries("joined") {
		serials[string(e.Data)] = true
	}
	if len(serials) != 1000 {
		t.Errorf("%d joins are in the journal", len(serials))
	}
	for _, name := range []string{"oven-7", "press-299", "drill-0"} {
		r.Agent(name)
		r.Online(name, true)
	}
}

// Of more machines than a batch is for, as many get in as it is for, whatever goes wrong on the way, and one that has
// lost its answer has its place.
func TestBatchIsCounted(t *testing.T) {
	r := NewRig(t)
	token := r.batch(controller.NewBatch{Name: "line4", Count: 10, OnSight: true})
	lost := errors.New("the disk is full")
	var calls atomic.Int32
	names := numbered("press", 30)
	joined, bad := together(names, func(name string) error {
		steps := durable.Steps(nil)
		if calls.Add(1)%2 == 0 {
			first := true
			steps = func(s durable.Step) error {
				if s != durable.Rename {
					return nil
				}
				if first { // of the key, before anything is asked
					first = false
					return nil
				}
				return lost
			}
		}
		err := r.joinAs(name, token, steps)
		if errors.Is(err, lost) { // it was let in, and has lost the answer
			err = r.joinAs(name, token)
		}
		return err
	})
	if joined != 10 {
		t.Errorf("%d joined: %v", joined, bad)
	}
	for _, err := range bad {
		// The door is closed for a while to an address with ten failures.
		if code := wire.AsError(errors.Unwrap(err)).Code; code != wire.CodeWrongState && code != wire.CodeUnavailable {
			t.Error(err)
		}
	}
	r.Stop()
	r.Start(nil)
	if b := r.batchOf("line4"); b.Joined != 10 || b.State != "full" {
		t.Errorf("%+v", b)
	}
	r.Pass(10 * time.Minute)
	wantCode(t, "one more, after a restart", r.joinAs("press-x", token), wire.CodeWrongState)
}

// What a batch does not let in, and why: each is told, and the controller's answer names no secret.
func TestBatchBounds(t *testing.T) {
	r := NewRig(t)
	r.Joined("press-1")
	far := r.batch(controller.NewBatch{Name: "far", Count: 5, From: []string{"10.0.0.0/8"}, OnSight: true})
	near := r.batch(controller.NewBatch{Name: "near", Count: 5, Names: []string{"press-*"}, TTL: "PT1H"})
	wantCode(t, "another network", r.joinAs("press-2", far), wire.CodeNotAllowed)
	wantCode(t, "another name", r.joinAs("drill-2", near), wire.CodeWrongTarget)
	wantCode(t, "a node that is there", r.joinAs("press-1", near), wire.CodeWrongState)
	wantCode(t, "one that waits", r.joinAs("press-2", near), wire.CodeUnavailable)
	key := r.pending()[0].Key
	err := r.joinAs("press-2", near)
	if !strings.Contains(fmt.Sprint(err), key[:16]) {
		t.Errorf("the node is not told its key %s: %v", key, err)
	}

	// Another machine under the same name has another key.
	impostor := func() error {
		_, err := node.Join(t.Context(), node.JoinConfig{Controller: r.App.JoinURL(), Token: near, Node: "press-2",
			StateDir: filepath.Join(r.Dir, "impostor")}, node.JoinDeps{Now: r.Now})
		return err
	}
	wantCode(t, "an impostor", impostor(), wire.CodeWrongState)
	if p := r.pending(); len(p) != 1 || p[0].Key != key || p[0].Rival == nil {
		t.Errorf("%+v", p)
	}
	wantCode(t, "one of two by the name", r.approve("press-2"), wire.CodeWrongState)
	if err := r.approve("press-2=" + key[:16]); err != nil {
		t.Fatal(err)
	}
	wantCode(t, "an impostor of one that was approved", impostor(), wire.CodeWrongState)
	if err := r.joinAs("press-2", near); err != nil {
		t.Error(err)
	}
	wantCode(t, "an impostor of one that has joined", impostor(), wire.CodeWrongState)

	// Nor does an impostor that is the first keep out the key that an operator names.
	wantCode(t, "first", r.joinAs("press-6", near), wire.CodeUnavailable)
	late := func() error {
		_, err := node.Join(t.Context(), node.JoinConfig{Controller: r.App.JoinURL(), Token: near, Node: "press-6",
			StateDir: filepath.Join(r.Dir, "late")}, node.JoinDeps{Now: r.Now})
		return err
	}
	wantCode(t, "second", late(), wire.CodeWrongState)
	for _, p := range r.pending() {
		if p.Node == "press-6" {
			if err := r.approve("press-6=" + p.Rival.Key[:16]); err != nil {
				t.Error(err)
			}
		}
	}
	wantCode(t, "first", r.joinAs("press-6", near), wire.CodeWrongState)
	if err := late(); err != nil {
		t.Error(err)
	}

	wantCode(t, "refused", r.joinAs("press-3", near), wire.CodeUnavailable)
	if _, err := r.App.Unit().RefuseJoin(controller.As(t.Context(), "ann"), controller.JoinRefusal{
		JoinOrder: controller.JoinOrder{Nodes: []controller.NodeKey{{Node: "press-3"}}}}); err != nil {
		t.Fatal(err)
	}
	r.Pass(10 * time.Minute) // the attempts of an address
	wantCode(t, "refused before", r.joinAs("press-3", near), wire.CodeNotAllowed)
	r.Pass(time.Hour)
	wantCode(t, "late", r.joinAs("press-4", near), wire.CodeExpired)
	again := r.batch(controller.NewBatch{Name: "again", Count: 5, OnSight: true})
	if _, err := r.App.Unit().RevokeBatch(controller.As(t.Context(), "ann"),
		controller.RevokeBatchIn{Batch: "again"}); err != nil {
		t.Fatal(err)
	}
	wantCode(t, "revoked", r.joinAs("press-5", again), wire.CodeNotAllowed)
	for _, e := range r.Entries("batch") {
		if e.Node == "" && e.Who != "ann" {
			t.Errorf("nobody stands for %s", e.Data)
		}
	}
	secret := func(text string) string {
		tok, err := jointoken.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return string(tok.Secret[:])
	}
	for _, l := range r.Logs.All() {
		line := l.Message + fmt.Sprint(l.Context)
		if strings.Contains(line, secret(near)) || strings.Contains(line, near) {
			t.Error("a log has the token")
		}
	}
}

// Without a name the host's counts, and a token of one node takes no other.
func TestNameOfABatchsNode(t *testing.T) {
	r := NewRig(t)
	token := r.batch(controller.NewBatch{Name: "line4", Count: 5, OnSight: true})
	for name, wrong := range map[string]string{"no/de": token, "press-2": r.Enroll("press-1")} {
		_, err := node.Join(context.Background(), node.JoinConfig{Controller: r.App.JoinURL(), Token: wrong, Node: name,
			StateDir: filepath.Join(r.Dir, "m")}, node.JoinDeps{Now: r.Now})
		if usage := (*node.UsageError)(nil); !errors.As(err, &usage) {
			t.Errorf("%s: %v", name, err)
		}
	}
	j, err := node.Join(context.Background(), node.JoinConfig{Controller: r.App.JoinURL(), Token: token,
		StateDir: filepath.Join(r.Dir, "host")}, node.JoinDeps{Now: r.Now})
	if err != nil || r.View(j.Node).Identity == nil {
		t.Errorf("%+v %v", j, err)
	}
}
