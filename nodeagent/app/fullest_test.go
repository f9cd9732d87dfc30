package app

import (
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/nodeagent/internal/health"
)

// The check disk is about the fullest of the partitions, in bytes or in inodes.
func TestFullestPartition(t *testing.T) {
	healthBubble(t, func(p *patient) {
		p.cfg.Partitions = map[string]string{"a": "/a", "b": "/b", "c": "/c"}
		usage := map[string]Usage{"/a": {Bytes: 0.1, Inodes: 0.2}, "/b": {Bytes: 0.99, Inodes: 0.3}, "/c": {Bytes: 0.5}}
		p.deps.Sources.Partition = func(path string) (Usage, error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			if u, ok := usage[path]; ok {
				return u, nil
			}
			return Usage{}, errors.New("no such path")
		}
		set := func(path string, u Usage) {
			p.mu.Lock()
			defer p.mu.Unlock()
			usage[path] = u
		}
		p.start()
		p.pass(2 * time.Minute)
		if got := p.check("disk"); got != "bad: 0.99, above 0.98" {
			t.Errorf("a full partition: %s", got)
		}
		set("/b", Usage{Bytes: 0.5, Inodes: 0.3})
		p.pass(20 * time.Second)
		if got := p.check("disk"); got != "ok" {
			t.Errorf("none is full: %s", got)
		}
		set("/a", Usage{Bytes: 0.1, Inodes: 1})
		p.pass(2 * time.Minute)
		if got := p.check("disk"); !strings.HasPrefix(got, "bad: 1, ") {
			t.Errorf("no inodes: %s", got)
		}
		// Which is the fullest is unknown while one of them is: that is no good reading.
		set("/a", Usage{Bytes: 0.1, Inodes: math.NaN()})
		p.pass(2 * time.Minute)
		if got := p.check("disk"); !strings.HasPrefix(got, "bad: silent for ") {
			t.Errorf("no number: %s", got)
		}
		set("/a", Usage{Bytes: 0.1, Inodes: 0.1})
		p.pass(20 * time.Second)
		if got := p.check("disk"); got != "ok" {
			t.Errorf("known again: %s", got)
		}
		p.mu.Lock()
		delete(usage, "/c")
		p.mu.Unlock()
		p.pass(2 * time.Minute)
		if got := p.check("disk"); !strings.HasPrefix(got, "bad: silent for ") {
			t.Errorf("a partition that is away: %s", got)
		}
	})
}

// A start that could not be saved as told is told by the next one.
func TestStartOnAFullDisk(t *testing.T) {
	healthBubble(t, func(p *patient) {
		if err := p.tryStart(); err != nil {
			t.Fatal(err)
		}
		p.full.Store(true) // the agent has not begun
		synctest.Wait()
		p.pass(time.Minute)
		p.stop()
		p.full.Store(false)
		p.mu.Lock()
		p.events = nil
		p.mu.Unlock()
		p.start()
		p.wantTold("boot first 1, boot stop 2", health.EventBoot)
	})
}
