package desired

import (
	"cmp"
	"maps"
	"slices"

	"tandem.internal/shared/items"
)

// addSubjects sorts the subjects and finds their nodes.
func (w *world) addSubjects() {
	reported, byType := map[string]bool{}, map[string][]*node{}
	for _, n := range w.nodes {
		byType[n.Info.Type] = append(byType[n.Info.Type], n)
		for _, s := range n.Info.Subjects {
			reported[s] = true
		}
	}
	for i := range w.in.Subjects {
		s := &subject{Subject: &w.in.Subjects[i]}
		s.reported = !s.Reported || reported[s.Codename]
		switch {
		case s.Type == items.NodeType:
			s.nodes = byType[s.Codename]
		case len(s.Nodes) == 0:
			s.all, s.nodes = true, w.nodes
		default:
			for _, id := range slices.Sorted(slices.Values(s.Nodes)) {
				if n := w.byNode[id]; n != nil {
					s.nodes = append(s.nodes, n)
				}
			}
		}
		if !s.all {
			s.has = make(map[*node]bool, len(s.nodes))
			for _, n := range s.nodes {
				s.has[n] = true
			}
		}
		w.subjects = append(w.subjects, s)
	}
	slices.SortFunc(w.subjects, func(a, b *subject) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Codename, b.Codename))
	})
}

// collect finds the version that each attachment means, subject by subject. Of a component the highest subject has
// each node.
func (w *world) collect() {
	taken := map[items.Ref][]*candidate{} // by node
	for _, s := range w.subjects {
		attached := make([]*items.Attachment, len(s.Items))
		for i := range s.Items {
			attached[i] = &s.Items[i]
		}
		// the seed takes components first: "component" sorts before "service"
		slices.SortFunc(attached, func(a, b *items.Attachment) int { return compareRefs(a.Ref(), b.Ref()) })
		for _, a := range attached {
			c := w.choose(s, a)
			if c == nil {
				continue
			}
			c.setEnv()
			if a.Type == items.Component {
				if taken[c.ref()] == nil {
					taken[c.ref()] = make([]*candidate, len(w.nodes))
				}
				w.outrank(c, taken[c.ref()])
			}
			w.candidates = append(w.candidates, c)
			w.byRef[c.ref()] = append(w.byRef[c.ref()], c)
		}
	}
}

// choose finds the highest version in an attachment's range that is ready, or is deprecated and runs for the subject.
// Nil: there is none, for a reason that is recorded.
func (w *world) choose(s *subject, a *items.Attachment) *candidate {
	r := Reason{Type: a.Type, Codename: a.Codename, Subject: s.Codename}
	record := func(code Code, version string) {
		r.Reason, r.Version = code, version
		w.reasons = append(w.reasons, r)
	}
	if !s.reported {
		record(NotReported, "")
		return nil
	}
	all := w.versions[a.Ref()]
	if len(all) == 0 {
		record(NotReady, "")
		return nil
	}
	var c *candidate
	var inRange []*version
	for _, v := range all {
		if !a.Versions.Has(v.number, a.IncludePreRelease) {
			continue
		}
		inRange = append(inRange, v)
		if c == nil && (v.State == items.Ready || v.State == items.Deprecated && w.runsFor(s, v)) {
			c = &candidate{version: v, subject: s, att: a, kept: v.State == items.Deprecated,
				labels: slices.Sorted(slices.Values(a.Labels))}
		}
	}
	switch {
	case len(inRange) == 0:
		r.Needs = &Need{Type: a.Type, Codename: a.Codename, Range: rangeText(a.Versions)}
		r.Versions = numbers(all)
		record(Unmet, "")
		return nil
	case c == nil:
		r.Versions = numbers(inRange)
		code := NotReady
		if !slices.ContainsFunc(inRange, func(v *version) bool { return v.State == items.Preparation }) {
			code = Deprecated
		}
		record(code, "")
		return nil
	}
	w.passedOver(c, inRange)
	return c
}

// setEnv finds the environment of the instances: what the subject says comes before what the metadata says.
func (c *candidate) setEnv() {
	all := c.Meta.Env.With(c.att.Env)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		v := Variable{name, all[name], OfMetadata}
		if _, over := c.att.Env[name]; over {
			v.From = OfSubject
		}
		c.env = append(c.env, v)
	}
	c.envDigest = all.Digest()
}

// passedOver records why a candidate's other versions are not chosen.
func (w *world) passedOver(c *candidate, inRange []*version) {
	for _, v := range inRange {
		r := c.reason(Superseded)
		r.Version = v.Meta.Version
		switch higher := v.number.Compare(c.number) > 0; {
		case v == c.version || !higher && v.State != items.Ready:
			continue
		case higher && v.State == items.Preparation:
			r.Reason = NotReady
		case higher:
			r.Reason = Deprecated
		}
		by := c.party()
		r.By = &by
		w.reasons = append(w.reasons, r)
	}
}

// runsFor reports whether a version runs for a subject now.
func (w *world) runsFor(s *subject, v *version) bool {
	for i := range w.in.Current.Instances {
		c := &w.in.Current.Instances[i]
		if c.Subject == s.Codename && c.Ref() == v.Meta.Ref() && c.Version == v.Meta.Version {
			return true
		}
	}
	return false
}

// outrank gives a component the nodes of its subject that no higher subject has. One that gets none is desired
// nevertheless: what it suppresses, and what needs it, does not depend on which nodes there are.
func (w *world) outrank(c *candidate, taken []*candidate) {
	lost := map[*candidate]int{}
	for _, n := range c.subject.nodes {
		if by := taken[n.index]; by != nil {
			lost[by]++
			continue
		}
		taken[n.index] = c
		c.on = append(c.on, n)
	}
	winners := make([]*candidate, 0, len(lost))
	for by := range lost {
		winners = append(winners, by)
	}
	slices.SortFunc(winners, byRank)
	for _, by := range winners {
		r, party := c.reason(Outranked), by.party()
		r.By, r.Nodes = &party, lost[by]
		w.reasons = append(w.reasons, r)
	}
}

// numbers are versions as text, at most mostVersions.
func numbers(all []*version) (texts []string) {
	for _, v := range all[:min(len(all), mostVersions)] {
		texts = append(texts, v.Meta.Version)
	}
	return texts
}

// rangeText is a range as it was written; "": any version.
func rangeText(r items.Range) string {
	if r.IsZero() {
		return ""
	}
	return r.String()
}

// suppress puts out what an item of higher rank does not want beside it. What is out suppresses nothing.
func (w *world) suppress() {
	for _, c := range w.live() {
		if c.out != nil {
			continue // since the list was made
		}
		for _, ref := range c.Meta.SuppressItems {
			for _, t := range w.byRef[ref] {
				switch {
				case t.out != nil:
				case byRank(c, t) < 0:
					r, by := t.reason(Suppressed), c.party()
					r.By = &by
					w.refuse(t, r)
				default:
					r, by := c.reason(Ineffective), t.party()
					r.By = &by
					w.reasons = append(w.reasons, r)
				}
			}
		}
	}
}

// conflicts puts out what wants something that one item in the unit can have, and one of higher rank has. What a node
// has once, such as a port, is a matter of placement.
func (w *world) conflicts() {
	hosts := map[string]*candidate{}
	for _, c := range w.live() {
		name := c.Meta.Hostname
		if name == "" {
			continue
		}
		holder := hosts[name]
		switch {
		case holder == nil:
			hosts[name] = c
		case holder.ref() != c.ref():
			r, by := c.reason(Conflict), holder.party()
			r.Rule, r.About, r.By = Hostname, name, &by
			w.refuse(c, r)
		}
	}
}
