package board

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"tandem.internal/controller/internal/cli/top/board/boardtest"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

var update = flag.Bool("update", false, "write the golden files anew")

var now = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

// sample is a unit with so many nodes besides four that are worth a look.
func sample(more int) *Board {
	b := New(view.Fleet{Unit: "line4"}, time.UTC)
	b.Now = now
	row := func(node, typ string, class view.Class, version, desired string, since time.Duration, why string) view.Row {
		return view.Row{Node: node, Type: typ, Class: class, State: "installed", Version: version, Desired: desired,
			Since: now.Add(-since), Why: why}
	}
	rows := []view.Row{
		row("press-1", "press", view.ClassFailed, "1.9.0", "2.0.0", 3*time.Minute,
			"bad-value: there is no partition \"logs\" on this node"),
		row("press-2", "press", view.ClassOffline, "1.9.0", "2.0.0", 49*time.Hour, "offline for 2d"),
		row("gate", "", view.ClassOnTheWay, "", "2.0.0", 9*time.Second, "it has not answered yet"),
		row("camera-of-the-second-line-left", "a-long-type-of-node", view.ClassUnwell, "2.0.0", "2.0.0", time.Hour,
			"alert cpu"),
	}
	for i := range more {
		rows = append(rows, row(fmt.Sprintf("node-%03d", i), "mill", view.ClassInStep, "2.0.0", "2.0.0",
			time.Duration(i)*time.Minute, ""))
	}
	b.Apply(&view.Live{Rows: rows})
	b.Apply(&view.Live{Fleet: &view.Fleet{Unit: "line4", Nodes: len(rows), Online: len(rows) - 1,
		Counts: view.FleetCounts{Failed: 1, Unwell: 1, Offline: 1, OnTheWay: 1, InStep: more},
		Look: []view.Sentence{{Text: "1 node did not take the newest configuration", Level: view.LevelError},
			{Text: fmt.Sprintf("1 of %d nodes is offline", len(rows)), Level: view.LevelWarning}}}})
	b.Apply(&view.Live{Entry: &view.Entry{Seq: 7, At: now.Add(-time.Minute), Node: "press-1", Level: view.LevelError,
		Text: "config: 2.0.0 rejected: bad-value: there is no partition \"logs\" on this node"}})
	b.Apply(&view.Live{At: "1-7", Complete: true})
	return b
}

// facts are those of a node of sample.
func facts() *Facts {
	f := &Facts{Node: view.Node{Node: "press-1", Type: "press", Online: true, Since: now.Add(-3 * time.Hour),
		FirstSeen: now.AddDate(0, -1, 0),
		Info:      &wire.NodeInfo{OS: "linux", Arch: "arm64", CPUs: 4, RAM: 2 << 30, AgentVersion: "1.0.0"}}}
	for i := range 12 {
		f.Why.Sentences = append(f.Why.Sentences, view.Because{Level: view.LevelInfo, Source: "its report",
			Changes: "another report comes", Text: fmt.Sprintf("slot %d runs what it should, and has done so "+
				"since the machine was started for the last time", i)})
	}
	f.Why.Sentences[0] = view.Because{Level: view.LevelError, Source: "record 28",
		Changes: "a newer version is applied",
		Text:    "config 2.0.0 was rejected: bad-value: there is no partition \"logs\" on this node"}
	return f
}

func press(b *Board, keys ...string) *Board {
	for _, key := range keys {
		b.Frame() // as a screen is drawn between keys
		b.Key(key)
	}
	return b
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || got != string(want) {
		t.Errorf("%s: %v; run with -update if it is right\n%s", path, err, got)
	}
}

// TestScreens: what is shown is a function of the board and the size.
func TestScreens(t *testing.T) {
	for name, board := range map[string]func() *Board{
		"fleet":    func() *Board { return sample(40) },
		"few":      func() *Board { return sample(0) },
		"empty":    func() *Board { return New(view.Fleet{Unit: "u"}, time.UTC) },
		"scrolled": func() *Board { return press(sample(40), End, Up) },
		"sorted":   func() *Board { return press(sample(3), "s", "r") },
		"typing":   func() *Board { return press(sample(3), "/", "s", "t", "a", ":", "x", Enter) },
		"asking":   func() *Board { return press(sample(3), "/", "x", Enter) },
		"filter": func() *Board {
			b := press(sample(3), "/", "p", "r", Enter)
			b.Match("pr", []string{"press-1", "press-2", "gone"}, "")
			return b
		},
		"node": func() *Board {
			b := press(sample(3), Enter)
			b.Show("press-1", facts())
			return b
		},
		"node-scrolled": func() *Board {
			b := press(sample(3), Enter)
			b.Show("press-1", facts())
			return press(b, End)
		},
		"node-asking": func() *Board { return press(sample(3), Down, Enter) },
		"help":        func() *Board { return press(sample(3), "?") },
		"away": func() *Board {
			b := sample(3)
			b.Away = "no controller answers: nobody listens there"
			return b
		},
	} {
		for _, size := range [][2]int{{80, 24}, {40, 10}, {200, 50}} {
			b := board()
			b.Size(size[0], size[1])
			f := b.Frame()
			golden(t, fmt.Sprintf("%s-%dx%d", name, size[0], size[1]), f.String())
			if again := b.Frame(); !slices.Equal(again.cells, f.cells) {
				t.Errorf("%s: the same board has another screen", name)
			}
		}
	}
	b := sample(3)
	b.Size(60, 9)
	golden(t, "colours-60x9", strings.ReplaceAll(string(Paint(nil, b.Frame(), true)), "\x1b", "\n^"))
	for _, size := range [][2]int{{0, 0}, {1, 1}, {19, 30}, {20, 4}, {30, 3}, {500, 4}} {
		for _, keys := range [][]string{nil, {Enter}, {"?"}, {"/", "a"}} {
			b := press(sample(3), keys...)
			b.Size(size[0], size[1])
			b.Frame() // without a panic
			b.Show("press-1", facts())
			b.Frame()
		}
	}
}

// TestPaint: whatever changes, the terminal shows what it should, and little is written for it.
func TestPaint(t *testing.T) {
	b := sample(40)
	terminal := boardtest.New(80, 24)
	var was *Frame
	paint := func(colours bool) int {
		t.Helper()
		is := b.Frame()
		text := Paint(was, is, colours)
		if _, err := terminal.Write(text); err != nil || terminal.String() != is.String() {
			t.Fatalf("%v; the terminal shows\n%s, not\n%s", err, terminal, is)
		}
		if again := Paint(is, is, colours); len(again) != 0 {
			t.Errorf("%q is written though nothing has changed", again)
		}
		was = is
		return len(text)
	}
	if n := paint(false); n < 1000 {
		t.Error(n)
	}
	row := b.rows["press-2"]
	row.Since = now.Add(-50 * time.Hour)
	row.Version = "1.9.1"
	b.Apply(&view.Live{Rows: []view.Row{row}})
	if n := paint(false); n == 0 || n > 20 {
		t.Errorf("%d bytes for two characters", n)
	}
	b.Key(Down)
	if n := paint(false); n > 30 {
		t.Errorf("%d bytes for a step without colours", n)
	}
	b.Key(Down)
	if n := paint(true); n > 700 {
		t.Errorf("%d bytes for a step", n)
	}
	for _, key := range []string{Enter, Esc, "?", "q", End, Home, "s", "r", "/", "a", Rub, Esc, PageDown, PageUp} {
		if key == "q" {
			key = "x" // leaves the help
		}
		b.Key(key)
		paint(true)
	}
}

// TestNothingIsObeyed: what strangers say neither moves the cursor nor changes a colour, and every cell has one column.
func TestNothingIsObeyed(t *testing.T) {
	const evil = "a\x1b[2J\x1b]0;owned\a\u009b31m\x7f\r\n\t\u202e\u2066\u200b\U000e0041e\u0301漢\U0001f600\xffz"
	b := New(view.Fleet{Unit: evil}, time.UTC)
	b.Away = evil
	b.Apply(&view.Live{Fleet: &view.Fleet{Unit: evil, Nodes: 1, Look: []view.Sentence{{Text: evil}}},
		Rows:  []view.Row{{Node: evil, Type: evil, Class: evil, State: evil, Version: evil, Desired: evil, Why: evil}},
		Entry: &view.Entry{Node: evil, Text: evil}, Complete: true})
	f := facts()
	f.Node.Type, f.Node.Info.OS, f.Node.Info.Arch, f.Node.Info.AgentVersion = evil, evil, evil, evil
	f.Why.Sentences[0] = view.Because{Text: evil, Source: evil, Changes: evil}
	screens := []func(){func() {}, func() { b.Key(Enter) }, func() { b.Show(evil, f) },
		func() { b.Show(evil, &Facts{Error: evil}) },
		func() { press(b, Esc, "/", "x", Enter); b.Match("x", []string{evil}, evil) },
		func() { press(b, "/", "漢", "é", "\u009b", "\u202e", ":", Enter) }}
	for i, next := range screens {
		next()
		for _, size := range [][2]int{{200, 50}, {40, 10}} {
			b.Size(size[0], size[1])
			f := b.Frame()
			for _, c := range f.cells {
				if c.char != simple(c.char) || !unicode.IsPrint(c.char) && c.char != unicode.ReplacementChar {
					t.Errorf("screen %d has %U", i, c.char)
				}
			}
			left := string(Paint(nil, f, true))
			for _, own := range sequences {
				left = strings.ReplaceAll(left, own, "")
			}
			left = strings.Replace(left, "\x1b[2J", "", 1)
			for y := range f.Lines {
				for x := range f.Columns {
					left = strings.Replace(left, fmt.Sprintf("\x1b[%d;%dH", y+1, x+1), "", 1)
				}
			}
			if strings.ContainsFunc(left, unicode.IsControl) {
				t.Errorf("screen %d: %q", i, left)
			}
		}
	}
}

func TestScreenKeys(t *testing.T) {
	for text, want := range map[string][]string{
		"jk": {"j", "k"}, "\x1b[A\x1b[B\x1bOA\x1bOB": {Up, Down, Up, Down}, "\x1b[5~\x1b[6~": {PageUp, PageDown},
		"\x03\r\x7f": {Break, Enter, Rub}, "é漢": {"é", "漢"}, "\x1b[1;5Cq": {"q"},
		"\x1b[99999999999999999999q": {"9", "9", "9", "q"},
		"\xffa":                      {"a"}, "\x1bq": {Esc, "q"}, "\x1b\x1b[A": {Esc, Up}, "\x00\x01": nil,
	} {
		for _, pieces := range [][]string{{text}, strings.Split(text, "")} {
			var d Decoder
			var keys []string
			for _, p := range pieces {
				keys = append(keys, d.Feed([]byte(p))...)
			}
			if !slices.Equal(keys, want) && !strings.Contains(text, "999") {
				t.Errorf("%q: %q, want %q", text, keys, want)
			}
		}
	}
	var d Decoder
	if keys := d.Feed([]byte("\x1b")); keys != nil {
		t.Errorf("%q before it is known whether more comes", keys)
	}
	if keys := d.Wait(); !slices.Equal(keys, []string{Esc}) {
		t.Errorf("%q", keys)
	}
	if keys := d.Wait(); keys != nil {
		t.Errorf("%q twice", keys)
	}
}

// TestChosen: the chosen node stays chosen wherever it goes, and one that is gone gives way to another.
func TestChosen(t *testing.T) {
	b := press(sample(40), Down, Down, Down) // gate
	if b.chosen != "gate" {
		t.Fatal(b.chosen)
	}
	row := b.rows["gate"]
	row.Class = view.ClassRevoked
	b.Apply(&view.Live{Rows: []view.Row{row}})
	if f := b.Frame(); !strings.Contains(f.String(), "\n> gate") {
		t.Errorf("%s", f)
	}
	b.Apply(&view.Live{Gone: []string{"gate"}})
	if f := b.Frame(); !strings.Contains(f.String(), "\n> press-1") {
		t.Errorf("%s", f)
	}
	b.Apply(&view.Live{Reset: true})
	b.Key(Enter)
	if f := b.Frame(); b.Node() != "" || !strings.Contains(f.String(), "loading…") {
		t.Errorf("%s", f)
	}
}
