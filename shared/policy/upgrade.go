package policy

import (
	"fmt"

	"tandem.internal/shared/policy/constraint"
	"tandem.internal/shared/strictjson"
	"tandem.internal/shared/wire"
)

// timing are start and duration of an upgrade, which may stand in the section about it or, as Open Horizon has them,
// beside it.
type timing struct {
	start         string
	duration      int64
	at            strictjson.At // of one of them
	startAt, durA string        // JSON pointers; "": not given
}

func (t *timing) given() bool { return t.startAt != "" || t.durA != "" }

// once notes where a value is given, and reports whether it was not given before.
func (r *reader) once(a strictjson.At, t *timing, before *string) bool {
	t.at = a
	if *before != "" {
		r.Add(a, wire.CodeDuplicate, "this is said already at "+*before)
		return false
	}
	*before = a.Ptr
	return true
}

// start reads when an upgrade may begin: RFC 3339 with any offset, also in the past, or now.
func (r *reader) start(a strictjson.At, t *timing) {
	s, ok := r.Str(a)
	if !ok || !r.once(a, t, &t.startAt) {
		return
	}
	if _, err := parseTime(s); err != nil && s != Now {
		r.Bad(a, "must be a time of RFC 3339, such as 2027-01-31T22:00:00Z, or now, not "+strictjson.Show(s))
		return
	}
	t.start = s
}

// duration reads the seconds in which agents begin.
func (r *reader) duration(a strictjson.At, t *timing) {
	n, ok := r.Whole(a, 0, MaxDuration, fmt.Sprintf("must be whole seconds, 0 to %d", MaxDuration))
	if ok && r.once(a, t, &t.durA) {
		t.duration = int64(n)
	}
}

// upgrade reads the section about upgrades of agents, but start and duration into t.
func (r *reader) upgrade(a strictjson.At, t *timing) *AgentUpgrade {
	u := &AgentUpgrade{AtLeastVersion: Current}
	var versionAt strictjson.At
	r.Object(a,
		strictjson.Optional("autoUpgrade", r.flag(&u.AutoUpgrade)),
		strictjson.Optional("atLeastVersion", func(a strictjson.At) {
			versionAt = a
			s, ok := r.Str(a)
			switch {
			case !ok:
			case s == "latest" || s == Current:
			default:
				if err := constraint.CheckRelease(s); err != nil {
					r.Bad(a, "must be current or a version: "+err.Error())
					return
				}
				u.AtLeastVersion = s
			}
		}),
		strictjson.Optional("start", func(a strictjson.At) { r.start(a, t) }),
		strictjson.Optional("duration", func(a strictjson.At) { r.duration(a, t) }),
		strictjson.Optional("startWindow", func(a strictjson.At) { r.duration(a, t) }),
		strictjson.Optional("allowDowngrade", r.flag(&u.AllowDowngrade)))
	if u.AutoUpgrade && u.AtLeastVersion != Current {
		r.Bad(versionAt, "with autoUpgrade the version is current: leave it out")
	}
	return u
}
