package journal

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
)

func TestGroup(t *testing.T) {
	j := mustOpen(t, tempPath(t), Options{})
	g := NewGroup(j, 16) // smaller than the crowd: several shares wait at once
	const callers, each = 50, 10
	got := make([][]uint64, callers)
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for i := range each {
				r := rec(i)
				r.Who = fmt.Sprintf("caller %d/%d", c, i)
				seq, err := g.Append(r)
				if err != nil {
					t.Error(err)
					return
				}
				if seq > j.Last() {
					t.Errorf("%d was acknowledged before it was durable", seq)
				}
				got[c] = append(got[c], seq)
			}
		})
	}
	if _, err := g.Append(Record{}); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
	wg.Wait()
	g.Close()
	if _, err := g.Append(rec(1)); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	records := all(t, j)
	if len(records) != callers*each {
		t.Fatalf("%d records", len(records))
	}
	for c := range got {
		for i, seq := range got[c] {
			if want := fmt.Sprintf("caller %d/%d", c, i); records[seq-1].Who != want {
				t.Errorf("record %d is of %s, not of %s", seq, records[seq-1].Who, want)
			}
		}
	}
}

// Every caller of a failed commit hears of it, and so does everybody later.
func TestGroupFails(t *testing.T) {
	boom := errors.New("boom")
	reached, release := make(chan struct{}), make(chan struct{})
	j := mustOpen(t, tempPath(t), Options{Faults: Faults{BeforeCommit: sync.OnceValue(func() error {
		close(reached)
		<-release
		return boom
	})}})
	g := NewGroup(j, 0)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			if _, err := g.Append(rec(i)); !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), "boom") {
				t.Error(err)
			}
		})
	}
	<-reached
	close(release)
	wg.Wait()
	g.Close()
}

// Close commits what is already queued.
func TestGroupCloses(t *testing.T) {
	reached, release := make(chan struct{}), make(chan struct{})
	first := sync.OnceFunc(func() { close(reached); <-release })
	j := mustOpen(t, tempPath(t), Options{Faults: Faults{BeforeCommit: func() error { first(); return nil }}})
	g := NewGroup(j, 1)
	var wg sync.WaitGroup
	outcome := make(chan error, 3)
	for i := range 3 {
		wg.Go(func() { _, err := g.Append(rec(i)); outcome <- err })
	}
	<-reached
	closed := make(chan struct{})
	wg.Go(func() { g.Close(); close(closed) })
	select {
	case <-closed:
		t.Error("Close did not wait for the commit on its way")
	default:
	}
	close(release)
	wg.Wait()
	durable := 0
	for range 3 {
		if err := <-outcome; err == nil {
			durable++
		} else if !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	}
	if durable == 0 || uint64(durable) != j.Last() {
		t.Errorf("%d acknowledged, %d there", durable, j.Last())
	}
}
