package app

import (
	"slices"
	"strings"
	"testing"

	"tandem.internal/shared/topic"
)

// The controller asks for the inbox only when it is on, and for everything else either way.
func TestSubscriptions(t *testing.T) {
	off := (&Config{Unit: "u1"}).subscriptions()
	if i := slices.IndexFunc(off, func(f string) bool { return strings.Contains(f, "inbox") || f == "#" }); i >= 0 {
		t.Errorf("without --inbox it subscribes to %s", off[i])
	}
	on := (&Config{Unit: "u1", Inbox: true}).subscriptions()
	rest := slices.DeleteFunc(slices.Clone(on), func(f string) bool { return f == topic.ForInbox("u1", "+") })
	if len(rest) != len(on)-1 || !slices.Equal(rest, off) {
		t.Errorf("with --inbox it subscribes to %q, without to %q", on, off)
	}
}
