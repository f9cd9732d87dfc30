package workload

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"tandem.internal/shared/strictjson"
	"tandem.internal/shared/wire"
)

// instance writes one that is there already.
func instance(slot, resources string) string {
	return fmt.Sprintf(`{"@class":"Instance","slot":%q,"resources":{%s}}`, slot, resources)
}

// many writes n entries with commas between them.
func many(n int, f func(i int) string) string {
	all := make([]string, n)
	for i := range all {
		all[i] = f(i)
	}
	return strings.Join(all, ",")
}

// TestFillBombs: sets that are short to write, and come to more than a machine holds, are refused before
// they do. A little of each is refused with a little to spend.
func TestFillBombs(t *testing.T) {
	const most = 100_000
	const spent = "takes too much time or memory"
	long := strings.Repeat("x", MaxText)
	every := `"filter":"instance[p]"`
	slots := func(n int, properties string) string {
		return many(n, func(i int) string { return topo(fmt.Sprintf("a%d@n", i), properties) })
	}
	one := func(i int) string { return filler(fmt.Sprint(i), every, "", start) }
	shared := func(name int, url string) string {
		return fmt.Sprintf(`"r%d":{"@class":"Resource","uuid":"u","urls":["http://h/%s"],"size":1,"verification":{}}`,
			name, url)
	}
	for name, c := range map[string]struct{ doc, want string }{
		"fillers in a row": {filler("0", "", `"p":"x"`, "") + "," + many(300, func(i int) string {
			return filler(fmt.Sprint(i+1), fmt.Sprintf(`"parentFillers":"%d"`, i), fmt.Sprintf(`"p%d":"x"`, i), "")
		}), spent},
		"a long row of ancestors": {filler("0", "", "", "") + "," + many(300, func(i int) string {
			return filler(fmt.Sprint(i+1), fmt.Sprintf(`"parentFillers":"%d"`, i), "", "")
		}), spent},
		"a large parent of many": {filler("0", "", many(200, func(i int) string { return fmt.Sprintf(`"p%d":"x"`, i) }),
			"") + "," + many(30, func(i int) string {
			return filler(fmt.Sprint(i+1), `"parentFillers":"0"`, "", "")
		}), spent},
		"many held against many": {slots(250, `"p":"1"`) + "," + one(0) + "," +
			many(250, func(i int) string { return filler(fmt.Sprint(i+1), `"filter":"instance[z]"`, "", "") }), spent},
		"long filters": {slots(20, `"p":"1"`) + "," + one(0) + "," + many(60, func(i int) string {
			return filler(fmt.Sprint(i+1), `"filter":"instance[`+strings.Repeat("a=2 or ", 500)+`z]"`, "", "")
		}), spent},
		"all apply to all": {slots(100, `"p":"1"`) + "," + one(100) + "," +
			many(100, func(i int) string { return filler(fmt.Sprint(i), every, "", "") }), spent},
		"one long text in many slots": {slots(10, `"p":"1"`) + "," +
			filler("f", every, many(100, func(i int) string { return fmt.Sprintf(`"q%d":"%s"`, i, long) }), start),
			spent},
		"texts made of a text": {slots(10, `"p":"`+long+`"`) + "," +
			filler("f", every, many(100, func(i int) string { return fmt.Sprintf(`"q%d":"@{prop(\"p\")}"`, i) }),
				start), spent},
		"a text made of many": {slots(1, `"p":"`+long+`"`) + "," +
			filler("f", every, `"q":"`+strings.Repeat(`@{prop(\"p\")}`, 300)+`"`, start), "longer than 4096 bytes"},
		"addresses of all": {instance("a@n", start+","+
			many(60, func(i int) string { return shared(i, fmt.Sprint(i)) })), "more than 32 addresses"},
		"long addresses for all": {instance("a@n", start+","+many(250, func(i int) string {
			return shared(i, fmt.Sprint(min(i, 30))+strings.Repeat("x", 500))
		})), spent},
	} {
		t.Run(name, func(t *testing.T) {
			set := mustParse(t, "["+c.doc+"]")
			f := newFilling(set)
			f.most = most
			if f.all() != nil || len(f.problems) == 0 || len(f.problems) > strictjson.MaxProblems ||
				len(f.files) != len(f.problems) {
				t.Fatalf("%d problems", len(f.problems))
			}
			if got := f.problems[len(f.problems)-1]; !strings.Contains(got.Message, c.want) {
				t.Errorf("%v", got)
			}
			if f.work > 3*most {
				t.Errorf("it took %d of %d", f.work, most)
			}
		})
	}
}

// What a large site has is far from too much.
func TestFillLarge(t *testing.T) {
	doc := many(50, func(i int) string {
		return filler(fmt.Sprint(i), fmt.Sprintf(`"filter":"instance[type=%d and (a=1 or b=2)]"`, i),
			many(40, func(j int) string { return fmt.Sprintf(`"q%d":"@{prop(\"slot\")} %d"`, j, j) }), start)
	}) + "," + many(200, func(i int) string {
		return topo(fmt.Sprintf("a@n%d", i),
			fmt.Sprintf(`"type":"%d","a":"1"`, i%50))
	})
	f := newFilling(mustParse(t, "["+doc+"]"))
	if out := f.all(); out == nil || len(out.Configs) != 200 {
		t.Fatal(f.problems)
	}
	if f.work > maxWork/100 { // a fiftieth of what one submission can have
		t.Errorf("it took %d of %d", f.work, maxWork)
	}
}

// TestFillUntil: whoever does not want the result any more is asked often enough, and not again after that.
func TestFillUntil(t *testing.T) {
	fillers := many(500, func(i int) string { return filler(fmt.Sprint(i), `"filter":"instance[z]"`, "", "") })
	set := mustParse(t, "["+fillers+","+filler("f", `"filter":"instance[p]"`, "", start)+","+
		many(1000, func(i int) string { return topo(fmt.Sprintf("a%d@n", i), `"p":"1"`) })+"]")
	asked := 0
	filled, problems := FillUntil(set, func() error { asked++; return nil })
	if problems != nil || len(filled.Configs) != 1000 || asked < 10 {
		t.Fatalf("%v; asked %d times", problems, asked)
	}
	for _, after := range []int{0, 5} {
		asked = 0
		filled, problems = FillUntil(set, func() error {
			if asked++; asked > after {
				return errors.New("the end")
			}
			return nil
		})
		if filled != nil || len(problems) != 1 || problems[0].Code != wire.CodeUnavailable || asked != after+1 ||
			!strings.Contains(problems[0].Message, "the end") {
			t.Errorf("%v; asked %d times", problems, asked)
		}
	}
}
