package cli

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// filledJSON is what fill prints with --json --explain.
type filledJSON struct {
	Configurations jsontext.Value      `json:"configurations"`
	Slots          map[string]slotJSON `json:"slots"`
}

type slotJSON struct {
	Fillers []string          `json:"fillers"`
	Origins map[string]string `json:"origins"` // JSON pointer: filler, or "" for the slot's own entry
	Passed  map[string]string `json:"passed,omitempty"`
}

func (a *app) printFilled(filled *workload.Filled, slot string, explain bool) error {
	configs := filled.Configs
	if slot != "" {
		s, err := workload.ParseSlot(slot)
		if err != nil {
			return usage("--slot: %s", err)
		}
		configs = slices.DeleteFunc(slices.Clone(configs), func(c workload.Config) bool { return c.Slot != s })
		if len(configs) == 0 {
			var known []string
			for _, c := range filled.Configs {
				known = append(known, c.Slot.String())
			}
			return &failure{exit: exitRefused, err: wire.New(wire.CodeNotFound, "", fmt.Sprintf("no file has the slot %.80s%s", slot, suggestion(slot, known, "")))}
		}
	}
	if a.json {
		encoded := jsontext.Value(workload.Encode(configs))
		if !explain {
			return a.printJSON(encoded)
		}
		out := filledJSON{encoded, map[string]slotJSON{}}
		for _, c := range configs {
			x := filled.Slots[c.Slot]
			out.Slots[c.Slot.String()] = slotJSON{append([]string{}, x.Fillers...), x.Origins, x.Passed}
		}
		return a.printJSON(out)
	}
	if len(configs) == 0 {
		return &failure{exit: exitRefused, err: wire.New(wire.CodeNotFound, "", "the files have no topology, instance or job, so nothing would run")}
	}
	for i, c := range configs {
		if i > 0 {
			a.print("\n")
		}
		a.printConfig(c, filled.Slots[c.Slot], explain)
	}
	return nil
}

func (a *app) printConfig(c workload.Config, x workload.Explanation, explain bool) {
	by := "no filler applies"
	if len(x.Fillers) > 0 {
		by = "filled by " + strings.Join(x.Fillers, ", ")
	}
	a.print("%s  %s, %s\n", clean(c.Slot.String()), c.Class.Short(), clean(by))
	t := &table{indent: "  "}
	if explain {
		t.head = []string{"WHERE", "FROM", "VALUE"}
	} else {
		t.head = []string{"WHERE", "VALUE"}
	}
	row := func(at, value string) {
		if explain {
			t.add(at, cmp.Or(x.Origins[at], "-"), value)
		} else {
			t.add(at, value)
		}
	}
	if c.ConfigurationID != "" {
		row("/configurationId", c.ConfigurationID)
	}
	if c.Container != nil {
		each(c.Container.Constraints, "/container/constraints", func(at, v string) { row(at, v) })
	}
	each(c.Properties, "/properties", func(at, v string) { row(at, v) })
	each(c.Resources, "/resources", func(at string, r workload.Artifact) { row(at, artifact(r)) })
	each(c.TimeLimits, "/timeLimits", func(at string, l workload.Limit) { row(at, limit(l)) })
	a.printTable(t)
	if !explain {
		return
	}
	for _, n := range slices.Sorted(maps.Keys(x.Passed)) {
		a.print("  %s does not apply: %s\n", clean(n), clean(x.Passed[n]))
	}
}

// each visits a map in the order of its names, with the JSON pointer of each.
func each[V any](m map[string]V, under string, visit func(at string, v V)) {
	for _, n := range slices.Sorted(maps.Keys(m)) {
		visit(string(jsontext.Pointer(under).AppendToken(n)), m[n])
	}
}

// artifact is a resource on one line.
func artifact(r workload.Artifact) string {
	parts := []string{strings.Join(r.URLs, " or ")}
	for _, p := range []struct{ name, value string }{{"uuid", r.UUID}, {"", r.Verification.Checksum}} {
		if p.value != "" {
			parts = append(parts, strings.TrimSpace(p.name+" "+p.value))
		}
	}
	if r.Size > 0 {
		parts = append(parts, fmt.Sprintf("%d bytes", r.Size))
	}
	if r.Verification.CheckPeriod > 0 {
		parts = append(parts, "checked every "+r.Verification.CheckPeriod.String())
	}
	if r.Cached {
		parts = append(parts, "cached")
	}
	if r.Class == workload.DynamicResource {
		parts = append(parts, "dynamic")
	}
	return strings.Join(parts, ", ")
}

// limit is a hook's time limits on one line.
func limit(l workload.Limit) string {
	var parts []string
	for _, p := range []struct {
		name  string
		value *int64
	}{{"restart after at least", l.MinRestartPeriodMs}, {"at most", l.MaxRestartPeriodMs}, {"growing by", l.RestartPeriodScaleMs}, {"killed after", l.MaxExecutionTimeMs}} {
		if p.value != nil {
			parts = append(parts, fmt.Sprintf("%s %d ms", p.name, *p.value))
		}
	}
	if l.RestartPeriodBackoff != nil {
		parts = append(parts, fmt.Sprintf("× %g each time", *l.RestartPeriodBackoff))
	}
	return cmp.Or(strings.Join(parts, ", "), "none")
}
