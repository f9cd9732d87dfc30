package distribute

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"go.etcd.io/bbolt"

	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/journal"
	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/filetest"
	"tandem.internal/shared/seal"
	"tandem.internal/shared/wire"
)

// anyKey is a Keyring that has the private half of every key: what old journals' keys sign is not looked at.
type anyKey struct{ signer *seal.Signer }

func (k anyKey) Signer(string) *seal.Signer  { return k.signer }
func (k anyKey) IDs() []string               { return nil }
func (k anyKey) Make() (*seal.Signer, error) { return k.signer, nil }
func (k anyKey) Forget(string) error         { return nil }

// TestOldFormats opens journals that the programs of formats 1 to 5 have written (testdata/formats/README.md), among
// them one of 10,000 nodes: each is upgraded with a backup beside it, is whole, shows what the old program showed, and
// is gone on with.
func TestOldFormats(t *testing.T) {
	for _, f := range []struct {
		name   string
		format int
		unit   string
	}{
		{"v1", 1, "line4"}, {"v2", 2, "line4"}, {"v3", 3, "line4"}, {"v4", 4, "line4"}, {"v5", 5, "line4"},
		{"10000-nodes", 5, faultyUnit},
	} {
		t.Run(f.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "journal.db")
			if err := os.WriteFile(path, unzipped(t, f.name+".db.gz"), 0o600); err != nil {
				t.Fatal(err)
			}
			now := newest(t, path)
			tune := func(c *Config) {
				c.Unit, c.Now, c.Keyring = f.unit, func() time.Time { return now }, anyKey{c.Signer}
			}
			withFaultsIn(t, dir, tune, func(t *testing.T, r *faulty) {
				if ok, text := r.verified(); !ok {
					t.Error("after the upgrade:", text)
				}
				r.wantViews(f.format, views(t, f.name))
				r.goOn()
			})
			withFaultsIn(t, dir, tune, func(t *testing.T, r *faulty) {
				if st := r.status(); st.State != kind.Installed || st.Version != "3.0.0" || st.Trial != nil {
					t.Errorf("opened again: %+v", st)
				}
				if ok, text := r.verified(); !ok {
					t.Error("opened again:", text)
				}
			})
			if f.format != journal.Version {
				wantFormat(t, fmt.Sprintf("%s.v%d.bak", path, f.format), f.format)
			}
		})
	}
}

// wantFormat checks the format of a journal's file.
func wantFormat(t *testing.T, path string, format int) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	err = db.View(func(tx *bbolt.Tx) error {
		if got := string(tx.Bucket([]byte("meta")).Get([]byte("version"))); got != strconv.Itoa(format) {
			t.Errorf("%s is of format %q", path, got)
		}
		return nil
	})
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

// newest is the time of the newest record in a copy of a journal, which is upgraded for that.
func newest(t *testing.T, path string) time.Time {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "journal.db")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	j, err := journal.Open(path, journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	}()
	var at time.Time
	if err := j.Scan(journal.Filter{Reverse: true, Limit: 1}, func(r record.Record) error {
		at = r.At
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return at
}

// goOn adopts the configuration on trial, applies another one and lets a new node report.
func (r *faulty) goOn() {
	r.Helper()
	_, err := r.core.Confirm(as(r.Context(), "ann"), wire.KindConfig)
	r.mustBe("confirming the trial", err, "")
	r.install("3.0.0")
	r.look(func(f *fleet.Fleet) {
		for _, n := range f.Nodes() {
			if d := n.Kinds[wire.KindConfig].Desired; d == nil || d.Version != "3.0.0" {
				r.Errorf("node %s is to have %+v", n.Name, d)
			}
		}
	})
}

// wantViews compares what is shown with what an old program showed. Members that are new since may be there.
func (r *faulty) wantViews(format int, want map[string]any) {
	r.Helper()
	for name, old := range want {
		v, err := r.viewOf(name, format < 4)
		if err != nil {
			r.Errorf("%s: %v", name, err)
			continue
		}
		data, err := json.Marshal(v)
		if err != nil {
			r.Fatal(err)
		}
		var got any
		if err := json.Unmarshal(data, &got); err != nil {
			r.Fatal(err)
		}
		expectAway(old)
		if diff := lacks(name, got, old); diff != "" {
			r.Errorf("%.1000s", diff)
		}
	}
}

// expectAway changes what an old program showed to what is shown since then of slots of offline nodes: what was to go
// on when the node was last heard is away. Their report is as it was. It returns how many there are in view.
func expectAway(view any) (away int) {
	switch v := view.(type) {
	case []any:
		for _, e := range v {
			away += expectAway(e)
		}
	case map[string]any:
		for _, e := range v {
			away += expectAway(e)
		}
		if report, ok := v["report"].(map[string]any); ok && v["slot"] != nil && v["online"] == false {
			state, why := fmt.Sprint(report["state"]), fmt.Sprint(v["why"])
			if state != "completed" && state != "failed" && state != "stopped" {
				v["state"], v["settled"] = "away", false
				v["why"] = strings.Replace(why, "offline", "offline; "+state+" when it was last heard", 1)
				away++
			}
		}
		if running, ok := v["running"].(float64); ok && v["onlineMissing"] != nil { // the slots' progress
			away += int(running)
			v["running"], v["away"] = 0.0, float64(away)
			if running > 0 { // those that ran are among the missing ones
				delete(v, "missing")
				delete(v, "omitted")
			}
			if away == 0 {
				delete(v, "away")
			}
			return 0
		}
	}
	return away
}

// viewOf returns a view as the HTTP API does; hidden: without the nodes that were let in and never connected, which
// programs before format 4 did not list.
func (r *faulty) viewOf(name string, hidden bool) (any, error) {
	ctx, c := r.Context(), r.core
	switch name {
	case "config-status":
		return c.SourceStatus(ctx, wire.KindConfig)
	case "config-history":
		h, err := c.History(ctx, wire.KindConfig)
		return h.Versions, err
	case "nodes":
		all, err := c.Nodes(ctx)
		if awaited := func(n view.Node) bool { return n.FirstSeen.IsZero() }; hidden {
			all.Nodes = slices.DeleteFunc(all.Nodes, awaited)
		}
		return all.Nodes, err
	case "health-settings":
		return c.HealthSettings(ctx)
	case "workloads-status":
		return c.SourceStatus(ctx, wire.KindWorkloads)
	case "workloads-slots":
		s, err := c.Slots(ctx, op.SlotsIn{})
		return s.Slots, err
	case "workloads-history":
		h, err := c.History(ctx, wire.KindWorkloads)
		return h.Versions, err
	}
	if node, ok := strings.CutPrefix(name, "node-health-"); ok {
		return c.NodeHealth(ctx, op.NodeIn{Node: node})
	}
	if node, ok := strings.CutPrefix(name, "node-"); ok {
		return c.Node(ctx, op.NodeIn{Node: node})
	}
	return nil, fmt.Errorf("no such view")
}

// lacks says where got does not have what want has; "": it has everything.
func lacks(at string, got, want any) string {
	switch want := want.(type) {
	case map[string]any:
		object, ok := got.(map[string]any)
		if !ok {
			return fmt.Sprintf("%s is %v, want an object", at, got)
		}
		for name, v := range want {
			if diff := lacks(at+"/"+name, object[name], v); diff != "" {
				return diff
			}
		}
	case []any:
		list, ok := got.([]any)
		if !ok || len(list) != len(want) {
			return fmt.Sprintf("%s has %d elements, want %d", at, len(list), len(want))
		}
		for i, v := range want {
			if diff := lacks(fmt.Sprintf("%s/%d", at, i), list[i], v); diff != "" {
				return diff
			}
		}
	default:
		if !reflect.DeepEqual(got, want) {
			return fmt.Sprintf("%s is %v, want %v", at, got, want)
		}
	}
	return ""
}

func views(t *testing.T, name string) (all map[string]any) {
	t.Helper()
	file := name + ".json"
	if name == "10000-nodes" {
		file += ".gz"
	}
	if err := json.Unmarshal(unzipped(t, file), &all); err != nil || len(all) == 0 {
		t.Fatal(len(all), err)
	}
	return all
}

// unzipped reads a file of testdata/formats.
func unzipped(t *testing.T, name string) []byte {
	t.Helper()
	path := filepath.Join("testdata", "formats", name)
	if strings.HasSuffix(name, ".gz") {
		return filetest.Unpacked(t, path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
