package cloud

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/shared/items"
	"tandem.internal/shared/wire"
)

// DesiredStatus is what the cloud side wants of a unit.
type DesiredStatus struct {
	MessageType   string            `json:"messageType,omitempty"`   // desiredStatus
	CorrelationID string            `json:"correlationId,omitempty"` // unit statuses repeat it
	Nodes         []DesiredNode     `json:"nodes,omitempty"`         // whose state is set; others are provisioned
	UnitConfig    jsontext.Value    `json:"unitConfig,omitzero"`     // a unit configuration; absent: it stays
	Items         []DesiredItem     `json:"items,omitempty"`         // versions that may be used; each once
	Instances     []DesiredInstance `json:"instances,omitempty"`     // what is to run of them
	Subjects      []DesiredSubject  `json:"subjects,omitempty"`      // for which that is
	// of version 7, and not used: what counts here is who has signed, and the unit's own CA
	Certificates      jsontext.Value `json:"certificates,omitzero"`
	CertificateChains jsontext.Value `json:"certificateChains,omitzero"`
}

// DesiredNode is the state of a node.
type DesiredNode struct {
	Item  Identity        `json:"item"`  // its codename, or id, is its name
	State items.NodeState `json:"state"` // provisioned or paused
}

// DesiredItem is a version of an update item.
type DesiredItem struct {
	Item        Identity  `json:"item"` // its id, or codename, and its type
	Version     string    `json:"version"`
	Owner       *Identity `json:"owner,omitempty"`       // for people
	IndexDigest string    `json:"indexDigest,omitempty"` // of its content; absent: whatever it is
}

// DesiredInstance is an item that is to run for a subject.
type DesiredInstance struct {
	Item    Identity `json:"item"`    // one of the items
	Subject Identity `json:"subject"` // one of the subjects
	// not of version 7: the one of several of the item; absent: the highest
	Version      string   `json:"version,omitempty"`
	Priority     *int     `json:"priority,omitempty"`    // higher goes first; absent: that of the item
	NumInstances int      `json:"numInstances,omitzero"` // of a service; a component is once on each node
	Labels       []string `json:"labels,omitempty"`      // all of which a node has to have
}

// DesiredSubject is a subject.
type DesiredSubject struct {
	Identity           Identity          `json:"identity"` // its codename, or id
	Type               items.SubjectType `json:"type"`     // group or user; not of version 7: nodeType
	IsReportedFromUnit bool              `json:"isReportedFromUnit,omitzero"`
}

// Bounds of a desired status.
const (
	MaxNodes     = 10_000
	MaxItems     = 2000
	MaxSubjects  = 2000
	MaxRequests  = 50_000 // entries of instances
	MaxInstances = 10_000 // that these ask for together: as many as a set of workloads has

	maxDepth = 128 // of a message
)

// longest are the bounds of its lists.
var longest = map[string]int64{"/nodes": MaxNodes, "/items": MaxItems, "/subjects": MaxSubjects,
	"/instances": MaxRequests}

// Name is what an item, subject or node goes by here.
func (i *Identity) Name() string { return cmp.Or(i.Codename, i.ID) }

// bare leaves what tells it from others.
func (i *Identity) bare() { i.Title, i.URN = "", "" }

// ParseDesired reads a desired status strictly. It may be packed: {"packed": …}, compressed with gzip, in base64. What
// an entry asks for is not judged here, so that one that cannot be met stops no other. One that was kept has no
// messageType.
func ParseDesired(data []byte) (*DesiredStatus, *wire.Error) {
	var p struct {
		Packed []byte `json:"packed"`
	}
	if json.Unmarshal(data, &p, json.RejectUnknownMembers(true)) == nil && len(p.Packed) > 0 {
		text, err := unpack(p.Packed, MaxDocument)
		if errors.Is(err, errTooLong) {
			return nil, wire.New(wire.CodeTooLarge, "/packed", err.Error())
		}
		if err != nil {
			return nil, wire.New(wire.CodeMalformed, "/packed", err.Error())
		}
		data = text
	}
	if len(data) > MaxDocument {
		return nil, wire.New(wire.CodeTooLarge, "", fmt.Sprintf("longer than %d bytes", MaxDocument))
	}
	if err := measure(data); err != nil {
		return nil, err
	}
	d := &DesiredStatus{}
	if err := wire.Unmarshal(data, d, json.RejectUnknownMembers(true)); err != nil {
		return nil, wire.AsError(err)
	}
	if err := d.check(); err != nil {
		return nil, err
	}
	return d, nil
}

// measure refuses what is nested too deep and lists that are too long, before memory is taken for them: a short message
// that is packed may have more than a million elements.
func measure(data []byte) *wire.Error {
	dec := jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowDuplicateNames(true)) // these are found later
	list, most := "", int64(0)
	for {
		t, err := dec.ReadToken()
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return wire.AsError(err)
		case dec.StackDepth() > maxDepth:
			return wire.New(wire.CodeTooLarge, "", fmt.Sprintf("nested deeper than %d", maxDepth))
		case dec.StackDepth() == 2 && t.Kind() == '[':
			list = string(dec.StackPointer())
			most = longest[list]
		case dec.StackDepth() == 2 && most > 0:
			if _, n := dec.StackIndex(2); n > most {
				return wire.New(wire.CodeTooLarge, list, fmt.Sprintf("at most %d", most))
			}
		case dec.StackDepth() < 2:
			most = 0
		}
	}
}

// check refuses what has no meaning, or two.
func (d *DesiredStatus) check() *wire.Error {
	switch {
	case d.MessageType != "" && d.MessageType != TypeDesiredStatus:
		return wire.New(wire.CodeBadValue, "/messageType", "must be "+TypeDesiredStatus)
	case len(d.CorrelationID) > items.MaxText:
		return wire.New(wire.CodeTooLarge, "/correlationId", fmt.Sprintf("at most %d bytes", items.MaxText))
	}
	c := checker{seen: map[place]bool{}}
	for i := range d.Nodes {
		n := &d.Nodes[i]
		c.named("/nodes", i, "/item", &n.Item)
		c.once("/nodes", i, place{name: n.Item.Name()})
		if n.State != items.Provisioned && n.State != items.Paused {
			c.bad("/nodes", i, "/state", "a node is to be provisioned or paused")
		}
	}
	for i := range d.Items {
		it := &d.Items[i]
		c.once("/items", i, place{item: it.Item.key(), version: it.Version})
		c.named("/items", i, "/item", &it.Item)
		c.short("/items", i, "/version", it.Version, items.MaxText)
		switch t := items.Type(it.Item.Type); {
		case t != items.Component && t != items.Service && t != items.Layer:
			c.bad("/items", i, "/item/type", "an item is a component, service or layer")
		case it.IndexDigest != "" && !wire.ValidHash(it.IndexDigest):
			c.bad("/items", i, "/indexDigest", "no digest: sha256: and 64 hexadecimal digits")
		}
		if _, err := items.ParseVersion(it.Version); err != nil {
			c.bad("/items", i, "/version", err.Error())
		}
	}
	for i := range d.Subjects {
		s := &d.Subjects[i]
		c.named("/subjects", i, "/identity", &s.Identity)
		c.once("/subjects", i, place{name: s.Identity.Name()})
		if s.Identity.ID != "" { // by which it is meant, too
			c.once("/subjects", i, place{item: identity{id: s.Identity.ID}})
		}
		if s.Type != items.Group && s.Type != items.User && s.Type != items.NodeType {
			c.bad("/subjects", i, "/type", "a subject is a group or user")
		}
	}
	all := 0
	for i := range d.Instances {
		in := &d.Instances[i]
		c.once("/instances", i, place{item: in.Item.key(), version: in.Version, name: in.Subject.Name()})
		c.named("/instances", i, "/item", &in.Item)
		c.named("/instances", i, "/subject", &in.Subject)
		c.short("/instances", i, "/version", in.Version, items.MaxText)
		c.labels(i, in.Labels)
		if p := in.Priority; p != nil && (*p < 0 || int64(*p) > items.MaxPriority) {
			c.bad("/instances", i, "/priority", fmt.Sprintf("must be from 0 to %d", int64(items.MaxPriority)))
		}
		if in.NumInstances < 0 || in.NumInstances > items.MaxInstances {
			c.bad("/instances", i, "/numInstances", fmt.Sprintf("must be from 0 to %d", items.MaxInstances))
		} else if all += in.NumInstances; all > MaxInstances && c.err == nil {
			c.err = wire.New(wire.CodeTooLarge, "/instances", fmt.Sprintf("at most %d together", MaxInstances))
		}
	}
	return c.err
}

// checker keeps the first mistake.
type checker struct {
	seen map[place]bool
	err  *wire.Error
}

// place is what tells an element of a list from every other one.
type place struct {
	list          string
	item          identity
	version, name string // of the item; of a node or subject
}

func (c *checker) bad(list string, i int, at, text string) {
	if c.err == nil {
		c.err = wire.New(wire.CodeBadValue, list+"/"+strconv.Itoa(i)+at, text)
	}
}

// once refuses an element that is there twice.
func (c *checker) once(list string, i int, at place) {
	at.list = list
	if c.seen[at] && c.err == nil {
		c.err = wire.New(wire.CodeDuplicate, list+"/"+strconv.Itoa(i), "it is there twice")
	}
	c.seen[at] = true
}

// named refuses what has no name, or a longer one than anything here can have.
func (c *checker) named(list string, i int, at string, id *Identity) {
	if id.Name() == "" {
		c.bad(list, i, at, "id or codename is required")
	}
	c.short(list, i, at+"/id", id.ID, items.MaxText)
	c.short(list, i, at+"/type", id.Type, items.MaxText)
	c.short(list, i, at+"/codename", id.Codename, items.MaxText)
	c.short(list, i, at+"/title", id.Title, items.MaxLong)
	c.short(list, i, at+"/urn", id.URN, items.MaxLong)
}

func (c *checker) labels(i int, all []string) {
	if len(all) > items.MaxList && c.err == nil {
		c.err = wire.New(wire.CodeTooLarge, fmt.Sprintf("/instances/%d/labels", i),
			fmt.Sprintf("at most %d", items.MaxList))
	}
	for j, label := range all {
		c.short("/instances", i, "/labels/"+strconv.Itoa(j), label, items.MaxText)
	}
}

// short refuses a text that is too long.
func (c *checker) short(list string, i int, at, text string, most int) {
	if len(text) > most && c.err == nil {
		c.err = wire.New(wire.CodeTooLarge, list+"/"+strconv.Itoa(i)+at, fmt.Sprintf("at most %d bytes", most))
	}
}

// Canonical is the same desired status in one order, without what says nothing about the unit: two that want the same
// have equal texts. It can be read again. Numbers of the unit configuration stay as they were written: who has signed
// them meant these, and one of few bytes would become long.
func (d *DesiredStatus) Canonical() []byte {
	c := DesiredStatus{Nodes: slices.Clone(d.Nodes), Items: slices.Clone(d.Items), Subjects: slices.Clone(d.Subjects),
		Instances: slices.Clone(d.Instances)}
	if d.UnitConfig != nil && !bytes.Equal(d.UnitConfig, []byte("null")) {
		c.UnitConfig = d.UnitConfig.Clone()
		if err := c.UnitConfig.Canonicalize(jsontext.CanonicalizeRawInts(false),
			jsontext.CanonicalizeRawFloats(false)); err != nil {
			c.UnitConfig = d.UnitConfig // it was read: this cannot happen
		}
	}
	for i := range c.Nodes {
		c.Nodes[i].Item.bare()
	}
	slices.SortFunc(c.Nodes, func(a, b DesiredNode) int { return a.Item.key().compare(b.Item.key()) })
	for i := range c.Items {
		c.Items[i].Owner = nil
		c.Items[i].Item.bare()
	}
	slices.SortFunc(c.Items, func(a, b DesiredItem) int {
		return cmp.Or(a.Item.key().compare(b.Item.key()), cmp.Compare(a.Version, b.Version))
	})
	for i := range c.Subjects {
		c.Subjects[i].Identity.bare()
	}
	slices.SortFunc(c.Subjects, func(a, b DesiredSubject) int {
		return a.Identity.key().compare(b.Identity.key())
	})
	for i := range c.Instances {
		c.Instances[i].Labels = slices.Sorted(slices.Values(c.Instances[i].Labels))
		c.Instances[i].Item.bare()
		c.Instances[i].Subject.bare()
	}
	slices.SortFunc(c.Instances, func(a, b DesiredInstance) int {
		return cmp.Or(a.Item.key().compare(b.Item.key()), cmp.Compare(a.Version, b.Version),
			a.Subject.key().compare(b.Subject.key()))
	})
	text, err := json.Marshal(&c, json.Deterministic(true))
	if err != nil {
		panic("cloud: a desired status cannot be written: " + err.Error()) // it was read, or is texts and numbers
	}
	return text
}
