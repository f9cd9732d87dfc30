package rebalance_test

import (
	"fmt"
	"testing"
	"time"

	"tandem.internal/controller/internal/desired"
	"tandem.internal/controller/internal/rebalance"
	"tandem.internal/shared/items"
)

// BenchmarkAway is a look at a unit with 10,000 instances and 20 moves, of which 2,000 nodes are offline.
func BenchmarkAway(b *testing.B) {
	in, away := &desired.Input{}, rebalance.Away{}
	for i := range 10000 {
		in.Current.Instances = append(in.Current.Instances, items.Instance{Type: items.Service, Codename: "web",
			Version: "1.0.0", Subject: "hall", Index: i % 1000, Node: "a", Runtime: "process"})
	}
	for i := range 2000 {
		away.Nodes = append(away.Nodes, fmt.Sprint("n", i))
	}
	var d rebalance.Durable
	for i := range 20 {
		d.Moves = append(d.Moves, rebalance.Flight{Move: desired.ReliefMove{Codename: "s", Subject: "hall", Index: i,
			From: "a", To: "b"}, Until: time.Unix(1e9, 0)})
	}
	s := rebalance.New(d, rebalance.Limits{})
	for b.Loop() {
		if _, err := s.Step(time.Unix(0, 0), in, away); err != nil {
			b.Fatal(err)
		}
	}
}
