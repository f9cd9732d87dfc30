package unitconfig

import (
	"cmp"
	"fmt"

	"tandem.internal/shared/duration"
	"tandem.internal/shared/strictjson"
	"tandem.internal/shared/wire"
)

// rulesOf reads alertRules (seed 000, Alert Rules).
func rulesOf(r *strictjson.Reader, a strictjson.At, rules *AlertRules) {
	fraction := func(dst **FractionRule) func(strictjson.At) {
		return func(a strictjson.At) {
			b := ruleOf(r, a, fractionOf)
			*dst = &FractionRule{b.timeout, b.min, b.max}
		}
	}
	traffic := func(dst **TrafficRule) func(strictjson.At) {
		return func(a strictjson.At) {
			b := ruleOf(r, a, rateOf)
			*dst = &TrafficRule{b.timeout, b.min, b.max}
		}
	}
	r.Object(a,
		strictjson.Optional("ram", fraction(&rules.RAM)),
		strictjson.Optional("cpu", fraction(&rules.CPU)),
		strictjson.Optional("partitions", func(a strictjson.At) { rules.Partitions = partitionsOf(r, a) }),
		strictjson.Optional("download", traffic(&rules.Download)),
		strictjson.Optional("upload", traffic(&rules.Upload)),
	)
}

// partitionsOf reads partition rules, whose names must differ.
func partitionsOf(r *strictjson.Reader, a strictjson.At) []PartitionRule {
	var rules []PartitionRule
	first := make(map[string]int)
	r.Array(a, MaxPartitions, func(i int, e strictjson.At) {
		var name string
		b := ruleOf(r, e, fractionOf, strictjson.Required("name", func(a strictjson.At) {
			s, ok := r.Str(a)
			if !ok {
				return
			}
			name = s
			if why := shortText(s); why != "" {
				r.Bad(a, why)
			} else if j, dup := first[s]; dup {
				r.Add(a, wire.CodeDuplicate,
					fmt.Sprintf("the partition %s already has a rule, at index %d", strictjson.Show(s), j))
			} else {
				first[s] = i
			}
		}))
		rules = append(rules, PartitionRule{name, b.timeout, b.min, b.max})
	})
	return rules
}

// bounds are the values that every rule has.
type bounds[T float64 | uint64] struct {
	timeout  duration.Duration
	min, max T
}

// ruleOf reads one rule; value reads its thresholds. Both are required: with 0 in place of an absent one, a rule would
// raise alerts for ever.
func ruleOf[T float64 | uint64](r *strictjson.Reader, a strictjson.At,
	value func(*strictjson.Reader, strictjson.At) (T, bool), more ...strictjson.Field) bounds[T] {
	var b bounds[T]
	var minAt strictjson.At
	var minOK, maxOK bool
	r.Object(a, append(more,
		strictjson.Optional("minTimeout", func(a strictjson.At) { b.timeout = durationOf(r, a) }),
		strictjson.Required("minThreshold", func(a strictjson.At) { minAt = a; b.min, minOK = value(r, a) }),
		strictjson.Required("maxThreshold", func(a strictjson.At) { b.max, maxOK = value(r, a) }),
	)...)
	if minOK && maxOK && cmp.Compare(b.min, b.max) > 0 {
		r.Bad(minAt, fmt.Sprintf("minThreshold %v is above maxThreshold %v", b.min, b.max))
	}
	return b
}

// durationOf reads an ISO 8601 duration.
func durationOf(r *strictjson.Reader, a strictjson.At) duration.Duration {
	s, ok := r.Str(a)
	if !ok {
		return 0
	}
	d, err := duration.Parse(s)
	if err != nil {
		r.Bad(a, strictjson.Show(s)+": "+err.Error())
	}
	return duration.Duration(d)
}

// rateOf reads a rate in bytes a second.
func rateOf(r *strictjson.Reader, a strictjson.At) (uint64, bool) {
	return r.Whole(a, 0, 1<<64-1,
		"a traffic threshold is a whole number of bytes per second from 0 to 18446744073709551615")
}
