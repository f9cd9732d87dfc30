package term

import (
	"bufio"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func screen(out, errs *strings.Builder) *Screen {
	now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	return &Screen{Out: bufio.NewWriter(out), Err: errs, Now: func() time.Time { return now }, Zone: time.UTC}
}

func TestText(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{string(EscapeJSON([]byte("\"\u009b\U000e0041é\"\n"))), "\"\\u009b\\udb40\\udc41é\"\n"},
		{ShortenLines("one\ntwo\nthree", 9), "one\ntwo\n  and 1 more"}, {ShortenLines("long line", 3), "long line"},
		{strings.Join(Wrap("one two three", 7), "|"), "one two|three"},
		{strings.Join(Wrap("longest a", 3), "|"), "longest|a"},
		{Excerpt([]byte("a\nbc\td\n"), 2, 3), "    2 | bc d\n      |   ^\n"}, {Excerpt([]byte("a"), 2, 1), ""},
		{Excerpt([]byte("a\x00"), 1, 1), ""},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
	long := Excerpt([]byte(strings.Repeat("x", 200)), 1, 100)
	if _, caret, _ := strings.Cut(long, "\n"); !strings.Contains(long, "…") || len([]rune(caret)) > 70 {
		t.Errorf("%q", long)
	}
}

func TestTables(t *testing.T) {
	var out, errs strings.Builder
	s := screen(&out, &errs)
	s.OutTerminal, s.Colours, s.Width = true, true, 44
	table := &Table{Head: []string{"NAME", "NOTHING", "WHAT"}}
	table.Add("a\n", "", Red.Cell(strings.Repeat("x", 60)))
	table.Add("longer", "", "y")
	s.Table(table)
	facts := &Table{Indent: " "}
	facts.Add("Fact", strings.Repeat("word ", 9)+"end")
	s.Table(facts)
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	want := "\x1b[1mNAME\x1b[0m    \x1b[1mWHAT\x1b[0m\n" +
		"a       \x1b[31m" + strings.Repeat("x", 35) + "…\x1b[0m\nlonger  y\n" +
		" Fact  word word word word word word word\n       word word end\n"
	if out.String() != want {
		t.Errorf("%q\nwant %q", out.String(), want)
	}
}

// On a terminal a paragraph goes on below itself; elsewhere it is one line.
func TestParagraph(t *testing.T) {
	for _, terminal := range []bool{true, false} {
		var out, errs strings.Builder
		s := screen(&out, &errs)
		s.OutTerminal, s.Width = terminal, 20
		s.Paragraph(s.Paint(Red, "!")+" ", 2, "one two three\nfour five")
		if err := s.Flush(); err != nil {
			t.Fatal(err)
		}
		want := map[bool]string{true: "! one two three four\n  five\n", false: "! one two three four five\n"}[terminal]
		if out.String() != want {
			t.Errorf("%q, want %q", out.String(), want)
		}
	}
}

func TestProgress(t *testing.T) {
	var out, errs strings.Builder
	s := screen(&out, &errs)
	now := s.Now()
	s.Now = func() time.Time { return now }
	lines := s.Progress(true)
	lines.Update("1/2", 1, 2)
	lines.Update("same second", 1, 2)
	now = now.Add(time.Second)
	lines.Update("2/2", 2, 2)
	lines.End()
	quiet := s.Progress(false)
	quiet.Update("1/2", 1, 2)
	if errs.String() != "1/2\n2/2\n" {
		t.Errorf("%q", errs.String())
	}
	errs.Reset()
	s.ErrTerminal = true
	bar := s.Progress(false)
	bar.Update("1/2", 1, 2)
	bar.Update("1/2", 1, 2)
	bar.End()
	if want := "\r[##########----------] 1/2\x1b[K\r\x1b[K"; errs.String() != want {
		t.Errorf("%q", errs.String())
	}
}

// TestProgressEndsWithTheNewest: what comes within a second of the line before is shown once that is over, although
// nothing else comes.
func TestProgressEndsWithTheNewest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out, errs strings.Builder
		s := screen(&out, &errs)
		s.Now = time.Now
		lines := s.Progress(true)
		lines.Update("downloading", 0, 1)
		lines.Update("dropped", 0, 1)
		lines.Update("installing", 0, 1)
		time.Sleep(time.Minute)
		synctest.Wait()
		if errs.String() != "downloading\ninstalling\n" {
			t.Errorf("%q", errs.String())
		}
		lines.Update("installed", 1, 1)
		lines.Update("late", 1, 1)
		lines.End()
		time.Sleep(time.Minute)
		synctest.Wait()
		if errs.String() != "downloading\ninstalling\ninstalled\n" {
			t.Errorf("%q", errs.String())
		}
	})
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space") }

func TestFlushReturnsTheError(t *testing.T) {
	s := &Screen{Out: bufio.NewWriter(full{})}
	s.Print("%d", 1)
	if err := s.Flush(); err == nil || !strings.Contains(err.Error(), "no space") {
		t.Errorf("%v", err)
	}
}
