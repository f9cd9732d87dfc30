package retain

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tandem.internal/controller/internal/record"
)

func TestParse(t *testing.T) {
	const d = 24 * time.Hour
	for text, want := range map[string]Rule{
		"all": {}, "400d": {Age: 400 * d}, "36h": {Age: 36 * time.Hour}, "7": {Records: 7}, "2KiB": {Bytes: 2048},
		"90d/512MiB": {Age: 90 * d, Bytes: 512 << 20}, "1GiB/5/1h": {time.Hour, 5, 1 << 30},
	} {
		rules, err := Parse(map[string]string{"events": text})
		if err != nil || rules[Events] != want || rules[Audit] != (Rule{3650 * d, 0, 256 << 20}) {
			t.Errorf("%s: %+v %v", text, rules, err)
		}
	}
	for _, text := range []string{"all", "400d", "36h", "7", "90d/512MiB/5", "3KiB", "2GiB", "1025MiB"} {
		rules, err := Parse(map[string]string{"audit": text})
		if got := rules[Audit].String(); err != nil || got != text {
			t.Errorf("%s is told as %s: %v", text, got, err)
		}
	}
	part := "is none of an age (400d or 36h), a size (512MiB; KiB, GiB), a number of records, and all"
	for text, want := range map[string]string{
		"": `"" ` + part, "0": `"0" ` + part, "-1": `"-1" ` + part, "+1": `"+1" ` + part, "1 d": `"1 d" ` + part,
		"5dd": `"5dd" ` + part, "1MB": `"1MB" ` + part, "d": `"d" ` + part,
		"1d/": `"" ` + part, "all/1d": `"all" ` + part,
		"1d/2h":                           `"2h" is the second limit of its sort`,
		"1/2":                             `"2" is the second limit of its sort`,
		"99999999999GiB":                  `"99999999999GiB" is too much; all keeps everything`,
		"999999999d":                      `"999999999d" is too much; all keeps everything`,
		"9999999999999999999999999999999": `"9999999999999999999999999999999" ` + part,
	} {
		if _, err := Parse(map[string]string{"alerts": text}); err == nil || err.Error() != "alerts: "+want {
			t.Errorf("%s: %v", text, err)
		}
	}
	_, err := Parse(map[string]string{"logs": "1d"})
	want := `"logs" is no kind of records: reports, events, alerts, issued, documents, audit`
	if err == nil || err.Error() != want {
		t.Error(err)
	}
}

// The defaults limit the size of every kind, to less than 2 GiB together.
func TestDefaultsHaveABound(t *testing.T) {
	sum := int64(0)
	rules := DefaultRules()
	for _, k := range Kinds {
		if rules[k].Bytes == 0 {
			t.Errorf("%s has no size", k)
		}
		sum += rules[k].Bytes
	}
	if sum > 2<<30 || len(rules) != len(Kinds) {
		t.Errorf("%d bytes", sum)
	}
}

// Each type has a kind; the state of settings, keys and CAs, and what was trimmed, always stays.
func TestKinds(t *testing.T) {
	var always []record.Type
	for _, typ := range record.Types() {
		if Of(typ, "") == Always {
			always = append(always, typ)
		}
	}
	want := []record.Type{record.Keys, record.Settings, record.CA, record.Root, record.Trimmed}
	if !slices.Equal(always, want) {
		t.Errorf("%v", always)
	}
	if Of(record.Settings, "desired") != Documents || Of(record.Event, "alert") != Alerts {
		t.Error("desired statuses, or alerts")
	}
}

var t0 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// ask counts records, and returns the numbers of those that go.
func ask(rules Rules, now time.Time, all []Header) (gone []uint64) {
	p := NewPlan(rules, now)
	for i := range all {
		all[i].Seq = uint64(i + 1)
		p.Count(all[i])
	}
	for _, h := range all {
		if p.Goes(h) != "" {
			gone = append(gone, h.Seq)
		}
	}
	return gone
}

// at is a report of so many days after t0.
func at(days int) Header {
	return Header{At: t0.Add(time.Duration(days) * 24 * time.Hour), Type: record.Report, Size: 10}
}

// Whatever the clock showed, a record goes for its age only if the records up to it show that it is old.
func TestClocksThatJumped(t *testing.T) {
	rules := Rules{Reports: {Age: 10 * 24 * time.Hour}}
	now := at(100).At
	for name, c := range map[string]struct {
		now  time.Time
		all  []Header
		want []uint64
	}{
		"in order":               {now, []Header{at(1), at(89), at(91), at(99)}, []uint64{1, 2}},
		"written in the past":    {now, []Header{at(1), at(95), at(-20000), at(99)}, []uint64{1}},
		"from the future":        {now, []Header{at(1), at(900), at(2), at(95)}, []uint64{1, 2, 3}},
		"only from the future":   {now, []Header{at(900), at(901)}, nil},
		"all old":                {now, []Header{at(1), at(2)}, []uint64{1, 2}},
		"the clock was set back": {at(3).At, []Header{at(1), at(89), at(91)}, nil},
		"the time is not known":  {time.Time{}, []Header{at(1), at(2)}, nil},
		"none":                   {now, nil, nil},
	} {
		if got := ask(rules, c.now, c.all); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, not %v", name, got, c.want)
		}
	}
}

// Why a record goes is its age before its number, and that before its size.
func TestReasons(t *testing.T) {
	for want, rule := range map[Reason]Rule{
		"": {Age: 1000 * time.Hour, Records: 2, Bytes: 20}, Age: {Age: time.Hour, Records: 1, Bytes: 1},
		Number: {Age: 1000 * time.Hour, Records: 1, Bytes: 1}, Size: {Records: 2, Bytes: 19},
	} {
		p := NewPlan(Rules{Reports: rule}, at(2).At.Add(time.Minute))
		h := at(1)
		for h.Seq = 1; h.Seq <= 2; h.Seq++ {
			p.Count(h)
		}
		h.Seq = 1
		if got := p.Goes(h); got != want {
			t.Errorf("%+v: %q, not %q", rule, got, want)
		}
	}
}

// What goes is of kinds that have a limit, the oldest first, and no more than the limits want; what stays is within.
func TestPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []Header
		day := 0
		for range rapid.IntRange(0, 60).Draw(t, "records") {
			day += rapid.IntRange(0, 3).Draw(t, "days")
			h := at(day)
			h.Type, h.Size = rapid.SampledFrom(record.Types()).Draw(t, "type"), rapid.IntRange(1, 9).Draw(t, "size")
			all = append(all, h)
		}
		rules := Rules{}
		for _, k := range Kinds {
			rules[k] = Rule{Age: time.Duration(rapid.IntRange(0, 40).Draw(t, "age")) * 24 * time.Hour,
				Records: rapid.IntRange(0, 5).Draw(t, "number"), Bytes: rapid.Int64Range(0, 30).Draw(t, "bytes")}
		}
		now := at(day).At.Add(time.Hour)
		gone := map[uint64]bool{}
		for _, seq := range ask(rules, now, all) {
			gone[seq] = true
		}
		there := map[Kind]Amount{}
		for _, h := range slices.Backward(all) {
			k := Of(h.Type, h.Kind)
			a := there[k]
			next := Amount{a.Records + 1, a.Bytes + int64(h.Size)}
			rule := rules[k]
			old := rule.Age > 0 && now.Sub(h.At) >= rule.Age
			want := k != Always && k != Documents && (old || rule.Exceeded(next) != "" || a.Records < 0)
			if gone[h.Seq] != want {
				t.Fatalf("record %d of %v, %+v, %s: gone %t with %+v newer ones", h.Seq, h.At, rule, k, gone[h.Seq], a)
			}
			if want {
				next = Amount{Records: -1} // and what is older goes too
			}
			there[k] = next
		}
	})
}
