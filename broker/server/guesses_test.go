package server

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/shared/link/linktest"
)

// Wrong passwords are slowed down, of one address and of one user, with the right one after them; nodes without a
// password, other addresses and other users are not.
func TestPasswordsAreSlowedDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		auth := defaultAuth(map[string]string{"controller": "secret", "cloud/eu": "secret"})
		try := func(user, password string, from int) string {
			_, err := auth(ConnectInfo{ClientID: user, Username: user, Password: []byte(password),
				Remote: &net.TCPAddr{IP: net.IPv4(10, 0, byte(from>>8), byte(from)), Port: 1}})
			return fmt.Sprint(err)
		}
		expect := func(what, got string, want string) {
			t.Helper()
			if !strings.Contains(got, want) {
				t.Errorf("%s: %s, want %q", what, got, want)
			}
		}
		for range 50 {
			expect("the right one", try("controller", "secret", 1), "<nil>")
		}
		for range 10 {
			expect("a guess", try("controller", "guess", 1), `wrong password (user "controller")`)
		}
		expect("the eleventh", try("controller", "guess", 1), `not looked at (user "controller")`)
		expect("the right one after them", try("controller", "secret", 1), "not looked at")
		expect("a user that is not there", try("cloud/us", "guess", 1), "not looked at")
		expect("a node that has none", try("node/n1", "", 1), "<nil>")
		expect("another address", try("controller", "secret", 2), "<nil>")
		for i := range 90 { // one each, so that no address is slowed down
			time.Sleep(20 * time.Millisecond)
			expect("a guess from elsewhere", try("controller", "guess", 100+i), "wrong password")
		}
		for i := range 10 {
			try("controller", "guess", 200+i)
		}
		expect("a guess at one user", try("controller", "secret", 3), "not looked at")
		expect("another user", try("cloud/eu", "secret", 3), "<nil>")
		time.Sleep(time.Minute)
		expect("a minute later", try("controller", "secret", 1), "<nil>")
	})
}

func TestSamplePasswordIsRefused(t *testing.T) {
	_, err := New(Config{Unit: "u1", Passwords: map[string]string{"controller": "change-me"}})
	if err == nil || !strings.Contains(err.Error(), "of the sample") {
		t.Error(err)
	}
}

// Takeovers are told one by one, and when there are many, in sums.
func TestTakeoverEventsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := linktest.NewPipe()
		s := startPiped(t, p, Config{}, nil)
		const takeovers = 200
		for range takeovers + 1 {
			dialPipe(t, p).mustConnect("node/n1")
		}
		synctest.Wait()
		if n := len(s.events.of(Takeover)); n != floodBurst {
			t.Errorf("%d events of %d takeovers at once, want %d", n, takeovers, floodBurst)
		}
		time.Sleep(2 * time.Second)
		dialPipe(t, p).mustConnect("node/n1")
		synctest.Wait()
		sum := 0
		for _, ev := range s.events.of(Takeover) {
			sum += ev.Count
		}
		if sum != takeovers+1 {
			t.Errorf("%d were told, want %d", sum, takeovers+1)
		}
		s.Close()
	})
}
