package app

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tandem.internal/shared/event"
	"tandem.internal/shared/wire"
)

// lostState is what the newest event of a lost state told: "trust: reason", or "" if there was none.
func (r *rig) lostState() string {
	r.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	text := ""
	for _, ev := range r.events {
		if ev.Type != event.StateLost {
			continue
		}
		d, err := event.Decode(ev.Type, ev.Detail)
		detail, ok := d.(*event.StateDetail)
		if err != nil || !ok || ev.Error == nil || ev.Error.Code != wire.CodeStorage {
			r.Errorf("the event is %+v, %v", ev, err)
			continue
		}
		text = detail.Trust + ": " + detail.Reason
	}
	r.events = nil
	return text
}

// trouble is what the node reports of itself.
func (r *rig) trouble() string {
	r.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.reports[wire.KindInfo]
	if len(all) == 0 {
		r.Fatal("no report of the node")
	}
	if err := decode[wire.NodeInfo](r, all[len(all)-1].Detail).Error; err != nil {
		return err.Message
	}
	return ""
}

// However the state file is damaged, the node is back with its desired document unaided. An older one, put in its place
// meanwhile by whoever has the broker, stays refused. The loss is reported once, and as trouble for as long as the
// damaged file is kept.
func TestStateIsLost(t *testing.T) {
	for _, c := range []struct {
		name, want string
		damage     func(path string) error
	}{
		{"cut", "marks: it is cut short", func(path string) error { return os.Truncate(path, 6000) }},
		{"empty", "marks: it is empty", func(path string) error { return os.Truncate(path, 0) }},
		{"garbage", "marks: it is not a bbolt file", func(path string) error {
			return os.WriteFile(path, []byte(strings.Repeat("garbage", 10_000)), 0o600)
		}},
		{"another value", "marks: its values are not those that were written", func(path string) error {
			data, err := os.ReadFile(path)
			other := strings.ReplaceAll(string(data), `"epoch":1,`, `"epoch":0,`)
			return errors.Join(err, os.WriteFile(path, []byte(other), 0o600))
		}},
		{"gone", "marks: it is gone, and config.json is there", os.Remove},
		{"gone with its marks", "first: it is gone, and config.json is there", func(path string) error {
			return errors.Join(os.Remove(path), os.Remove(filepath.Join(filepath.Dir(path), "state.marks")))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(r *rig) {
				r.start()
				r.beacon(1, r.signer)
				r.desire(doc(1, 5))
				r.want("5/5 installed", "5.0.0")
				r.stop()
				if err := c.damage(filepath.Join(r.dir, StateFile)); err != nil {
					t.Fatal(err)
				}
				remembers := strings.HasPrefix(c.want, "marks")
				if remembers {
					r.desire(doc(1, 4))
				}
				r.lostState()
				r.start()
				if got := r.lostState(); !strings.HasPrefix(got, c.want) {
					t.Errorf("reported %q, want %q", got, c.want)
				}
				if remembers {
					r.want("-", "5.0.0")
					r.desire(doc(1, 5))
				}
				r.want("5/5 installed", "5.0.0")
				kept, err := filepath.Glob(filepath.Join(r.dir, "state.db.bad-*"))
				if gone := strings.HasPrefix(c.name, "gone"); err != nil || (len(kept) == 0) != gone || len(kept) > 1 {
					t.Fatalf("kept is %v, %v", kept, err)
				}
				for _, path := range kept {
					if got := r.trouble(); !strings.Contains(got, "then remove "+filepath.Base(path)) {
						t.Errorf("the trouble is %q", got)
					}
					if err := os.Remove(path); err != nil {
						t.Fatal(err)
					}
				}
				r.restart()
				time.Sleep(time.Minute)
				if got, trouble := r.lostState(), r.trouble(); got != "" || trouble != "" {
					t.Errorf("it is reported again: %q, %q", got, trouble)
				}
				r.desire(doc(1, 6))
				r.want("6/6 installed", "6.0.0")
			})
		})
	}
}
