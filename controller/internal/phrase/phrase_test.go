package phrase

import (
	"strings"
	"testing"
	"time"
)

func TestPhrases(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Clean("a\x1b[2J\n\tb\u202e"), "a\ufffd[2J  b\ufffd"},
		{CleanLines("a\x07\nb"), "a\ufffd\nb"},
		{Shorten("héllo", 5), "héllo"}, {Shorten("héllo!", 5), "héll…"}, {Shorten("any", 0), "any"},
		{Span(-time.Second), "0s"}, {Span(119 * time.Second), "1m"}, {Span(47 * time.Hour), "47h"},
		{Span(48 * time.Hour), "2d"},
		{Ahead(-time.Second), "0s"}, {Ahead(90 * time.Second), "90s"},
		{Ahead(2*time.Minute - 20*time.Millisecond), "2m"},
		{Ahead(2*time.Minute + 31*time.Second), "3m"}, {Ahead(90 * time.Minute), "90m"},
		{Ahead(time.Minute), "1m"}, {Ahead(time.Hour), "1h"}, {Ahead(118 * time.Second), "2m"},
		{Ahead(24*time.Hour - time.Second), "24h"}, {Ahead(48*time.Hour - time.Second), "2d"},
		{Exact(0), "0s"}, {Exact(7*day + 30*time.Second), "7d30s"}, {Exact(150 * time.Second), "2m30s"},
		{Size(1023), "1023 B"}, {Size(1536), "1.5 KiB"}, {Size(1 << 30), "1 GiB"},
		{List([]string{"a", "b\n"}), "a, b "},
		{List(strings.Split("abcdefghijkl", "")), "a, b, c, d, e, f, g, h, i, j and 2 more"},
		{Remark("a", ""), "a"}, {Remark("a", "b"), "a (b)"}, {Plural(1, "node"), "1 node"},
		{Plural(0, "node"), "0 nodes"},
		{YesNo(true), "yes"}, {YesNo(false), "no"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}
