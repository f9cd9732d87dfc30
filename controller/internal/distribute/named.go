package distribute

import (
	"maps"
	"slices"
	"time"

	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/journal"
	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/rootlist"
)

// Named is what a journal names that is in other files.
type Named struct {
	Keys      record.SigningKeys
	CAs       record.Authorities
	KnownCA   string     // fingerprint of the CA that nodes trust, where CAs is empty; "": nobody has joined
	Root      *view.Root // the newest list that a root key has signed; nil: there is none
	Artefacts []string   // digests, sorted
	// Has reports whether a subject, such as node/n1, was ever enrolled.
	Has func(subject string) bool
}

// NamedIn works a journal out as a start does, and returns what it names. Nothing is written.
func NamedIn(j *journal.Journal, unit string, kinds kind.Set) (Named, error) {
	f, _, err := replay(j, fleet.Options{Unit: unit, Epoch: j.Epoch(), Kinds: kinds, Zones: time.LoadLocation})
	if err != nil {
		return Named{}, err
	}
	return Named{Keys: f.Keys(), CAs: f.CAs(), KnownCA: f.CA(), Root: f.RootView(&rootlist.List{}),
		Artefacts: slices.Sorted(maps.Keys(f.Artefacts().Artefacts)), Has: f.HasSubject}, nil
}
