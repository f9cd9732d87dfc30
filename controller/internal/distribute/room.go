package distribute

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"tandem.internal/controller/internal/term"
	"tandem.internal/shared/wire"
)

// lookEvery is how often it is looked how much room the disk has left.
const lookEvery = time.Minute

// room is what the disk was seen to have.
type room struct {
	level int    // 0: enough; else 1 is low, and 2 very low
	text  string // what operators are told; "": nothing
}

// veryLow is the part of DiskLow below which it is told again.
const veryLow = 4

// watchRoom tells before the disk of the journal is full.
func (c *Core) watchRoom(ctx context.Context) {
	t := time.NewTicker(lookEvery)
	defer t.Stop()
	for {
		c.lookAtRoom()
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// lookAtRoom looks how much room there is. When it is less than was told, that goes into log and journal.
func (c *Core) lookAtRoom() {
	was := room{}
	if r := c.room.Load(); r != nil {
		was = *r
	}
	left, err := c.cfg.Room()
	if err != nil {
		c.room.Store(&room{was.level, "how much room the disk of the journal has left cannot be told: " + err.Error()})
		return
	}
	now := room{level: c.roomLevel(left, was.level)}
	if now.level > 0 {
		now.text = fmt.Sprintf("the disk of the journal has %s left (--disk-low %s): make room, or keep less "+
			"(--keep); once it is full nothing more is accepted", term.Size(uint64(left)),
			term.Size(uint64(c.cfg.DiskLow)))
	}
	c.room.Store(&now)
	switch {
	case now.level > was.level:
		c.cfg.Log.Warn(now.text)
		c.Misbehaved("", "", wire.New(wire.CodeStorage, "", now.text))
	case now.level == 0 && was.level > 0:
		c.cfg.Log.Info("the disk of the journal has room again", zap.Int64("bytes", left))
	}
}

// roomLevel is the level of so many bytes. A level is left when there is an eighth more than what it begins at, so that
// it is not told again and again.
func (c *Core) roomLevel(left int64, was int) int {
	level := 0
	for i, limit := range []int64{c.cfg.DiskLow, c.cfg.DiskLow / veryLow} {
		if left < limit || was > i && left < limit+limit/8 {
			level = i + 1
		}
	}
	return level
}
