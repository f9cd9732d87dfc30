package link_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/eclipse/paho.mqtt.golang/packets"

	"tandem.internal/shared/link"
)

// A broker that answers and refuses is asked ever more rarely, even by a client that else is back at once; after a
// failure of another kind it is at once again.
func TestBackoffOfRefusals(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		s.connack = packets.ErrRefusedBadUsernameOrPassword
		d := dial(t, s, link.Config{Rand: rand.New(rand.NewPCG(1, 1)),
			Backoff: link.Backoff{Max: 250 * time.Millisecond, Refused: 2 * time.Minute}}, nil)
		pass(time.Hour)
		if n := len(d.Downs()); n < 30 || n > 120 {
			t.Errorf("%d attempts in an hour", n)
		}
		s.Partition("x")
		pass(5 * time.Minute)
		before := len(d.Downs())
		pass(time.Minute)
		if n := len(d.Downs()) - before; n < 3 {
			t.Errorf("%d attempts in a minute at a broker that is away", n)
		}
		d.stop()
	})
}
