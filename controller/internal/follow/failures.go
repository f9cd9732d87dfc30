package follow

import (
	"tandem.internal/controller/internal/desired"
	"tandem.internal/controller/internal/unitstatus"
	"tandem.internal/shared/items"
	"tandem.internal/shared/wire"
)

// Failures are what a plan says is not there, for the unit status, beside what Input has found. What is there all the
// same is none, and what no node asks for.
func Failures(p *desired.Plan, found []unitstatus.Failure) (all []unitstatus.Failure) {
	missing := map[items.Ref]string{} // versions that are not there, so that others go on
	for i := range found {
		if f := &found[i]; f.Subject == "" {
			missing[f.Ref] = f.Version
		}
	}
	for i := range p.Reasons {
		r := &p.Reasons[i]
		code := wire.CodeWrongState
		switch r.Reason {
		case desired.Ineffective, desired.NotReported, desired.Superseded, desired.Outranked:
			continue
		case desired.Unplaced:
			code = wire.CodeUnavailable
		case desired.Unmet:
			code = wire.CodeNotFound
		case desired.Refused:
			code = wire.CodeNotSupported
		}
		f := unitstatus.Failure{Ref: items.Ref{Type: r.Type, Codename: r.Codename}, Version: r.Version,
			Subject: r.Subject, Error: wire.New(code, "", wire.Plain(r.Why, 1000))}
		if r.Index != nil {
			f.Index = *r.Index
		}
		if wants := missing[f.Ref]; wants != "" && r.Reason == desired.Deprecated {
			f.Version, f.Error = wants, wire.New(wire.CodeNotFound, "", "this version is not there, and in "+r.Version+
				", which goes on, nothing is started")
		}
		all = append(all, f)
	}
	return all
}

// Refused are what was decided and is not there, as the document with it was refused: what has a place by a plan, and
// runs nowhere in this version.
func Refused(p *desired.Plan, t items.Type, now *items.Current, why *wire.Error) (all []unitstatus.Failure) {
	type instance struct {
		use
		version string
		index   int
	}
	known := make(map[instance]bool, len(now.Instances))
	for i := range now.Instances {
		in := &now.Instances[i]
		known[instance{use{in.Ref(), in.Subject}, in.Version, in.Index}] = true
	}
	for i := range p.Nodes {
		for j := range p.Nodes[i].Instances {
			in := &p.Nodes[i].Instances[j]
			one := instance{use{items.Ref{Type: in.Type, Codename: in.Codename}, in.Subject}, in.Version, in.Index}
			if in.Type != t || known[one] {
				continue
			}
			known[one] = true
			all = append(all, unitstatus.Failure{Ref: one.Ref, Version: in.Version, Subject: in.Subject,
				Index: in.Index, Error: why})
		}
	}
	return all
}
