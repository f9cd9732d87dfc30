package distribute_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/controller/internal/op"
	"tandem.internal/shared/wire"
)

// However many look at a node within a moment, it is asked once, and nobody is noted in the journal.
func TestSamples(t *testing.T) {
	inSeedUnit(t, func(t *testing.T, u *seedUnit) {
		u.start()
		one := u.worker("n1")
		u.node("n2", "mainType")
		look := func(want int64, asked int) {
			t.Helper()
			s, err := u.core.Samples(as(t.Context(), "ann"), op.NodeIn{Node: "n1"})
			if err != nil || s.Node != "n1" || len(s.At) != 1 || s.At[0] != want || one.work.looks != asked {
				t.Errorf("%+v %v, asked %d times; want answer %d of %d", s, err, one.work.looks, want, asked)
			}
		}
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if _, err := u.core.Samples(as(t.Context(), "ann"), op.NodeIn{Node: "n1"}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		look(1, 1)
		time.Sleep(5*time.Second - 1)
		look(1, 1)
		time.Sleep(time.Nanosecond)
		look(2, 2)
		if n := u.entries("note"); n != 0 {
			t.Errorf("%d notes", n)
		}
		for node, want := range map[string]string{"n2": "does not show what it has measured: it is older than that",
			"n9": "has never been heard of"} {
			for range 2 { // an error is not kept
				if _, err := u.core.Samples(t.Context(), op.NodeIn{Node: node}); err == nil ||
					!strings.Contains(err.Error(), want) {
					t.Errorf("%s: %v", node, err)
				}
			}
		}
		u.audit()
	})
}

// Who asks and leaves takes nobody along who waits for the same answer.
func TestSamplesOfWhoLeaves(t *testing.T) {
	inSeedUnit(t, func(t *testing.T, u *seedUnit) {
		u.start()
		one := u.worker("n1")
		one.mute = true
		first, leave := context.WithCancel(t.Context())
		gone, stayed := make(chan error, 1), make(chan error, 1)
		go func() { _, err := u.core.Samples(first, op.NodeIn{Node: "n1"}); gone <- err }()
		synctest.Wait()
		go func() { _, err := u.core.Samples(t.Context(), op.NodeIn{Node: "n1"}); stayed <- err }()
		synctest.Wait()
		one.mute = false
		leave()
		if err := <-gone; err == nil {
			t.Error("who left has an answer")
		}
		if err := <-stayed; err != nil {
			t.Error(err)
		}
		one.mute = true
		time.Sleep(time.Minute)
		if _, err := u.core.Samples(t.Context(), op.NodeIn{Node: "n1"}); wire.AsError(err).Code != wire.CodeNoAnswer {
			t.Errorf("a node that does not answer: %v", err)
		}
	})
}
