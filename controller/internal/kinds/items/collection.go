package items

import (
	"cmp"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/items"
)

// KindItems is the source of update items.
const KindItems = record.KindItems

// Collection is the unit's update items.
type Collection struct {
	List map[string]*Item `json:"items,omitempty"` // by Key
	// versions that nodes may have, of items that were removed, by Key
	Former map[string]Former `json:"former,omitempty"`

	released atomic.Pointer[[]items.Item] // what ItemsOf has made
}

// Former is what is remembered of an item that was removed.
type Former struct {
	Rev  uint64            `json:"rev"`  // of its removal
	Gone map[string]string `json:"gone"` // as that of Item
}

// Item is an update item. It is never changed, only replaced.
type Item struct {
	Type        items.Type          `json:"type"`
	Codename    string              `json:"codename"`
	ID          string              `json:"id"` // UUID
	Description string              `json:"description,omitzero"`
	Owner       string              `json:"owner,omitzero"`
	Rev         uint64              `json:"rev"` // of its creation
	At          time.Time           `json:"at"`
	Who         string              `json:"who,omitempty"`
	Versions    map[string]*Version `json:"versions,omitempty"` // by version
	Gone        map[string]string   `json:"gone,omitempty"`     // digests of those that were ready once, by version
}

// Version is a version of an item. It is never changed, only replaced.
type Version struct {
	Meta    items.Meta    `json:"meta"`
	State   items.State   `json:"state"`
	Digest  string        `json:"digest"` // of Content
	Content items.Content `json:"content"`
	Rev     uint64        `json:"rev"` // of its newest change
	At      time.Time     `json:"at"`
	Who     string        `json:"who,omitempty"`

	size int // bytes of metadata and content
}

// Change is a change of an item. It is the data of its records.
type Change = record.ItemData

// Key names an item: service/sensor.
func Key(r items.Ref) string { return string(r.Type) + "/" + r.Codename }

// Ref names the item.
func (it *Item) Ref() items.Ref { return items.Ref{Type: it.Type, Codename: it.Codename} }

// URN names the item in the whole world (RFC 9562).
func (it *Item) URN() string { return "urn:uuid:" + it.ID }

func itemFold() *kind.Fold {
	return kind.JSON[Change, Collection](kind.Fold{Reason: "update items changed",
		Judge: judge, Weigh: weigh, Same: same, Apply: apply, Load: load})
}

// apply changes the items. Data that judge would have refused is of a journal that was altered, and changes what it
// can.
func apply(c kind.Content, at kind.Change, data any) kind.Content {
	was := kind.As[Collection](c)
	d, next := data.(Change), &Collection{List: maps.Clone(was.List), Former: was.Former}
	if next.List == nil {
		next.List = map[string]*Item{}
	}
	key := Key(d.Ref())
	switch had := next.List[key]; {
	case d.ID != "":
		next.List[key] = &Item{Type: d.Type, Codename: d.Codename, ID: d.ID, Description: d.Description,
			Owner: d.Owner, Rev: at.Seq, At: at.At, Who: at.Who, Gone: next.Former[key].Gone}
		next.remember(key, Former{})
	case had == nil:
	case d.Removed && d.Version == "":
		delete(next.List, key)
		next.remember(key, Former{at.Seq, had.Gone})
	default:
		next.List[key] = had.changed(at, &d)
	}
	return next
}

// maxFormer bounds the items that are remembered when they are removed: those that were removed last.
const maxFormer = 250

// remember remembers an item that is removed, or forgets one that is there again.
func (c *Collection) remember(key string, f Former) {
	if _, there := c.Former[key]; !there && len(f.Gone) == 0 {
		return
	}
	c.Former = maps.Clone(c.Former)
	if c.Former == nil {
		c.Former = map[string]Former{}
	}
	if c.Former[key] = f; len(f.Gone) == 0 {
		delete(c.Former, key)
	}
	if len(c.Former) > maxFormer {
		delete(c.Former, slices.MinFunc(slices.Collect(maps.Keys(c.Former)), func(a, b string) int {
			return cmp.Compare(c.Former[a].Rev, c.Former[b].Rev)
		}))
	}
}

// changed returns the item with another version, or another state of one.
func (it *Item) changed(at kind.Change, d *Change) *Item {
	next := *it
	next.Versions = maps.Clone(it.Versions)
	if next.Versions == nil {
		next.Versions = map[string]*Version{}
	}
	version := d.Version
	if d.Meta != nil {
		version = d.Meta.Version
	}
	had := next.Versions[version]
	switch {
	case d.Removed:
		next.remove(version)
		return &next
	case had == nil && (d.Meta == nil || d.Content == nil):
		return &next
	case had == nil:
		had = &Version{Meta: *d.Meta, Content: *d.Content, Digest: d.Content.Digest()}
		had.size = sizeOf(had)
	}
	v := *had
	v.State, v.Rev, v.At, v.Who = d.State, at.Seq, at.At, at.Who
	next.Versions[version] = &v
	return &next
}

// maxGone bounds the versions of an item that are remembered, the highest.
const maxGone = 256

// remove takes a version away, and remembers what it was if nodes may have it.
func (it *Item) remove(version string) {
	v := it.Versions[version]
	delete(it.Versions, version)
	if v == nil || v.State == items.Preparation {
		return
	}
	it.Gone = maps.Clone(it.Gone)
	if it.Gone == nil {
		it.Gone = map[string]string{}
	}
	it.Gone[version] = v.Digest
	if len(it.Gone) > maxGone {
		delete(it.Gone, slices.MinFunc(slices.Collect(maps.Keys(it.Gone)), compare))
	}
}

// sizeOf is what a version takes of the collection.
func sizeOf(v *Version) int { return len(record.Encode(&v.Meta)) + len(v.Content.Encode()) }

func load(saved jsontext.Value) (kind.Content, error) {
	all := &Collection{}
	if err := json.Unmarshal(saved, all); err != nil {
		return nil, err
	}
	for _, it := range all.List {
		for _, v := range it.Versions {
			v.size = sizeOf(v)
		}
	}
	return all, nil
}

// For returns nothing: nodes get what is made of all items.
func (*Collection) For(kind.Facts) *kind.Body { return nil }

// artefacts calls each for every file of a version.
func (c *Collection) artefacts(each func(digest, by string)) {
	for _, it := range c.List {
		for version, v := range it.Versions {
			by := it.Ref().String() + " " + version
			for i := range v.Content.Builds {
				for _, b := range v.Content.Builds[i].Files() {
					digest, _ := b.Stored()
					each(digest, by)
				}
			}
		}
	}
}

// sorted lists the items by type and codename.
func (c *Collection) sorted() []*Item {
	return slices.SortedFunc(maps.Values(c.List), func(a, b *Item) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Codename, b.Codename))
	})
}

// sorted lists the versions, the lowest first.
func (it *Item) sorted() []*Version {
	return slices.SortedFunc(maps.Values(it.Versions), func(a, b *Version) int {
		return compare(a.Meta.Version, b.Meta.Version)
	})
}

// compare orders versions that were judged; others, of a journal that was altered, come before them.
func compare(a, b string) int {
	v, errA := items.ParseVersion(a)
	w, errB := items.ParseVersion(b)
	switch {
	case errA != nil && errB != nil:
		return cmp.Compare(a, b)
	case errA != nil:
		return -1
	case errB != nil:
		return 1
	}
	return cmp.Or(v.Compare(w), cmp.Compare(a, b))
}

// ItemsOf lists the versions of all items, by type, codename and version, as what should run where is made of them. The
// content is that of KindItems, or nil. The list is shared: nobody writes to it.
func ItemsOf(c kind.Content) []items.Item {
	own := kind.As[Collection](c)
	if all := own.released.Load(); all != nil {
		return *all
	}
	var all []items.Item
	for _, it := range own.sorted() {
		for _, v := range it.sorted() {
			all = append(all, items.Item{ID: it.ID, URN: it.URN(), State: v.State, Digest: v.Digest, Meta: v.Meta})
		}
	}
	own.released.Store(&all) // one that was made at the same time is the same
	return all
}

// Find returns a version of an item with its content; nil: it is not there. The content is that of KindItems, or nil.
func Find(c kind.Content, ref items.Ref, version string) *Version {
	if it := kind.As[Collection](c).List[Key(ref)]; it != nil {
		return it.Versions[version]
	}
	return nil
}
