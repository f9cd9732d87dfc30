package record

import (
	"fmt"

	"tandem.internal/controller/internal/rollout"
	"tandem.internal/shared/wire"
)

// RolledOut is a document that a rollout brings to the nodes, instead of the installed one.
type RolledOut struct {
	ID     string    `json:"id"`
	Source wire.Kind `json:"source"`
	Version
	Rev uint64 `json:"rev"` // of its beginning
	Who string `json:"who,omitempty"`
}

// Version is an accepted document of a source, or a collection with an element as a rollout brings it.
type Version struct {
	Hash    string `json:"hash"` // of the submitted document; of a collection its name
	Version string `json:"version"`
	Lenient bool   `json:"lenient,omitzero"` // see Verdict
	// of a collection: the element that is another one
	Element string `json:"element,omitempty"`
}

// What says what a rollout brings: a version, or an element in a version.
func (v *Version) What() string {
	if v.Element != "" {
		return v.Element + " version " + v.Version
	}
	return v.Version
}

// RolloutData is the data of Rollout records: what happened to which rollout. One of the others is set.
type RolloutData struct {
	ID string `json:"id"`
	// with Begun: the source, and the document of it that is rolled out
	Document   *RolledOut              `json:"document,omitzero"`
	Begun      *rollout.BegunData      `json:"begun,omitzero"`
	WaveOpened *rollout.WaveOpenedData `json:"waveOpened,omitzero"`
	Issued     *rollout.IssuedData     `json:"issued,omitzero"`
	Settled    *rollout.SettledData    `json:"settled,omitzero"`
	Paused     *rollout.PausedData     `json:"paused,omitzero"`
	Resumed    *rollout.ResumedData    `json:"resumed,omitzero"`
	WavePassed *rollout.WavePassedData `json:"wavePassed,omitzero"`
	Reverting  *rollout.RevertingData  `json:"reverting,omitzero"`
	TakenBack  *rollout.TakenBackData  `json:"takenBack,omitzero"`
	Ended      *rollout.EndedData      `json:"ended,omitzero"`
}

// OfRollout returns the data of a record that a rollout made.
func OfRollout(r rollout.Record) RolloutData {
	data := RolloutData{ID: r.ID}
	switch d := r.Data.(type) {
	case rollout.BegunData:
		data.Begun = &d
	case rollout.WaveOpenedData:
		data.WaveOpened = &d
	case rollout.IssuedData:
		data.Issued = &d
	case rollout.SettledData:
		data.Settled = &d
	case rollout.PausedData:
		data.Paused = &d
	case rollout.ResumedData:
		data.Resumed = &d
	case rollout.WavePassedData:
		data.WavePassed = &d
	case rollout.RevertingData:
		data.Reverting = &d
	case rollout.TakenBackData:
		data.TakenBack = &d
	case rollout.EndedData:
		data.Ended = &d
	default:
		panic(fmt.Sprintf("record: a rollout's record with a %T", r.Data)) // only our own types come here
	}
	return data
}

// Of returns what the rollout made a record of; nil: it is none.
func (d *RolloutData) Of() any {
	switch {
	case d.Begun != nil:
		return *d.Begun
	case d.WaveOpened != nil:
		return *d.WaveOpened
	case d.Issued != nil:
		return *d.Issued
	case d.Settled != nil:
		return *d.Settled
	case d.Paused != nil:
		return *d.Paused
	case d.Resumed != nil:
		return *d.Resumed
	case d.WavePassed != nil:
		return *d.WavePassed
	case d.Reverting != nil:
		return *d.Reverting
	case d.TakenBack != nil:
		return *d.TakenBack
	case d.Ended != nil:
		return *d.Ended
	}
	return nil
}

// Who caused it; "": the controller.
func (d *RolloutData) Who() string {
	switch {
	case d.Begun != nil:
		return d.Begun.Who
	case d.Paused != nil:
		return d.Paused.Who
	case d.Resumed != nil:
		return d.Resumed.Who
	case d.Reverting != nil:
		return d.Reverting.Who
	case d.Ended != nil:
		return d.Ended.Who
	}
	return ""
}
