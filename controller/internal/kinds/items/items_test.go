package items

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/shared/items"
	"tandem.internal/shared/publisher/publishertest"
	"tandem.internal/shared/wire"
)

// TestLifeCycle: an item is created, its versions are released and come on, one after the other, and go when they may.
func TestLifeCycle(t *testing.T) {
	u := newUnit(t)
	u.refused(KindItems, release(sensor, "1.0.0", "a"), wire.CodeNotFound, "", "create it first")
	u.must(KindItems, creation(sensor, 1))
	u.must(KindItems, creation(ref(items.Layer, "sensor"), 2)) // of another type
	u.refused(KindItems, creation(sensor, 3), wire.CodeAlreadyExists, "/codename", "urn:uuid:"+id(1))
	u.must(KindItems, release(sensor, "1.10.0", "a"))
	u.must(KindItems, release(sensor, "1.9.0", "b"))
	u.is("layer/sensor, service/sensor 1.9.0 preparation 1.10.0 preparation")

	u.refused(KindItems, coming(sensor, "1.9.0", items.Deprecated), wire.CodeWrongState, "", "remove it")
	u.must(KindItems, coming(sensor, "1.9.0", items.Ready))
	u.refused(KindItems, coming(sensor, "1.9.0", items.Ready), wire.CodeWrongState, "", "ready already")
	u.refused(KindItems, removal(sensor, "1.9.0"), wire.CodeWrongState, "", "deprecate it first")
	u.refused(KindItems, coming(sensor, "1.9.0", items.Preparation), wire.CodeBadValue, "/state", "not \"preparation\"")
	u.must(KindItems, coming(sensor, "1.9.0", items.Deprecated))
	u.refused(KindItems, coming(sensor, "1.9.0", items.Ready), wire.CodeWrongState, "", "does not come back")
	u.refused(KindItems, coming(sensor, "2.0.0", items.Ready), wire.CodeNotFound, "", "no version 2.0.0")
	u.refused(KindItems, coming(sensor, "", items.Ready), wire.CodeMissing, "/version", "")

	u.refused(KindItems, removal(sensor, ""), wire.CodeWrongState, "", "has 2 versions")
	u.must(KindItems, removal(sensor, "1.10.0"))
	u.must(KindItems, removal(sensor, "1.9.0"))
	u.is("layer/sensor, service/sensor")
	u.must(KindItems, removal(sensor, ""))
	u.refused(KindItems, removal(sensor, ""), wire.CodeNotFound, "", "there is no service sensor")
	u.is("layer/sensor")
}

// TestVersionsDoNotChange: the same release again is no change, and may make the version ready; another content or
// other metadata are refused, also of a version that is gone after nodes may have had it.
func TestVersionsDoNotChange(t *testing.T) {
	u := newUnit(t)
	u.must(KindItems, creation(sensor, 1))
	u.must(KindItems, release(sensor, "1.0.0", "a"))
	if same, err := u.change(KindItems, release(sensor, "1.0.0", "a")); !same || err != nil {
		t.Errorf("the same again: %v, %v", same, err)
	}
	u.refused(KindItems, release(sensor, "1.0.0", "b"), wire.CodeAlreadyExists, "/content",
		release(sensor, "", "a").Content.Digest())
	other := release(sensor, "1.0.0", "a")
	other.Meta.Priority = 1
	u.refused(KindItems, other, wire.CodeAlreadyExists, "/meta", "other metadata")

	ready := release(sensor, "1.0.0", "a")
	ready.State = items.Ready
	u.must(KindItems, ready)
	u.is("service/sensor 1.0.0 ready")
	for _, again := range []Change{ready, release(sensor, "1.0.0", "a")} {
		if same, err := u.change(KindItems, again); !same || err != nil {
			t.Errorf("%s again: %v, %v", again.State, same, err)
		}
	}
	u.must(KindItems, coming(sensor, "1.0.0", items.Deprecated))
	u.refused(KindItems, ready, wire.CodeWrongState, "", "does not come back")
	u.must(KindItems, removal(sensor, "1.0.0"))
	u.refused(KindItems, release(sensor, "1.0.0", "b"), wire.CodeAlreadyExists, "/content", "nodes may have")
	u.must(KindItems, release(sensor, "1.0.0", "a"))

	u.must(KindItems, release(sensor, "2.0.0", "a")) // in preparation it went nowhere
	u.must(KindItems, removal(sensor, "2.0.0"))
	u.must(KindItems, release(sensor, "2.0.0", "b"))
}

// TestReleaseRefusals: what is wrong with a release is refused with its place.
func TestReleaseRefusals(t *testing.T) {
	u := newUnit(t)
	u.must(KindItems, creation(sensor, 1))
	u.must(KindItems, creation(python, 2))
	arm := items.Platform{Architecture: "arm64", Variant: "v8"}
	for name, c := range map[string]struct {
		alter       func(*Change)
		code        wire.Code
		path, words string
	}{
		"no content": {func(d *Change) { d.Content = nil }, wire.CodeMissing, "/content", "required"},
		"state": {func(d *Change) { d.State = items.Deprecated }, wire.CodeBadValue, "/state",
			"begins as preparation or ready"},
		"another item": {func(d *Change) { d.Codename = "python"; d.Type = items.Layer }, wire.CodeInvalidArgument,
			"/meta/codename", "of service sensor, not of layer python"},
		"no version": {func(d *Change) { d.Meta.Version = "" }, wire.CodeMissing, "/meta/version", "number"},
		"no semantic version": {func(d *Change) { d.Meta.Version = "1.0" }, wire.CodeInvalidArgument, "/meta/version",
			"semantic"},
		"metadata": {func(d *Change) { d.Meta.Hostname = "a b" }, wire.CodeBadValue, "/meta/hostname", "no name"},
		"content": {func(d *Change) { d.Content.Form = items.Tree }, wire.CodeMissing,
			"/content/builds/0/blobs/0/diffId", "required"},
		"platform of nothing": {func(d *Change) { d.Content.Builds[0].Platform = &arm }, wire.CodeBadValue,
			"/content/builds/0/platform", "does not have"},
		"platform without a build": {func(d *Change) {
			d.Content.Builds[0].Platform = &arm
			d.Meta.Platforms = []items.Platform{arm, {Architecture: "amd64"}}
		}, wire.CodeMissing, "/content/builds", "platform of the metadata, amd64"},
		"not in the store": {func(d *Change) { d.Content.Builds[0].Blobs[0].Digest = wire.Hash([]byte("gone")) },
			wire.CodeNotFound, "/content/builds/0/blobs/0/digest", "tandem artefact add"},
		"another size": {func(d *Change) { d.Content.Builds[0].Blobs[0].Size = 6 }, wire.CodeBadValue,
			"/content/builds/0/blobs/0/size", "has 5 bytes"},
		"encrypted, not in the store": {func(d *Change) {
			d.Content.Builds[0].Blobs[0].Encrypted = &wire.Encrypted{Digest: wire.Hash([]byte("gone")), Size: 5}
		}, wire.CodeNotFound, "/content/builds/0/blobs/0/encrypted/digest", "tandem artefact add"},
		"encrypted, another size": {func(d *Change) {
			d.Content.Builds[0].Blobs[0].Encrypted = &wire.Encrypted{Digest: wire.Hash([]byte("a")), Size: 6}
		}, wire.CodeBadValue, "/content/builds/0/blobs/0/encrypted/size", "has 5 bytes"},
		"encrypted, no digest": {func(d *Change) {
			d.Content.Builds[0].Blobs[0].Encrypted = &wire.Encrypted{Digest: "sha256:AB", Size: 5}
		}, wire.CodeBadValue, "/content/builds/0/blobs/0/encrypted/digest", "64"},
		"signed as another": {func(d *Change) {
			d.Content.Builds[0].Blobs[0].Minisign = publishertest.New(1).SignAs(nil, "sensor 0.9.0")
		}, wire.CodeBadValue, "/content/builds/0/blobs/0/minisign", "sensor 1.0.0, but with sensor 0.9.0"},
	} {
		d := release(sensor, "1.0.0", "a")
		c.alter(&d)
		t.Log(name)
		u.refused(KindItems, d, c.code, c.path, c.words)
	}
	u.is("layer/python, service/sensor")
	good := release(sensor, "1.0.0", "a")
	good.Meta.Platforms = []items.Platform{arm, {Architecture: "amd64"}}
	good.Meta.Dependencies = []items.Dependency{{Type: items.Layer, Codename: "nowhere", Condition: items.Started}}
	good.Content.Builds[0].Blobs[0].Minisign = publishertest.New(1).SignAs(nil, "sensor 1.0.0")
	u.must(KindItems, good)
}

// TestCreationRefusals: who and what an item is.
func TestCreationRefusals(t *testing.T) {
	u := newUnit(t)
	u.must(KindItems, creation(sensor, 1))
	u.refused(KindItems, creation(python, 1), wire.CodeAlreadyExists, "/id", "service sensor has the ID")
	u.refused(KindItems, creation(ref(items.Layer, "a b"), 2), wire.CodeBadValue, "/codename", "no name")
	u.refused(KindItems, creation(ref("thing", "a"), 2), wire.CodeBadValue, "/type", "must be")
	u.refused(KindItems, creation(ref(items.Component, "tandem-node"), 2), wire.CodeBadValue, "/codename",
		"is the agent")
	long := creation(python, 2)
	long.Description = strings.Repeat("a", items.MaxLong+1)
	u.refused(KindItems, long, wire.CodeBadValue, "/description", "4096")
	bad := creation(python, 2)
	bad.ID = strings.ToUpper("a") + id(2)[1:]
	u.refused(KindItems, bad, wire.CodeBadValue, "/id", "UUID in lower case")
}

// TestItemBounds: the items of a unit, the versions of an item, and all bytes are bounded.
func TestItemBounds(t *testing.T) {
	c := &Collection{List: map[string]*Item{}}
	for i := range maxItems {
		r := ref(items.Service, fmt.Sprint("s", i))
		c.List[Key(r)] = &Item{Type: r.Type, Codename: r.Codename, ID: id(i)}
	}
	u := newUnit(t)
	u.contents[KindItems] = c
	u.refused(KindItems, creation(python, 5000), wire.CodeTooLarge, "", "at most 1000 items")
	s0 := ref(items.Service, "s0")
	c.List[Key(s0)].Versions = map[string]*Version{}
	for i := range maxVersions {
		version := fmt.Sprintf("1.%d.0", i)
		c.List[Key(s0)].Versions[version] = &Version{Meta: items.Meta{Version: version}, size: maxBytes/maxVersions - 1}
	}
	u.refused(KindItems, release(s0, "2.0.0", "a"), wire.CodeTooLarge, "", "100 versions")
	u.refused(KindItems, release(ref(items.Service, "s1"), "2.0.0", "a"), wire.CodeTooLarge, "", "would have 8388")
	delete(c.List[Key(s0)].Versions, "1.0.0")
	if err := judge(c, release(ref(items.Service, "s1"), "2.0.0", "a")); err != nil {
		t.Error(err)
	}
	it := &Item{Versions: map[string]*Version{}}
	for i := range maxGone + 1 {
		version := fmt.Sprintf("1.%d.0", i)
		it.Versions[version] = &Version{State: items.Deprecated, Digest: "d"}
		it.remove(version)
	}
	if len(it.Gone) != maxGone || it.Gone["1.0.0"] != "" || it.Gone["1.256.0"] == "" {
		t.Errorf("%d are remembered", len(it.Gone))
	}
}

// A version counts with its bytes, live and after a checkpoint.
func TestVersionsCount(t *testing.T) {
	u := newUnit(t)
	u.must(KindItems, creation(sensor, 1))
	d := release(sensor, "1.0.0", "a")
	u.must(KindItems, d)
	want := len(`{"codename":"sensor","type":"service","version":"1.0.0"}`) + len(d.Content.Encode())
	for _, c := range []kind.Content{u.live[KindItems], u.contents[KindItems]} {
		if v := Find(c, sensor, "1.0.0"); v.size != want {
			t.Errorf("it counts as %d bytes, not %d", v.size, want)
		}
	}
}

// TestWhatIsMadeOfItems: the lists that what should run where is made of are sorted, and made once.
func TestWhatIsMadeOfItems(t *testing.T) {
	u := newUnit(t)
	if ItemsOf(nil) != nil || Find(nil, sensor, "1.0.0") != nil || len(SubjectsOf(nil)) != 0 {
		t.Error("there is something of nothing")
	}
	u.must(KindItems, creation(sensor, 1))
	u.must(KindItems, creation(python, 2))
	for _, version := range []string{"1.10.0", "1.9.0", "1.10.0-rc.1"} {
		u.must(KindItems, release(sensor, version, version))
	}
	u.must(KindItems, release(python, "3.12.4", "p"))
	c := u.contents[KindItems]
	var got []string
	for _, it := range ItemsOf(c) {
		got = append(got, Key(it.Meta.Ref())+" "+it.Meta.Version+" "+it.URN)
	}
	want := "layer/python 3.12.4 urn:uuid:" + id(2)
	for _, version := range []string{"1.9.0", "1.10.0-rc.1", "1.10.0"} {
		want += ", service/sensor " + version + " urn:uuid:" + id(1)
	}
	if text := strings.Join(got, ", "); text != want {
		t.Errorf("%s\nwant %s", text, want)
	}
	if first, again := ItemsOf(c), ItemsOf(c); &first[0] != &again[0] {
		t.Error("the list is made each time")
	}
	text, err := json.Marshal(ItemsOf(c)[0])
	if err != nil {
		t.Fatal(err)
	}
	if _, problems := items.ParseItem(text); problems != nil {
		t.Errorf("%s: %v", text, problems)
	}
	if v := Find(c, python, "3.12.4"); v == nil || v.Content.Builds[0].Blobs[0].Digest != wire.Hash([]byte("p")) ||
		v.Digest != ItemsOf(c)[0].Digest {
		t.Errorf("%+v", v)
	}
	used := map[string]string{}
	Set().Sources[0].Artefacts(c, func(digest, by string) { used[digest] = by })
	if len(used) != 4 || used[wire.Hash([]byte("p"))] != "layer python 3.12.4" {
		t.Errorf("%v", used)
	}
}

// TestHistory: what happened to one item, in words; a release that only makes a version ready is no other release.
func TestHistory(t *testing.T) {
	ready := release(sensor, "1.0.0", "a")
	ready.State = items.Ready
	past, seq := &Past{Of: sensor}, uint64(0)
	for _, d := range []Change{creation(sensor, 1), creation(python, 2), release(sensor, "1.0.0", "a"), ready,
		coming(sensor, "1.0.0", items.Deprecated), removal(sensor, "1.0.0"), ready, removal(sensor, "")} {
		seq++
		past.Add(kind.Change{Seq: seq, At: origin, Who: "ann"}, &d)
	}
	v, err := past.History()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range v.Events {
		got = append(got, strings.TrimSpace(fmt.Sprint(e.Rev, " ", e.Did, " ", e.Version)))
	}
	const want = "1 created, 3 released 1.0.0, 4 ready 1.0.0, 5 deprecated 1.0.0, 6 removed 1.0.0, 7 released 1.0.0, " +
		"7 ready 1.0.0, 8 removed"
	if text := strings.Join(got, ", "); text != want {
		t.Errorf("%s\nwant %s", text, want)
	}
	if _, err := (&Past{Of: python}).History(); err == nil || wire.AsError(err).Code != wire.CodeNotFound {
		t.Error(err)
	}
}

// A journal that was altered does not break what is made of it.
func TestAlteredChanges(t *testing.T) {
	for _, text := range []string{`{}`, `{"version":"x","state":"ready"}`, `{"id":"x","type":"y"}`, `{"removed":true}`,
		`{"version":"1.0.0","removed":true}`, `{"meta":{},"state":"ready"}`, `{"content":{},"state":"ready"}`,
		`{"meta":{"version":"b"},"content":{}}`, `{"meta":{"version":"1.0.0"},"content":{"builds":[{}]}}`} {
		fold := itemFold()
		var c kind.Content
		for _, one := range []string{`{"id":"x"}`, text, text} {
			d, err := fold.Decode(jsontext.Value(one))
			if err != nil {
				t.Fatal(err)
			}
			c = fold.Apply(c, kind.Change{}, d)
		}
		ItemsOf(c)
		kind.As[Collection](c).artefacts(func(string, string) {})
	}
}
