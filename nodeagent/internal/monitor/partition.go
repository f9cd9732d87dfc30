package monitor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// partition is one named partition. A look at it may hang for as long as a dead file server stays
// dead, in a call that nothing ends; so each look has a goroutine, and there is one at a time.
type partition struct {
	name, path string
	look       func(path string) (Usage, error)
	answer     chan looked // holds one, so that a late look ends without a receiver
	looking    bool
}

type looked struct {
	usage Usage
	err   error
}

// errSilent is why a partition's values are not known while a look at it hangs.
var errSilent = errors.New("the file system does not answer")

// begin starts a look, unless the one before still hangs.
func (p *partition) begin() {
	if p.looking {
		select {
		case <-p.answer: // too late to be told
			p.looking = false
		default:
			return
		}
	}
	p.looking = true
	go func() {
		u, err := p.look(p.path)
		p.answer <- looked{u, err}
	}()
}

// end takes the look's answer, if it comes before over. Once over has fired, answers that are there
// are still taken; over is nil then.
func (p *partition) end(ctx context.Context, over *<-chan time.Time) (Usage, error) {
	a, err := p.await(ctx, over)
	if err == nil {
		err = a.err
	}
	if err != nil {
		return Usage{}, fmt.Errorf("partition %s: %w", p.name, err)
	}
	return a.usage, nil
}

func (p *partition) await(ctx context.Context, over *<-chan time.Time) (looked, error) {
	if *over != nil {
		select {
		case a := <-p.answer:
			p.looking = false
			return a, nil
		case <-ctx.Done():
			return looked{}, ctx.Err()
		case <-*over:
			*over = nil
		}
	}
	select {
	case a := <-p.answer:
		p.looking = false
		return a, nil
	default:
		return looked{}, errSilent
	}
}

// wait gives looks that are out a last chance to end.
func (m *Monitor) wait() error {
	limit := time.NewTimer(m.cfg.Patience)
	defer limit.Stop()
	over := limit.C
	var silent []string
	for _, p := range m.parts {
		if !p.looking {
			continue
		}
		if _, err := p.await(context.Background(), &over); err != nil {
			silent = append(silent, p.name)
		}
	}
	if len(silent) > 0 {
		return fmt.Errorf("partitions that do not answer: %s", strings.Join(silent, ", "))
	}
	return nil
}
