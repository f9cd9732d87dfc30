package unitconfig

import (
	"cmp"
	"fmt"

	"tandem.internal/shared/wire"
)

// rulesOf reads alertRules (seed 000, Alert Rules).
func rulesOf(r *reader, a at, rules *AlertRules) {
	fraction := func(dst **FractionRule) func(at) {
		return func(a at) {
			b := ruleOf(r, a, fractionOf)
			*dst = &FractionRule{b.timeout, b.min, b.max}
		}
	}
	traffic := func(dst **TrafficRule) func(at) {
		return func(a at) {
			b := ruleOf(r, a, rateOf)
			*dst = &TrafficRule{b.timeout, b.min, b.max}
		}
	}
	r.object(a,
		field{"ram", false, fraction(&rules.RAM)},
		field{"cpu", false, fraction(&rules.CPU)},
		field{"partitions", false, func(a at) { rules.Partitions = partitionsOf(r, a) }},
		field{"download", false, traffic(&rules.Download)},
		field{"upload", false, traffic(&rules.Upload)},
	)
}

func partitionsOf(r *reader, a at) []PartitionRule {
	var rules []PartitionRule
	first := make(map[string]int)
	r.array(a, MaxPartitions, func(i int, e at) {
		var name string
		b := ruleOf(r, e, fractionOf, field{"name", true, func(a at) {
			s, ok := r.str(a)
			if !ok {
				return
			}
			name = s
			if why := shortText(s); why != "" {
				r.bad(a, why)
			} else if j, dup := first[s]; dup {
				r.add(a, wire.CodeDuplicate, fmt.Sprintf("the partition %s already has a rule, at index %d", show(s), j))
			} else {
				first[s] = i
			}
		}})
		rules = append(rules, PartitionRule{name, b.timeout, b.min, b.max})
	})
	return rules
}

type bounds[T float64 | uint64] struct {
	timeout  Duration
	min, max T
}

// ruleOf reads one rule with thresholds that value reads. Both thresholds are required: without
// them a rule would read as 0 and alert for ever.
func ruleOf[T float64 | uint64](r *reader, a at, value func(*reader, at) (T, bool), more ...field) bounds[T] {
	var b bounds[T]
	var minAt at
	var minOK, maxOK bool
	r.object(a, append(more,
		field{"minTimeout", false, func(a at) { b.timeout = durationOf(r, a) }},
		field{"minThreshold", true, func(a at) { minAt = a; b.min, minOK = value(r, a) }},
		field{"maxThreshold", true, func(a at) { b.max, maxOK = value(r, a) }},
	)...)
	if minOK && maxOK && cmp.Compare(b.min, b.max) > 0 {
		r.bad(minAt, fmt.Sprintf("minThreshold %v is above maxThreshold %v", b.min, b.max))
	}
	return b
}

func durationOf(r *reader, a at) Duration {
	s, ok := r.str(a)
	if !ok {
		return 0
	}
	d, err := ParseDuration(s)
	if err != nil {
		r.bad(a, show(s)+": "+err.Error())
	}
	return Duration(d)
}

func rateOf(r *reader, a at) (uint64, bool) {
	return wholeOf(r, a, 0, 1<<64-1, "a traffic threshold is a whole number of bytes per second from 0 to 18446744073709551615")
}
