package items

import (
	"testing"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/items"
	"tandem.internal/shared/publisher/publishertest"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// using is a unit whose nodes have one set of workloads, and are to get another one by a rollout.
type using struct {
	kind.Unit
	has, gets kind.Content
}

func (u using) Content(name wire.Kind) kind.Content {
	if name == wire.KindWorkloads {
		return u.has
	}
	return nil
}

func (u using) Rolled(name wire.Kind) *kind.Rolled {
	if name == wire.KindWorkloads && u.gets != nil {
		return &kind.Rolled{Content: u.gets}
	}
	return nil
}

// user is a content by which node n has a version.
type user struct {
	kind.Content
	version string
}

func (c user) Uses(_ items.Ref, version string) string {
	if version == c.version {
		return "n"
	}
	return ""
}

// A version that nodes are to get by a rollout that goes on is in use, as one that they have.
func TestRolledOutVersionIsInUse(t *testing.T) {
	u := using{has: user{version: "1.0.0"}, gets: user{version: "1.1.0"}}
	for version, want := range map[string]bool{"1.0.0": true, "1.1.0": true, "1.2.0": false} {
		err := weigh(u, nil, Change{Type: items.Service, Codename: "s", Version: version, Removed: true})
		if (err != nil) != want {
			t.Errorf("remove %s: %v", version, err)
		}
	}
	if err := weigh(using{has: u.has}, nil, Change{Type: items.Service, Codename: "s", Version: "1.1.0",
		Removed: true}); err != nil {
		t.Error(err)
	}
}

// released is the change that releases a version of a component with a file of these bytes.
func released(t *testing.T, version, file, signature string) Change {
	t.Helper()
	m, problems := items.Parse([]byte(`{"codename":"firmware","type":"component","version":"` + version +
		`","runtimes":["boot"]}`))
	if problems != nil {
		t.Fatal(problems)
	}
	return Change{Type: m.Type, Codename: m.Codename, Meta: m, State: items.Ready,
		Content: &items.Content{Form: items.File, Builds: []items.Build{{Blobs: []items.Blob{{
			Digest: wire.Hash([]byte(file)), Size: int64(len(file)), Minisign: signature}}}}}}
}

// A number does not mean another content because its item was removed and created again.
func TestNumberKeepsItsContent(t *testing.T) {
	at, id := uint64(0), map[bool]string{false: "00000000-0000-4000-8000-000000000001",
		true: "00000000-0000-4000-8000-000000000002"}
	var c kind.Content
	must := func(d Change) {
		t.Helper()
		if err := judge(c, d); err != nil {
			t.Fatal(err)
		}
		at++
		c = apply(c, kind.Change{Seq: at}, d)
		var err error
		if c, err = load(record.Encode(c)); err != nil { // as after a restart
			t.Fatal(err)
		}
	}
	of := Change{Type: items.Component, Codename: "firmware"}
	with := func(change func(d *Change)) Change { d := of; change(&d); return d }
	must(with(func(d *Change) { d.ID = id[false] }))
	must(released(t, "1.0.0", "one", ""))
	must(with(func(d *Change) { d.Version, d.State = "1.0.0", items.Deprecated }))
	must(with(func(d *Change) { d.Version, d.Removed = "1.0.0", true }))
	must(with(func(d *Change) { d.Removed = true }))
	must(with(func(d *Change) { d.ID = id[true] }))
	if err := judge(c, released(t, "1.0.0", "two", "")); err == nil || err.Code != wire.CodeAlreadyExists {
		t.Errorf("another content under the number: %v", err)
	}
	must(released(t, "1.0.0", "one", ""))
	must(released(t, "1.0.1", "two", ""))
}

// What is signed for the runtime of a component is the component's, as nodes see it.
func TestComponentIsSignedForItsRuntime(t *testing.T) {
	for comment, want := range map[string]bool{"firmware 2.1.0": true, "boot 2.1.0": true, "boot 2.0.0": false,
		"other 2.1.0": false, "boot": false} {
		d := released(t, "2.1.0", "new", publishertest.New(1).SignAs([]byte("new"), comment))
		if err := checkRelease(&d); (err == nil) != want {
			t.Errorf("%s: %v", comment, err)
		}
	}
}

// What no node could be given is not released: it would keep everything else from being applied.
func TestNothingThatNodesNeverTake(t *testing.T) {
	empty := released(t, "2.1.0", "", "")
	huge := released(t, "2.1.0", "new", "")
	huge.Content.Form = items.Tree
	blob := &huge.Content.Builds[0].Blobs[0]
	blob.DiffID, blob.Unpacked = blob.Digest, workload.MaxUnpacked+1
	for _, d := range []Change{empty, huge} {
		if err := checkRelease(&d); err == nil {
			t.Errorf("released: %+v", d.Content)
		}
	}
	blob.Unpacked--
	if err := checkRelease(&huge); err != nil {
		t.Error(err)
	}
}
