package distribute

import (
	"bytes"
	"context"
	"fmt"

	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/record"
)

// Audit makes sure that the state is what the journal says: it replays every record, and those after the newest
// checkpoint, and compares both outcomes with the live state. Where records were trimmed, only a checkpoint has what
// they led to, and the first is left out. It holds up the loop for as long as that takes.
func (c *Core) Audit(ctx context.Context) error {
	var failure error
	if err := c.look(ctx, func(live *fleet.Fleet) { failure = c.audit(live) }); err != nil {
		return err
	}
	return failure
}

func (c *Core) audit(live *fleet.Fleet) error {
	want, j := live.Checkpoint(), c.journal.Load()
	opt := c.options(j)
	gone, err := j.Gone()
	if err != nil {
		return err
	}
	if gone == 0 {
		whole := fleet.New(opt)
		if err := j.Replay(1, func(r record.Record) error { return whole.Replay(&r) }); err != nil {
			return err
		}
		if err := differ("all records", whole.Checkpoint(), want); err != nil {
			return err
		}
	}
	recent, _, err := replay(j, opt)
	if err != nil {
		return err
	}
	return differ("the newest checkpoint and what came after it", recent.Checkpoint(), want)
}

// differ shows where two states part.
func differ(from string, got, want []byte) error {
	if bytes.Equal(got, want) {
		return nil
	}
	at := 0
	for at < min(len(got), len(want)) && got[at] == want[at] {
		at++
	}
	around := func(b []byte) []byte { return b[max(0, min(at, len(b))-200):min(len(b), at+200)] }
	return fmt.Errorf("replaying %s leads elsewhere than the live state:\nreplayed: …%s…\nlive:     …%s…", from,
		around(got), around(want))
}
