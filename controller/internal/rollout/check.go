package rollout

import (
	"errors"
	"fmt"
	"slices"

	"tandem.internal/controller/internal/rollout/plan"
	"tandem.internal/shared/wire"
)

// Check returns why a record cannot be applied: this package cannot have made it here; nil: it can.
func (s *Set) Check(rec Record) error {
	if err := s.check(rec); err != nil {
		return fmt.Errorf("record %d about the rollout %.80q: %w", rec.Seq, rec.ID, err)
	}
	return nil
}

func (s *Set) check(rec Record) error {
	r := s.all[rec.ID]
	if d, ok := rec.Data.(BegunData); ok {
		if r != nil {
			return errors.New("it has begun already")
		}
		return errors.Join(s.checkPlan(d.Plan), checkNames(slices.Values(d.Nodes)))
	}
	if r == nil {
		return errors.New("it has not begun")
	}
	switch d := rec.Data.(type) {
	case WaveOpenedData:
		return errors.Join(r.checkWave(d.Wave), checkNames(slices.Values(d.Nodes)))
	case IssuedData:
		return errors.Join(r.checkWave(d.Wave), checkNames(func(yield func(string) bool) {
			for _, n := range d.Nodes {
				if !yield(n.Node) {
					return
				}
			}
		}))
	case SettledData:
		for _, n := range d.Nodes {
			if !slices.Contains([]Status{Passed, Failed, Silent, Restored, Stuck}, n.Status) {
				return fmt.Errorf("no node ends as %.80q", n.Status)
			}
			if !wire.ValidName(n.Node) {
				return fmt.Errorf("%.80q is no name of a node", n.Node)
			}
		}
	case TakenBackData:
		return checkNames(func(yield func(string) bool) {
			for _, n := range d.Nodes {
				if !yield(n.Node) {
					return
				}
			}
		})
	case WavePassedData:
		return r.checkWave(d.Wave)
	case EndedData:
		if !slices.Contains([]Phase{Done, Aborted, Superseded}, d.Phase) {
			return fmt.Errorf("no rollout ends as %.80q", d.Phase)
		}
	case PausedData, ResumedData, RevertingData:
	default:
		return fmt.Errorf("it has a %T", rec.Data)
	}
	return nil
}

// checkPlan refuses a plan that nothing can be done by. What a newer rule would refuse, it does not.
func (s *Set) checkPlan(p *plan.Plan) error {
	switch {
	case p == nil:
		return errors.New("it has no plan")
	case len(p.Waves) == 0 || len(p.Waves) > plan.MaxWaves || len(p.Groups) > plan.MaxGroups:
		return fmt.Errorf("its plan has %d waves and %d groups", len(p.Waves), len(p.Groups))
	}
	_, err := p.Open(s.zones)
	return err
}

func (r *Rollout) checkWave(wave int) error {
	if wave < 0 || wave >= len(r.plan.Waves) {
		return fmt.Errorf("it is about wave %d of %d", wave, len(r.plan.Waves))
	}
	return nil
}

func checkNames(names func(func(string) bool)) error {
	for name := range names {
		if !wire.ValidName(name) {
			return fmt.Errorf("%.80q is no name of a node", name)
		}
	}
	return nil
}
