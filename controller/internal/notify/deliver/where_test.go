package deliver

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/record"
)

// A receiver with a filter of nodes is told about those that are selected when the entry is read; if that cannot be
// asked it is told later, and nothing is left out.
func TestSelectedNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, o := newBook(), newTown()
		l := begin(t, Config{Dir: t.TempDir(), Unit: "u1", Journal: b, NewSender: o.sender})
		defer l.end(t)
		in := op.NewNotice{Name: "r"}
		in.Where = "press" // the rig's journal selects by the beginnings of names
		add(t, l.Manager, in)
		b.fails(errors.New("the journal cannot be read"))
		for _, node := range []string{"press-1", "mill-1", "press-1", "", "press-2"} {
			b.about(node, record.Trouble, record.TroubleData{Topic: "t"})
		}
		time.Sleep(time.Minute)
		sameIDs(t, "before", o.ids("r"), nil)
		b.fails(nil)
		time.Sleep(time.Minute)
		sameIDs(t, "r", o.ids("r"), []string{"2", "4", "6"})
		sameIDs(t, "asked", b.asked, []string{"mill-1", "press-1", "press-2"})
		b.selects(errors.New("the controller is busy"))
		b.about("press-3", record.Trouble, record.TroubleData{Topic: "t"})
		time.Sleep(time.Minute)
		if all := l.Trouble(); len(all) != 1 || !strings.Contains(all[0], "the controller is busy") {
			t.Errorf("%q", all)
		}
		b.selects(nil)
		time.Sleep(time.Minute)
		sameIDs(t, "when it can be asked again", o.ids("r"), []string{"2", "4", "6", "7"})
		if slices.Contains(b.asked, "") {
			t.Errorf("asked for %q", b.asked)
		}
	})
}
