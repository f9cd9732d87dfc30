package rebalance_test

import (
	"fmt"
	"testing"
	"time"

	"tandem.internal/controller/internal/desired"
	"tandem.internal/controller/internal/rebalance"
)

// TestRestsOfServices: each is twice as long as the one before, up to a day, whatever other services do; a service that
// did not move for a day after its rest begins anew, and is forgotten when another moves then.
func TestRestsOfServices(t *testing.T) {
	a, b := desired.Service{Codename: "a", Subject: "s"}, desired.Service{Codename: "a", Subject: "s", Index: 1}
	var all []rebalance.Moved
	at := epoch
	var rests []string
	move := func(of desired.Service) {
		all = rebalance.Move(all, of, at)
		for _, m := range all {
			if m.Service == of {
				rests = append(rests, m.Until.Sub(at).String())
				at = m.Until
			}
		}
	}
	for range 9 {
		move(a)
	}
	move(b)
	move(a)
	const want = "[20m0s 40m0s 1h20m0s 2h40m0s 5h20m0s 10h40m0s 21h20m0s 24h0m0s 24h0m0s 20m0s 24h0m0s]"
	if got := fmt.Sprint(rests); got != want || len(all) != 2 {
		t.Errorf("%s\n%+v", got, all)
	}
	at = at.Add(rebalance.MostRest + time.Second)
	move(b)
	if len(all) != 1 || all[0].Service != b || all[0].Rest.Std() != rebalance.FirstRest {
		t.Errorf("%+v", all)
	}
}
