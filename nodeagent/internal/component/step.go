package component

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"tandem.internal/nodeagent/internal/update"
	"tandem.internal/shared/wire"
)

// drive does what is due for each component, and says how far it is.
func (t *step) drive() {
	t.status = make([]wire.ComponentStatus, 0, len(t.doc.Components))
	var want []wire.NodeComponent
	for i := range t.doc.Components {
		c := &t.doc.Components[i]
		w := t.work[c.Name]
		v := t.look(c, &w)
		w.fetched = w.fetched && v.needs
		t.work[c.Name] = w
		t.status = append(t.status, wire.ComponentStatus{Name: c.Name, Item: c.Item, Version: c.Version, State: v.state,
			Error: v.err, Again: w.at})
		if v.needs {
			want = append(want, *c)
		}
	}
	if !slices.EqualFunc(want, t.files, SameFile) {
		t.files = want
		t.do(Fetch{want})
	}
}

// SameFile reports whether there is nothing else to fetch, nor from elsewhere.
func SameFile(a, b wire.NodeComponent) bool {
	return a.Hash == b.Hash && a.Size == b.Size && a.Minisign == b.Minisign && slices.Equal(a.URLs, b.URLs)
}

// verdict is how far a component is.
type verdict struct {
	state wire.ComponentState
	err   *wire.Error
	needs bool // its file
}

// look says how far a component is, and does what is due for it.
func (t *step) look(c *wire.NodeComponent, w *work) verdict {
	p, there := t.parts[c.Name]
	r := &p.Record
	ours := r.Version == c.Version && r.Hash == c.Hash
	if !ours || r.Phase != update.Staged {
		w.trial = notAsked
	}
	switch {
	case !there:
		w.rest()
		return verdict{state: wire.ComponentFailed, err: wire.New(wire.CodeNotFound, "", fmt.Sprintf(
			"the settings of this node's agent name no component %s: --component", c.Name))}
	case !p.Answered:
		return verdict{state: wire.ComponentPending}
	case r.Phase.OnTrial() && ours:
		w.rest()
		w.number = r.Number
		return verdict{state: wire.ComponentInstalling, err: givenUp(r)}
	case r.Phase == update.Installing && ours, w.number > r.Number: // what was staged is not taken up yet
		w.rest()
		w.number = max(w.number, r.Number)
		return verdict{state: wire.ComponentInstalling}
	case r.Phase.OnTrial() || r.Phase == update.Installing, r.Phase == update.Staged && r.Try != "" && !ours:
		w.rest()
		return verdict{state: wire.ComponentPending, err: wire.New(wire.CodeWrongState, "", fmt.Sprintf(
			"version %s is %s", r.Version, r.Doing()))}
	case r.Has.Active == c.Version:
		*w = work{hash: c.Hash}
		return verdict{state: wire.ComponentInstalled}
	}
	if err := update.Quarantined(r.Quarantine, c.Hash); err != nil {
		w.rest()
		return verdict{state: wire.ComponentFailed, err: err}
	}
	if l := &r.Last; w.number != 0 && l.Number == w.number && !l.Committed && r.Phase == update.None {
		w.number = 0
		t.failed(w, wire.New(wire.CodeApplyFailed, "", l.Why.Detail))
	}
	needs := !ours || r.Phase != update.Staged
	if t.now.Mono < w.again {
		state := wire.ComponentFailed
		if w.at.IsZero() {
			state = wire.ComponentPending
		}
		return verdict{state, w.err, needs}
	}
	w.again, w.at = 0, time.Time{}
	v := t.next(c, w, r, ours)
	v.needs = needs
	return v
}

// givenUp says why an update of which the version is being given up is.
func givenUp(r *update.Record) *wire.Error {
	if r.Phase != update.RollingBack && r.Phase != update.Leaving {
		return nil
	}
	return wire.New(wire.CodeApplyFailed, "", r.Why.Detail)
}

// rest ends a pause: something else has gone on.
func (w *work) rest() { w.again, w.at, w.err = 0, time.Time{}, nil }

// next does the next step for a component of which nothing is under way.
func (t *step) next(c *wire.NodeComponent, w *work, r *update.Record, ours bool) verdict {
	installing := verdict{state: wire.ComponentInstalling}
	switch other := t.waitsFor(c); {
	case w.staging:
		return installing
	case other != "":
		return verdict{state: wire.ComponentPending, err: wire.New(wire.CodeUnavailable, "",
			"it waits for component "+other)}
	case ours && r.Phase == update.Staged && r.Try != "":
		w.trial = seen
		if r.Note != "" {
			installing.err = wire.New(wire.CodeWrongState, "", r.Note)
		}
		return installing
	case w.trial == asked, w.trial == ordered:
		return installing
	case w.trial == seen: // the order is gone, and there was no trial
		w.trial = notAsked
		t.failed(w, wire.New(wire.CodeApplyFailed, "", cmp.Or(r.Note, "it was not tried")))
		return verdict{state: wire.ComponentFailed, err: w.err}
	case ours && r.Phase == update.Staged:
		w.trial, w.number, w.err = asked, r.Number, nil
		t.do(Try{*c})
		return installing
	case !w.fetched:
		return verdict{state: wire.ComponentDownloading, err: w.err}
	}
	w.staging, w.err = true, nil
	t.do(Stage{*c})
	return installing
}

// waitsFor is the first component that has to have its version before, and has not; "": none. One that the document
// does not have is not waited for.
func (t *step) waitsFor(c *wire.NodeComponent) string {
	for _, name := range c.After {
		i := slices.IndexFunc(t.doc.Components, func(o wire.NodeComponent) bool { return o.Name == name })
		if i < 0 || name == c.Name {
			continue
		}
		p := t.parts[name]
		r := &p.Record
		if !p.Answered || r.Has.Active != t.doc.Components[i].Version || r.Phase.OnTrial() {
			return name
		}
	}
	return ""
}
