package board

import (
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"tandem.internal/controller/internal/cli/top/board/boardtest"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// hostile are texts that a node can put wherever it says something.
var hostile = []string{
	"", "press-1", "a\x1b[2J\x1b[31mb\x1b]0;owned\a\x1b\\", "\x1bc\x9b2J\u009b2J\x90q\x00\b\x7f",
	"a\nb\rc\td\v\f\x85e\u2028f", "\u202eright\u202c \u2066left\u2069 \u200f\u061c",
	"\u05e9\u05dc \u0639\u0644 \u072b\u0720 \u07ca \u0800 1.2-3",   // Hebrew, Arabic, Syriac, N'Ko, Samaritan
	"\u6f22\u304b\ud55c\uff57\U0001f600\U0001f468\u200d\U0001f469", // wide
	"\u0915\u093f \u0e01\u0e47\u0e33 \u0b95\u0bca \u1780\u17d2\u179a",
	"e\u0301\u0302\u0488 \u0600 \u0300" + strings.Repeat("\u0301", 500),
	"\ufe0f \U000e0041 \u115f\u1160 \u3164 \u00ad", strings.Repeat("x", 10_000), strings.Repeat("\u6f22", 10_000),
	strings.Repeat("x y ", 2_500), strings.Repeat("\u0301", 10_000), strings.Repeat("\x1b[H", 3_000),
	strings.Repeat("\n", 10_000), "\xff\xfe\xed\xa0\x80 \xf4\x90\x80\x80", "\ufffd\u2026\u2192\u20ac",
}

// plainScripts are those whose letters every terminal shows from left to right, one after the other, in one column.
var plainScripts = []*unicode.RangeTable{unicode.Common, unicode.Latin, unicode.Greek, unicode.Cyrillic,
	unicode.Armenian}

// everywhere is a unit of which everything that somebody else says is one text.
func everywhere(text string) (*Board, *Facts) {
	b := New(view.Fleet{Unit: text}, time.UTC)
	b.Now, b.Away = now, text
	row := view.Row{Node: text, Type: text, Class: view.Class(text), State: text, Version: text, Desired: text + "2",
		Why: text, Since: now.Add(-time.Hour)}
	other := row
	other.Node, other.Class = "press-2", view.ClassFailed
	b.Apply(&view.Live{Rows: []view.Row{row, other}, Complete: true, Fleet: &view.Fleet{Unit: text, Nodes: 2, Online: 1,
		Counts: view.FleetCounts{Failed: 1}, Look: []view.Sentence{{Text: text, Level: view.LevelError}}},
		Entry: &view.Entry{At: now, Node: text, Text: text}})
	f := &Facts{Node: view.Node{Node: text, Type: text, Since: now, FirstSeen: now, Slots: []view.Slot{{}},
		Info: &wire.NodeInfo{OS: text, Arch: text, CPUs: 1, AgentVersion: text}}}
	f.Why.Sentences = []view.Because{{Text: text, Source: text, Changes: text}, {Text: text, Level: view.LevelWarning}}
	return b, f
}

// views go through all that is shown of a unit.
func views(b *Board, text string, f *Facts, each func(what string)) {
	each("fleet")
	b.Away = ""
	press(b, "/", "x", Enter)
	each("asking")
	b.Match("x", []string{text, "press-2"}, text)
	each("filter")
	press(b, "/")
	for _, r := range []rune(text)[:min(len([]rune(text)), 300)] {
		b.Key(string(r))
	}
	each("typing")
	press(b, Enter)
	each("typed")
	press(b, Esc, "/")
	for range longestFilter {
		b.Key(Rub)
	}
	press(b, Enter, "?")
	each("help")
	press(b, "x", Home, Enter)
	each("node, asking")
	b.Show(b.Node(), f)
	each("node")
	press(b, End)
	each("node, its end")
	b.Show(b.Node(), &Facts{Error: text})
	each("node, an error")
}

// own are the sequences that top writes without colours: where the cursor goes, and what is erased.
var own = regexp.MustCompile(`\x1b\[(?:2J|K|\d+;\d+H)`)

func checkScreens(t *testing.T, text string) {
	t.Helper()
	for _, size := range [][2]int{{80, 24}, {40, 10}, {20, 4}} {
		b, f := everywhere(text)
		b.Size(size[0], size[1])
		terminal := boardtest.New(size[0], size[1])
		var was *Frame
		views(b, text, f, func(what string) {
			is := b.Frame()
			painted := Paint(was, is, false)
			if was = is; was.Columns != size[0] || was.Lines != size[1] {
				t.Fatalf("%s: a frame of %d x %d", what, was.Columns, was.Lines)
			}
			// A character beyond the last column is an error there.
			if _, err := terminal.Write(painted); err != nil || terminal.String() != is.String() {
				t.Errorf("%s at %v: %v; the terminal shows\n%s, not\n%s", what, size, err, terminal, is)
			}
			for _, r := range own.ReplaceAllString(string(painted), "") {
				if !unicode.In(r, plainScripts...) || unicode.In(r, unicode.M, unicode.C) || !unicode.IsPrint(r) ||
					r >= 0x590 && (r < 0x2010 || r > 0x2027) && !strings.ContainsRune("\ufffd→≤≥€", r) {
					t.Errorf("%s at %v: the terminal gets %U", what, size, r)
				}
			}
		})
	}
}

// FuzzScreens: whatever a node says, nothing of it is a control sequence, moves what stands beside it, or is longer
// than a line.
func FuzzScreens(f *testing.F) {
	for _, text := range hostile {
		f.Add(text)
	}
	f.Fuzz(checkScreens)
}
