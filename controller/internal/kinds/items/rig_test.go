package items

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/shared/items"
	"tandem.internal/shared/wire"
)

var origin = time.Date(2026, 11, 26, 9, 0, 0, 0, time.UTC)

// unit is a unit as the sources see it. What is stored has five bytes, but for what is called gone.
type unit struct {
	kind.Unit
	t        *testing.T
	seq      uint64
	contents map[wire.Kind]kind.Content
	live     map[wire.Kind]kind.Content // never went through a checkpoint
}

func newUnit(t *testing.T) *unit {
	return &unit{t: t, contents: map[wire.Kind]kind.Content{}, live: map[wire.Kind]kind.Content{}}
}

func (u *unit) Rolled(wire.Kind) *kind.Rolled { return nil }

func (u *unit) Content(name wire.Kind) kind.Content { return u.contents[name] }

func (u *unit) Artefact(digest string) (int64, bool) { return 5, digest != wire.Hash([]byte("gone")) }

// change does what the fleet does with a change; the state goes through a checkpoint each time. same: nothing changed.
func (u *unit) change(source wire.Kind, data any) (same bool, err *wire.Error) {
	u.t.Helper()
	var fold *kind.Fold
	for _, s := range Set().Sources {
		if s.Name == source {
			fold = s.Fold
		}
	}
	raw, fault := json.Marshal(data)
	if fault != nil {
		u.t.Fatal(fault)
	}
	read, fault := fold.Decode(raw)
	if fault != nil {
		u.t.Fatal(fault)
	}
	c := u.contents[source]
	if err := fold.Judge(c, read); err != nil {
		return false, err
	}
	if fold.Same(c, read) {
		return true, nil
	}
	if fold.Weigh != nil {
		if err := fold.Weigh(u, c, read); err != nil {
			return false, err
		}
	}
	u.seq++
	made := kind.Change{Seq: u.seq, At: origin.Add(time.Duration(u.seq) * time.Minute), Who: "token/ann"}
	before, old := u.save(fold, u.live[source]), u.live[source]
	u.live[source] = fold.Apply(old, made, data)
	if old != nil && u.save(fold, old) != before {
		u.t.Fatalf("what there was has changed from\n%s\nto\n%s", before, u.save(fold, old))
	}
	saved := u.save(fold, fold.Apply(c, made, read))
	if u.contents[source], fault = fold.Load(jsontext.Value(saved)); fault != nil {
		u.t.Fatal(fault)
	}
	if live := u.save(fold, u.live[source]); live != saved {
		u.t.Fatalf("live it is\n%s\nand replayed\n%s", live, saved)
	}
	return false, nil
}

// save is a content as a checkpoint has it.
func (u *unit) save(fold *kind.Fold, c kind.Content) string {
	u.t.Helper()
	text, err := json.Marshal(fold.Save(c), json.Deterministic(true))
	if err != nil {
		u.t.Fatal(err)
	}
	return string(text)
}

// must makes a change that is one.
func (u *unit) must(source wire.Kind, data any) {
	u.t.Helper()
	if same, err := u.change(source, data); err != nil || same {
		u.t.Fatalf("same %v: %v", same, err)
	}
}

// refused makes a change that is refused, at a place, with words.
func (u *unit) refused(source wire.Kind, data any, code wire.Code, path, words string) {
	u.t.Helper()
	_, err := u.change(source, data)
	if err == nil || err.Code != code || err.Path != path || !strings.Contains(err.Message, words) {
		u.t.Errorf("%v, want %s at %q: %s", err, code, path, words)
	}
}

// is compares the items with a text: "service/a 1.0.0 ready, layer/b".
func (u *unit) is(want string) {
	u.t.Helper()
	var all []string
	for _, it := range kind.As[Collection](u.contents[KindItems]).sorted() {
		all = append(all, Key(it.Ref()))
		for _, v := range it.sorted() {
			all[len(all)-1] += fmt.Sprintf(" %s %s", v.Meta.Version, v.State)
		}
	}
	if got := strings.Join(all, ", "); got != want {
		u.t.Errorf("%s\nwant %s", got, want)
	}
}

// id is the UUID with a number.
func id(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

func ref(t items.Type, name string) items.Ref { return items.Ref{Type: t, Codename: name} }

func creation(r items.Ref, n int) Change {
	return Change{Type: r.Type, Codename: r.Codename, ID: id(n)}
}

// release is the release of a version whose file is called as it says.
func release(r items.Ref, version, file string) Change {
	return Change{Type: r.Type, Codename: r.Codename, State: items.Preparation,
		Meta: &items.Meta{Type: r.Type, Codename: r.Codename, Version: version},
		Content: &items.Content{Form: items.File,
			Builds: []items.Build{{Blobs: []items.Blob{{Digest: wire.Hash([]byte(file)), Size: 5}}}}}}
}

func coming(r items.Ref, version string, to items.State) Change {
	return Change{Type: r.Type, Codename: r.Codename, Version: version, State: to}
}

func removal(r items.Ref, version string) Change {
	return Change{Type: r.Type, Codename: r.Codename, Version: version, Removed: true}
}

var sensor, python = ref(items.Service, "sensor"), ref(items.Layer, "python")
