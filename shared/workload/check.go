package workload

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"tandem.internal/shared/limits"
	"tandem.internal/shared/publisher"
	"tandem.internal/shared/strictjson"
	"tandem.internal/shared/wire"
)

// What comes out of fillers is checked here.

// topologies returns the topologies by their slots, and reports those of one slot.
func (f *filling) topologies() map[Slot]*Topology {
	all := map[Slot]*Topology{}
	for i := range f.set.Topologies {
		t := &f.set.Topologies[i]
		if _, taken := all[t.Slot]; taken {
			places := f.set.places[slotKey(t.Slot, TopologicalInstance)]
			f.add(newest(places), wire.CodeDuplicate, "", "the slot %s has two entries%s", t.Slot, first(places))
		}
		all[t.Slot] = t
	}
	return all
}

// overlaid returns the members of both, that of b where both have one.
func overlaid(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	if all == nil {
		return b
	}
	maps.Copy(all, b)
	return all
}

const noTimeLimits = `the filler of a job needs "timeLimits"`

// checkJob reports a filler of jobs without time limits, neither its own nor inherited ones (seed 004, Filler).
func (f *filling) checkJob(r *resolved) {
	if r.Fill.Class != Job || r.Fill.TimeLimits != nil {
		return
	}
	for n := range r.ancestors {
		if f.fillers[n] != nil && f.fillers[n].Fill.TimeLimits != nil {
			return
		}
	}
	f.add(f.filler(r.Name), wire.CodeMissing, atLimits, "filler %s: %s, its own or those of a parent",
		strictjson.Show(r.Name), noTimeLimits)
}

// filled returns a piece with its templates replaced by values of e.
func (f *filling) filled(p piece, e *entry) (piece, error) {
	var err error
	fill := func(s string) string {
		if !isTemplate(s) {
			return s
		}
		v, ferr := e.fill(s)
		if err == nil {
			err = ferr
		}
		return v
	}
	if a := p.artifact; a != nil {
		filled := *a
		filled.UUID, filled.Verification.Checksum = fill(a.UUID), fill(a.Verification.Checksum)
		filled.Verification.Minisign = fill(a.Verification.Minisign)
		if err == nil && !f.set.stored {
			if a.UUID != "" && filled.UUID == "" {
				err = errors.New("a uuid must not be empty")
			}
			if isTemplate(a.Verification.Checksum) {
				filled.Verification.Checksum = canonical(filled.Verification.Checksum)
			}
		}
		filled.URLs = make([]string, len(a.URLs))
		for i, u := range a.URLs {
			filled.URLs[i] = fill(u)
		}
		p.artifact = &filled
		return p, err
	}
	p.text = fill(p.text)
	return p, err
}

// runnable checks one configuration that was filled.
type runnable struct {
	*filling
	*Config
	origins map[string]string // name of a value's filler, by the value's JSON pointer
}

// bad adds a problem of the value at. below is the rest of the pointer of what is wrong in it.
func (r *runnable) bad(code wire.Code, at, below, format string, a ...any) {
	place := r.filling.slot(r.Slot)
	if from := r.origins[at]; from != "" {
		place = r.filling.filler(from)
	}
	r.add(place, code, at+below, "%s", About(r.Slot, fmt.Sprintf(format, a...)))
}

// checkRunnable reports why a configuration cannot be run. origins has the filler of each value.
func (f *filling) checkRunnable(c *Config, origins map[string]string) {
	r := &runnable{f, c, origins}
	for _, l := range defects(c.Container, c.Resources, c.TimeLimits) {
		at := atResources
		if l.limit != "" {
			at = strictjson.Member(atLimits, l.limit)
		}
		r.bad(l.code, at, "", "%s", l.message)
	}
	for _, n := range slices.Sorted(maps.Keys(c.Resources)) {
		r.checkResource(n, c.Resources[n])
	}
	if f.set.stored {
		return
	}
	if id := c.ConfigurationID; len(id) > MaxID || strings.ContainsFunc(id, unicode.IsControl) {
		r.bad(wire.CodeBadValue, atID, "", "a node reports a configurationId of at most %d bytes, without control "+
			"characters", MaxID)
	}
	constraints := map[string]string(nil)
	if c.Container != nil {
		constraints = c.Container.Constraints
	}
	for _, m := range []struct {
		at string
		n  int
	}{{atConstraints, len(constraints)}, {atProperties, len(c.Properties)}, {atResources, len(c.Resources)},
		{atLimits, len(c.TimeLimits)}} {
		if m.n > MaxMembers {
			r.bad(wire.CodeTooLarge, m.at, "", "more than %d fields, those of fillers included", MaxMembers)
		}
	}
	for _, e := range limits.CheckAny(constraints, atConstraints) {
		r.bad(e.Code, e.Path, "", "%s", e.Message)
	}
}

// checkResource reports why a resource of the name n cannot be fetched.
func (r *runnable) checkResource(n string, a Artifact) {
	at := strictjson.Member(atResources, n)
	for i, u := range a.URLs {
		below := fmt.Sprintf("/urls/%d", i)
		if err := checkURL(u, r.set.stored); err != nil {
			r.bad(wire.CodeBadValue, at, below, "%v", err)
		} else if slices.Index(a.URLs, u) < i && !r.set.stored {
			r.bad(wire.CodeDuplicate, at, below, "this URL is there already")
		}
	}
	algorithm, _, err := ParseChecksum(a.Verification.Checksum)
	switch {
	case err != nil:
		r.bad(wire.CodeBadValue, at, "/verification/checksum", "%v", err)
	case algorithm == Empty && a.UUID == "" && !r.set.stored:
		r.bad(wire.CodeMissing, at, "/verification/checksum", "%s", nameless)
	}
	if s := a.Verification.Minisign; s != "" {
		if _, err := publisher.Parse(s); err != nil {
			r.bad(wire.CodeBadValue, at, "/verification/minisign", "%s", malformedSignature(err))
		} else if !holds(a.Verification.Checksum) {
			r.bad(wire.CodeMissing, at, "/verification/minisign", "%s", unheld)
		}
	}
}
