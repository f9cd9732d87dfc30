package server

import (
	"testing"
	"testing/synctest"

	"tandem.internal/shared/link/linktest"
)

// TestLobbyOfABroker: those that say nothing are served in a bounded number. The others wait, unread, and are served
// when there is a place; those that wait end with the broker.
func TestLobbyOfABroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := linktest.NewPipe()
		s := startPiped(t, p, Config{Limits: Limits{StrangersEach: 2}}, nil)
		first, second, waits := dialPipe(t, p), dialPipe(t, p), dialPipe(t, p)
		sent := false
		go func() {
			waits.mustConnect("node/n3")
			sent = true
		}()
		if synctest.Wait(); sent {
			t.Error("a third one is served")
		}
		first.mustConnect("node/n1").ping()
		if synctest.Wait(); !sent {
			t.Error("the third one does not get the place of the first")
		}
		second.mustConnect("node/n2").ping()
		waits.ping()
		for range 3 {
			dialPipe(t, p)
		}
		synctest.Wait()
		if n := s.Stats().Connections; n != 6 {
			t.Errorf("%d connections, want 6", n)
		}
		s.Close()
	})
}
