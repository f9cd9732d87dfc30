package plan

import (
	"time"

	"tandem.internal/shared/strictjson"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// Phase is how far a copy has come.
type Phase string

// The phases.
const (
	Waiting   Phase = "waiting"   // its turn has not come, or there is no room
	Fetching  Phase = "fetching"  //
	Verifying Phase = "verifying" // all of it is there; it is being checked
	Ready     Phase = "ready"     // it can be used
	Failing   Phase = "failed"    // it will be tried again
)

// View is what there is to say about an artifact.
type View struct {
	Key      Key // "": none can be named
	Phase    Phase
	Have     int64       // bytes that are there; while Fetching the shell knows better
	Size     int64       // bytes of the whole, as far as it is known
	Err      *wire.Error // the newest; nil when Ready, but for a dispute
	Turn     bool        // Failing, but only since the address has said when to come back
	Next     time.Time   // of the next attempt; zero: at once, or none is needed
	URL      string      // being fetched from
	Digest   string      // Copy's; "": it is not held, or has none
	Repaired int         // times that a copy was found to be damaged
}

// Look says how it is with an artifact. What is not wanted, as far as the State knows, is Waiting.
func (s State) Look(a workload.Artifact) View {
	k := s.of(a)
	it, ok := s.items[k]
	switch {
	case k == "" && s.disputed[a.UUID]:
		return View{Phase: Failing, Err: wire.New(wire.CodeDuplicate, "", "the uuid "+strictjson.Show(a.UUID)+
			" belongs to several contents: give this resource a checksum")}
	case k == "" && a.UUID == "":
		return View{Phase: Failing, Err: wire.New(wire.CodeMissing, "", "a resource needs a checksum or a uuid")}
	case !ok || !it.wanted:
		return View{Key: k, Phase: Waiting, Size: a.Size}
	}
	v := View{Key: k, Have: it.have, Size: it.reserve(it.pick(s.at)), Err: it.err, URL: it.url, Repaired: it.repaired}
	switch {
	case it.held && it.busy != opRemove:
		v.Phase, v.Have, v.Size, v.Err, v.Digest = Ready, it.copy.Size, it.copy.Size, nil, it.copy.Digest
		if a.UUID != "" && s.disputed[a.UUID] {
			v.Err = wire.New(wire.CodeDuplicate, "", "the uuid "+strictjson.Show(a.UUID)+" is wanted with another "+
				"checksum, too: a new content needs a new uuid; the two are kept apart")
		}
	case it.busy == opFetch:
		v.Phase = Fetching
	case it.found:
		v.Phase = Verifying
	case it.busy == opRemove, it.err == nil, !it.nextTry().After(s.at):
		v.Phase = Waiting
	default:
		v.Phase, v.Next, v.Turn = Failing, it.nextTry(), it.waits(s.at)
		if it.err.Code == wire.CodeStorage {
			v.Phase = Waiting
		}
	}
	return v
}

// Kept returns the copies that can be used, and for each whether it is wanted and from where it
// may be fetched, for whoever serves them to others.
func (s State) Kept() map[Key][]string {
	all := map[Key][]string{}
	for k, it := range s.items {
		if it.held && it.busy != opRemove {
			all[k] = it.spec.URLs
		}
	}
	return all
}
