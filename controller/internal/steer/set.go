package steer

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/desired"
	kinditems "tandem.internal/controller/internal/kinds/items"
	"tandem.internal/controller/internal/kinds/workloads"
	"tandem.internal/shared/items"
	"tandem.internal/shared/limits"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// propertyContent is the property of a slot by which the filler of its content applies.
const propertyContent = "tandem.content"

// Set makes of a plan the set of workloads that nodes get their parts of, without what cannot be run as it was decided:
// a topology for each instance of a service, and a filler for each content that some of them have; an instance that
// waits for others has its content itself. Equal plans give equal bytes.
func (u *Unit) Set(p *desired.Plan) ([]byte, []desired.Misfit) {
	m := u.make(p)
	m.keep(workload.MaxEntries, m.fits)
	return m.encode(), m.misfits
}

// make gathers the instances of services of a plan.
func (u *Unit) make(p *desired.Plan) *maker {
	m := &maker{Unit: u, crowd: u.newCrowd("set of workloads", workload.MaxDocument), fillers: map[string]*filled{},
		templates: map[key]string{}, configs: map[*desired.Placed]*workload.Config{}}
	for i := range p.Nodes {
		n := &p.Nodes[i]
		for j := range n.Instances {
			if err := m.instance(n, &n.Instances[j]); err != nil {
				m.refuse(n.Node, &n.Instances[j], err.Message)
			}
		}
	}
	return m
}

// fits reports whether a document of a node has room for some instances.
func (m *maker) fits(parts []part) bool {
	var all []workload.Config
	for _, p := range parts {
		all = append(all, *m.configs[p.placed])
	}
	_, err := workload.EncodeDocument(all)
	return err == nil
}

// maker gathers the entries of a set.
type maker struct {
	*Unit
	*crowd
	entries   []entry
	configs   map[*desired.Placed]*workload.Config // as nodes get them
	fillers   map[string]*filled                   // by the value of propertyContent
	templates map[key]string                       // that were made: the value of propertyContent
}

// entry is an instance in a set.
type entry struct {
	slot workload.Slot
	text jsontext.Value
}

// filled is a filler, and whether a topology has it.
type filled struct {
	filler
	text jsontext.Value
	used bool
}

// key is what a template depends on.
type key struct {
	ref               items.Ref
	version, platform string
	runtime           string
	limits            string // of the node; "": none
	layers            string
}

// topology is an entry of a set, as package workload reads it.
type topology struct {
	Class      string            `json:"@class"`
	Slot       workload.Slot     `json:"slot"`
	Properties map[string]string `json:"properties"`
}

// filler is another.
type filler struct {
	Class    string   `json:"@class"`
	Name     string   `json:"name"`
	Instance template `json:"instance"`
}

// template is what a filler gives.
type template struct {
	Class      string                       `json:"@class"`
	Container  *workload.Container          `json:"container,omitempty"`
	Properties map[string]string            `json:"properties"`
	Resources  map[string]workload.Artifact `json:"resources"`
}

// instance adds an instance. Components are no workloads.
func (m *maker) instance(n *desired.NodePlan, i *desired.Placed) *wire.Error {
	if i.Type != items.Service {
		return nil
	}
	content, err := m.content(n, i)
	if err != nil {
		return err
	}
	properties := map[string]string{
		workloads.PropertyItem: i.Codename, workloads.PropertyVersion: i.Version,
		workloads.PropertySubject: i.Subject, workloads.PropertyIndex: strconv.Itoa(i.Index),
		workloads.PropertyRuntime: i.Runtime, propertyContent: content,
	}
	if i.EnvDigest != "" {
		properties[workloads.PropertyEnv] = i.EnvDigest
	}
	for _, v := range i.Env {
		properties[workload.EnvPrefix+v.Name] = v.Text
	}
	f := m.fillers[content]
	slot := workload.Slot{Service: Service(i.Codename, i.Subject, i.Index), Node: n.Node}
	c := &workload.Config{Class: workload.Instance, Slot: slot, Container: f.Instance.Container, Properties: properties,
		Resources: f.Instance.Resources, Needs: m.needs(n, i)}
	if len(c.Needs) > workload.MaxNeeds {
		return wire.New(wire.CodeTooLarge, "", fmt.Sprintf("it waits for %d instances on %s, and may wait for %d",
			len(c.Needs), n.Node, workload.MaxNeeds))
	}
	m.configs[i] = c
	p := part{node: n.Node, placed: i}
	e := entry{slot: slot}
	if len(c.Needs) > 0 {
		e.text = marshal(c)
	} else {
		e.text = marshal(&topology{"TopologicalInstance", slot, properties})
		f.used, p.with, p.weight = true, content, len(f.text)
	}
	p.size = len(e.text)
	m.entries = append(m.entries, e)
	m.crowd.add(p)
	return nil
}

// needs are the slots of the node for which an instance waits: those of the services that it depends on, in a version
// that will do. One on another node is not waited for.
func (m *maker) needs(n *desired.NodePlan, i *desired.Placed) (all []workload.Need) {
	for _, d := range m.Find(ref(i), i.Version).Meta.Dependencies {
		for j := range n.Instances {
			o := &n.Instances[j]
			if d.Type == items.Service && ref(o) == d.Ref() && inRange(&d, o.Version) {
				all = append(all, workload.Need{Condition: workload.Condition(d.Condition),
					Slot: workload.Slot{Service: Service(o.Codename, o.Subject, o.Index), Node: n.Node}})
			}
		}
	}
	return all
}

// Service is the service of the slot that runs an instance: CODENAME.SUBJECT.INDEX. Where that is too long, or a dot in
// one of the names could make it another instance's, part of a hash stands for subject and index.
func Service(codename, subject string, index int) string {
	name := codename + "." + subject + "." + strconv.Itoa(index)
	if len(name) <= topic.MaxName && !strings.Contains(codename+subject, ".") {
		return name
	}
	sum := sha256.Sum256([]byte(name + " " + codename))
	return codename[:min(len(codename), topic.MaxName-17)] + "." + hex.EncodeToString(sum[:8])
}

// content returns the value of propertyContent for an instance, and makes its filler.
func (m *maker) content(n *desired.NodePlan, i *desired.Placed) (string, *wire.Error) {
	k := key{ref: ref(i), version: i.Version, platform: platformText(i.Platform)}
	version := m.Find(ref(i), i.Version)
	if version == nil {
		return "", wire.New(wire.CodeNotFound, "", "it was removed")
	}
	constraints := m.constraints(n.Node, &version.Meta)
	if constraints != nil {
		k.limits = string(marshal(constraints))
	}
	item := k.ref.String() + " " + i.Version
	runtime := m.runtime(n.Node, i.Runtime)
	k.runtime = runtime.ID
	var layers []use
	for j := range n.Layers {
		if l := &n.Layers[j]; slices.Contains(l.For, item) {
			layers = append(layers, use{l.Codename, l.Version})
			k.layers += l.Codename + " " + l.Version + "\n"
		}
	}
	if done, ok := m.templates[k]; ok {
		return done, nil
	}
	t, err := m.template(i, runtime, layers)
	if err != nil {
		return "", err
	}
	if constraints != nil {
		if t.Container == nil {
			t.Container = &workload.Container{}
		}
		t.Container.Constraints = constraints
	}
	sum := sha256.Sum256(marshal(t))
	value := hex.EncodeToString(sum[:8])
	t.Properties[propertyContent] = value
	f := filler{"InstanceFiller", item + " " + value, *t}
	m.fillers[value] = &filled{filler: f, text: marshal(&f)}
	m.templates[k] = value
	return value, nil
}

// template makes what instances of a version have in common in a runtime: its files, and its layers.
func (u *Unit) template(i *desired.Placed, r *items.Runtime, layers []use) (*template, *wire.Error) {
	version := u.Find(ref(i), i.Version)
	switch {
	case version == nil:
		return nil, wire.New(wire.CodeNotFound, "", "it was removed")
	case !ofServices(r.ID):
		return nil, wire.New(wire.CodeNotSupported, "", "the runtime "+r.ID+" runs no services: say in its metadata "+
			"which runtimes it needs")
	}
	t := &template{Class: "Instance", Properties: map[string]string{}, Resources: map[string]workload.Artifact{}}
	if err := t.service(version, i); err != nil {
		return nil, err
	}
	for _, l := range layers {
		b, err := u.layer(l, r)
		if err != nil {
			return nil, err
		}
		if err := t.layer(l, b); err != nil {
			return nil, err
		}
	}
	most := workload.MaxMembers
	if contains(i.Runtime) {
		most = 1 + workload.MaxUnder
	}
	if len(t.Resources) > most {
		return nil, wire.New(wire.CodeTooLarge, "", fmt.Sprintf("it has %d files and layers, and may have %d",
			len(t.Resources), most))
	}
	return t, nil
}

// service adds the files of a service.
func (t *template) service(v *kinditems.Version, i *desired.Placed) *wire.Error {
	build := v.Content.Build(i.Platform)
	if build == nil {
		return wire.New(wire.CodeNotFound, "", "it has no build for "+platformText(i.Platform))
	}
	uuid := "service " + i.Codename + " " + i.Version
	switch form := v.Content.Form; {
	case contains(i.Runtime) && form == items.Image:
		return t.contain(v, i.Runtime, build, uuid)
	case contains(i.Runtime):
		return wire.New(wire.CodeNotSupported, "", fmt.Sprintf("it is of the form %s, and the runtime %s runs images",
			form, i.Runtime))
	case form == items.File:
		t.Resources[workload.HookStart] = artefact(&build.Blobs[0], uuid)
	case form == items.Tree:
		t.Resources[filesResource] = unpacked(&build.Blobs[0], uuid, "")
		for _, hook := range build.Hooks {
			t.Resources[hook] = unpacked(&build.Blobs[0], uuid, hook)
		}
	default:
		return wire.New(wire.CodeNotSupported, "", fmt.Sprintf("it is of the form %s, which the runtime %s does not "+
			"run", form, i.Runtime))
	}
	return nil
}

// filesResource is the name of the directory of a service that is one.
const filesResource = "files"

// use is a layer that a service needs.
type use struct{ codename, version string }

// ref names the item of an instance.
func ref(i *desired.Placed) items.Ref { return items.Ref{Type: i.Type, Codename: i.Codename} }

// layer finds the file of a layer for a runtime.
func (u *Unit) layer(l use, r *items.Runtime) (*items.Blob, *wire.Error) {
	v := u.Find(items.Ref{Type: items.Layer, Codename: l.codename}, l.version)
	if v == nil {
		return nil, wire.New(wire.CodeNotFound, "", "its layer "+l.codename+" "+l.version+" was removed")
	}
	build := v.Content.Build(desired.PlatformOf(v.Meta.Platforms, r))
	switch {
	case build == nil:
		return nil, wire.New(wire.CodeNotFound, "", "its layer "+l.codename+" "+l.version+" has no build for "+
			r.Architecture)
	case v.Content.Form != items.Tree:
		return nil, wire.New(wire.CodeNotSupported, "", fmt.Sprintf("its layer %s %s is of the form %s, and not a tree",
			l.codename, l.version, v.Content.Form))
	}
	return &build.Blobs[0], nil
}

// layer adds a layer, under its codename.
func (t *template) layer(l use, b *items.Blob) *wire.Error {
	if _, taken := t.Resources[l.codename]; taken || strings.HasPrefix(l.codename, "iss_hook_") {
		return wire.New(wire.CodeDuplicate, "", "it has another file of the name of its layer "+l.codename+" "+
			l.version)
	}
	a := unpacked(b, workloads.LayerUUID(l.codename, l.version), "")
	a.Cached = true
	t.Resources[l.codename] = a
	return nil
}

// cfsPeriod is the period of a limit of processor time, in microseconds.
const cfsPeriod = 100_000

// constraints are the quotas of a service as limits of its control group, as far as the node can enforce them: nil if
// none.
func (m *maker) constraints(node string, meta *items.Meta) map[string]string {
	info := m.infos[node]
	caps, err := limits.ParseCapabilities(info.Attributes[wire.AttributeLimits])
	if err != nil {
		return nil
	}
	all := map[string]string{}
	if ram := meta.Quotas.RAM; ram > 0 {
		all["memory.max"] = strconv.FormatInt(ram, 10)
	}
	if dmips := m.node(node).CPU; meta.Quotas.CPU > 0 && dmips > 0 && info.CPUs > 0 {
		quota := max(1000, meta.Quotas.CPU*int64(info.CPUs)*cfsPeriod/dmips)
		all["cpu.max"] = fmt.Sprintf("%d %d", quota, cfsPeriod)
	}
	for name, value := range all {
		if limits.Check(map[string]string{name: value}, caps, "") != nil {
			delete(all, name)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

func platformText(p *items.Platform) string {
	if p == nil {
		return "any platform"
	}
	return strings.Join(append([]string{p.OS, p.Architecture, p.Variant}, p.OSFeatures...), "/")
}

// encode writes the set.
func (m *maker) encode() []byte {
	var fillers []*filled
	for _, f := range m.fillers {
		if f.used {
			fillers = append(fillers, f)
		}
	}
	slices.SortFunc(fillers, func(a, b *filled) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(m.entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.slot.Node, b.slot.Node), cmp.Compare(a.slot.Service, b.slot.Service))
	})
	all := []jsontext.Value{}
	for _, f := range fillers {
		all = append(all, f.text)
	}
	for i := range m.entries {
		all = append(all, m.entries[i].text)
	}
	return marshal(all)
}

func marshal(v any) []byte {
	data, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		panic("steer: a set of workloads cannot be written: " + err.Error()) // it is texts and numbers
	}
	return data
}
