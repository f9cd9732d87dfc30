package fetch

import (
	"tandem.internal/nodeagent/internal/fetch/plan"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// Reserve reserves bytes for what an artifact takes when it is unpacked, in place of what was reserved for that before:
// until Release. The error says that there is no room; what may go is given up for it then.
func (s *Store) Reserve(a workload.Artifact, bytes int64) *wire.Error {
	room, err := s.ledger.hold(unpacked(plan.KeyOf(a)), bytes)
	if err != nil {
		return wire.New(wire.CodeStorage, "", err.Error())
	}
	if room < bytes {
		s.event(plan.Free{Bytes: bytes})
		return plan.NoRoom(bytes, room)
	}
	return nil
}

// Release gives back what Reserve has reserved, or the download of the artifact.
func (s *Store) Release(a workload.Artifact) { s.ledger.end(unpacked(plan.KeyOf(a))) }

// Doubt has the copy of an artifact verified before it is used again.
func (s *Store) Doubt(a workload.Artifact) { s.event(plan.Doubted{Artifact: a}) }

// unpacked is the key under which room is reserved for what a copy takes when it is unpacked.
func unpacked(k plan.Key) plan.Key { return k + " unpacked" }
