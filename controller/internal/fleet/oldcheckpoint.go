package fleet

import (
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/shared/wire"
)

// Checkpoints of journals up to format 5 have a member for each kind that there was, and those of before the epoch was
// kept name boots and forgotten nodes without it.

type oldSnapshot struct {
	Config    *kind.State    `json:"config,omitempty"`
	Workloads *kind.State    `json:"workloads,omitempty"`
	Settings  jsontext.Value `json:"settings,omitzero"` // of the nodes' health

	Forgotten map[string]time.Time `json:"forgotten,omitempty"`
}

type oldNodeSnap struct {
	Info      jsontext.Value `json:"info,omitzero"`
	Health    jsontext.Value `json:"health,omitzero"`
	Workloads jsontext.Value `json:"workloads,omitzero"`
	Boots     []string       `json:"pastBoots,omitempty"`
}

// into puts what an old checkpoint has where it is today.
func (o *oldSnapshot) into(s *snapshot) error {
	if o.Config != nil {
		s.Sources[wire.KindConfig] = &sourceSnap{State: *o.Config}
	}
	if w := o.Workloads; w != nil {
		w.State = kind.Absent
		if w.Version != "" {
			w.State = kind.Installed
		}
		s.Sources[wire.KindWorkloads] = &sourceSnap{State: *w}
	}
	if o.Settings == nil {
		return nil
	}
	var newest struct {
		Rev uint64 `json:"rev"`
	}
	if err := json.Unmarshal(o.Settings, &newest); err != nil {
		return err
	}
	state := kind.State{State: kind.Installed, Version: strconv.FormatUint(newest.Rev, 10), Rev: newest.Rev}
	s.Sources[wire.KindHealth] = &sourceSnap{State: state, Saved: o.Settings}
	return nil
}

func (o *oldNodeSnap) into(n *nodeSnap) {
	for _, boot := range o.Boots {
		n.PastBoots = append(n.PastBoots, PastBoot{boot, n.Heard})
	}
	for name, detail := range map[wire.Kind]jsontext.Value{
		wire.KindInfo: o.Info, wire.KindHealth: o.Health, wire.KindWorkloads: o.Workloads,
	} {
		if k := n.Kinds[name]; k != nil && detail != nil {
			k.Detail = detail
		}
	}
}
