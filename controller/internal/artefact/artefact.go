// Package artefact decides what is in the controller's store of artefacts: which uploads have room, which artefacts are
// visible, and when either ends; and in which order nodes may fetch. It is pure: events go in, journal records and
// refusals come out.
//
// The state changes only by records, as with package enrol: Decide returns the record to write, the shell makes it
// durable, Apply changes the state, at first and at every replay. A lease is durable before the first byte of its
// upload is written, and only the record ArtefactAdded makes an artefact visible. So whatever the disk has is either
// named by the state or to be removed.
//
// A digest is "sha256:" and 64 hexadecimal digits, sizes are bytes.
//
//tandem:pure
package artefact

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/wire"
)

// LeaseLife is how long an upload may be idle.
const LeaseLife = 24 * time.Hour

// renewAfter is the least age of a lease that is renewed: an upload adds a record an hour at most.
const renewAfter = time.Hour

// Bounds.
const (
	maxLeases    = 64 // open uploads
	maxLeasesOf  = 8  // of one person
	maxArtefacts = 10_000
	MaxSize      = 1 << 40 // of an artefact
	MaxName      = 128     // of a name, in bytes
	maxNamed     = 3       // artefacts, or users of one, that a refusal names
)

// Lease is the room of an upload that has not ended.
type Lease struct {
	Digest  string    `json:"digest"`
	Size    int64     `json:"size"`
	Name    string    `json:"name,omitempty"`
	Who     string    `json:"who,omitempty"`
	Begun   time.Time `json:"begun,omitzero"` // of the first record; zero: it is of before this was kept
	Since   time.Time `json:"since"`          // of the newest record
	Expires time.Time `json:"expires"`
}

// Artefact is a visible artefact.
type Artefact struct {
	Digest string    `json:"digest"`
	Size   int64     `json:"size"`
	Name   string    `json:"name,omitempty"`
	Who    string    `json:"who,omitempty"` // has uploaded it
	Added  time.Time `json:"added"`
	Chunks string    `json:"chunks"` // hash of the list of the SHA-256 of each MiB
}

// State is what records have made. Both maps are by digest. A digest that is in both is being uploaded again because
// its file is damaged. One goroutine owns it.
type State struct {
	Leases    map[string]Lease    `json:"leases,omitempty"`
	Artefacts map[string]Artefact `json:"artefacts,omitempty"`
}

// New returns the state of a store that nothing was ever put into.
func New() *State { return &State{Leases: map[string]Lease{}, Artefacts: map[string]Artefact{}} }

// Clone returns a copy.
func (s *State) Clone() *State {
	return &State{Leases: maps.Clone(s.Leases), Artefacts: maps.Clone(s.Artefacts)}
}

// Reserved is how many bytes are promised or in use.
func (s *State) Reserved() (n int64) {
	for _, a := range s.Artefacts {
		n += a.Size
	}
	for digest, l := range s.Leases {
		if _, again := s.Artefacts[digest]; !again {
			n += l.Size
		}
	}
	return n
}

// Event is a wish: one of the types below.
type Event interface{ event() }

// Begin asks for the room of an upload. One that is there already is renewed.
type Begin struct {
	Digest  string
	Size    int64
	Name    string // for people; may be ""
	Who     string
	Quota   int64               // bytes that the store may have
	Free    int64               // bytes that the disk has left for what has no room yet
	Damaged bool                // the file of the artefact is, so that it may be uploaded again
	Used    map[string][]string // who refers to artefacts, in words, by digest; nil: that is not known
}

// Touch says that an upload goes on.
type Touch struct{ Digest string }

// Complete says that the whole artefact is verified, flushed and at its place.
type Complete struct {
	Digest string
	Chunks string
}

// Remove asks that an artefact, or an upload, is removed.
type Remove struct {
	Digest string
	Reason string
	Used   []string // who refers to it, in words; then it stays
}

// Discard ends an upload whose content is not what it was to be, or is lost. An artefact that it was to replace stays.
type Discard struct {
	Digest string
	Reason string
}

// Expire ends an upload whose lease has expired.
type Expire struct{ Digest string }

func (Begin) event()    {}
func (Touch) event()    {}
func (Complete) event() {}
func (Remove) event()   {}
func (Discard) event()  {}
func (Expire) event()   {}

// Decision is the answer to an Event.
type Decision struct {
	Record record.Artefact // nil: nothing changes
	Err    *wire.Error     // why not; nil: granted
}

func refuse(code wire.Code, at, format string, args ...any) Decision {
	return Decision{Err: wire.New(code, at, fmt.Sprintf(format, args...))}
}

// Decide judges an event. An event of an unknown type is a bug in the caller and panics.
func (s *State) Decide(now time.Time, ev Event) Decision {
	switch ev := ev.(type) {
	case Begin:
		return s.begin(now, &ev)
	case Touch:
		l, ok := s.Leases[ev.Digest]
		if !ok {
			return noUpload(ev.Digest)
		}
		return l.touched(now)
	case Complete:
		l, ok := s.Leases[ev.Digest]
		if !ok {
			return noUpload(ev.Digest)
		}
		return Decision{Record: record.ArtefactAddedData{Digest: l.Digest, Size: l.Size, Chunks: ev.Chunks}}
	case Remove:
		return s.remove(&ev)
	case Discard:
		if _, ok := s.Leases[ev.Digest]; !ok {
			return Decision{}
		}
		return Decision{Record: record.ArtefactRemovedData{Digest: ev.Digest, Reason: ev.Reason, Upload: true}}
	case Expire:
		l, ok := s.Leases[ev.Digest]
		if !ok || now.Before(l.Expires) {
			return Decision{}
		}
		return Decision{Record: record.ArtefactRemovedData{Digest: ev.Digest, Upload: true,
			Reason: fmt.Sprintf("the upload was idle for %.0f hours", LeaseLife.Hours())}}
	}
	panic("artefact: unknown event")
}

func noUpload(digest string) Decision {
	return refuse(wire.CodeNotFound, "", "there is no upload of %.80s: begin it", digest)
}

// touched renews a lease that was not renewed just now.
func (l *Lease) touched(now time.Time) Decision {
	if now.Sub(l.Since) < renewAfter && now.Before(l.Expires) && !now.Before(l.Since) {
		return Decision{}
	}
	return Decision{Record: l.renewed(now)}
}

func (l *Lease) renewed(now time.Time) record.Artefact {
	return record.ArtefactLeasedData{Digest: l.Digest, Size: l.Size, Name: l.Name,
		Expires: now.Add(LeaseLife).UTC().Truncate(time.Second)}
}

func (s *State) begin(now time.Time, ev *Begin) Decision {
	if err := judge(ev); err != nil {
		return Decision{Err: err}
	}
	a, there := s.Artefacts[ev.Digest]
	switch {
	case there && a.Size != ev.Size:
		return refuse(wire.CodeBadValue, "/size", "the content of %s has %d bytes, not %d", ev.Digest, a.Size, ev.Size)
	case there && !ev.Damaged:
		return Decision{}
	}
	if l, ok := s.Leases[ev.Digest]; ok {
		if l.Size != ev.Size {
			return refuse(wire.CodeBadValue, "/size", "the upload of %s that is open is of %d bytes, not %d; end it "+
				"with: tandem artefact remove %s", ev.Digest, l.Size, ev.Size, ev.Digest)
		}
		return l.touched(now)
	}
	if err := s.room(ev, there); err != nil {
		return Decision{Err: err}
	}
	l := Lease{Digest: ev.Digest, Size: ev.Size, Name: ev.Name}
	return Decision{Record: l.renewed(now)}
}

// judge returns what is wrong with what is to be uploaded.
func judge(ev *Begin) *wire.Error {
	switch {
	case !wire.ValidHash(ev.Digest):
		return wire.New(wire.CodeBadValue, "/digest", "not sha256: and 64 lower-case hex digits")
	case ev.Size < 0 || ev.Size > MaxSize:
		return wire.New(wire.CodeBadValue, "/size", fmt.Sprintf("from 0 to %d bytes", int64(MaxSize)))
	case len(ev.Name) > MaxName || wire.Plain(ev.Name, MaxName) != ev.Name:
		return wire.New(wire.CodeBadValue, "/name", fmt.Sprintf("a text of at most %d bytes without control characters",
			MaxName))
	}
	return nil
}

// room returns why a new upload has no room; nil: it has. again: it takes the place of a damaged artefact.
func (s *State) room(ev *Begin, again bool) *wire.Error {
	mine := 0
	for _, l := range s.Leases {
		if l.Who == ev.Who {
			mine++
		}
	}
	switch {
	case len(s.Leases) >= maxLeases || mine >= maxLeasesOf:
		return wire.New(wire.CodeUnavailable, "", fmt.Sprintf("too many uploads are open, %d of %q and %d in all: "+
			"finish one, or end it with: tandem artefact remove DIGEST", mine, ev.Who, len(s.Leases)))
	case len(s.Artefacts)+len(s.Leases) >= maxArtefacts:
		return wire.New(wire.CodeStorage, "", fmt.Sprintf("the store has %d artefacts, and takes no more",
			maxArtefacts))
	}
	if left := ev.Quota - s.Reserved(); !again && ev.Size > left {
		return wire.New(wire.CodeStorage, "", fmt.Sprintf("%d bytes do not fit: %d of the %d that the store may have "+
			"(--artefact-quota) are free%s", ev.Size, max(left, 0), ev.Quota, s.couldGo(ev.Used)))
	}
	if ev.Size > ev.Free {
		return wire.New(wire.CodeStorage, "", fmt.Sprintf("%d bytes do not fit: the disk has %d to give "+
			"(--artefact-keep-free)%s", ev.Size, max(ev.Free, 0), s.couldGo(ev.Used)))
	}
	return nil
}

// couldGo names what would free room: the largest artefacts that nothing refers to.
func (s *State) couldGo(used map[string][]string) string {
	if used == nil || len(s.Artefacts) == 0 {
		return ""
	}
	var all []Artefact
	for digest, a := range s.Artefacts {
		if len(used[digest]) == 0 && a.Size > 0 {
			all = append(all, a)
		}
	}
	if len(all) == 0 {
		return "; every artefact is in use"
	}
	slices.SortFunc(all, func(a, b Artefact) int {
		return cmp.Or(cmp.Compare(b.Size, a.Size), cmp.Compare(a.Digest, b.Digest))
	})
	var words []string
	for _, a := range all[:min(len(all), maxNamed)] {
		words = append(words, fmt.Sprintf("tandem artefact remove %s (%s%d bytes)", a.Digest, named(a.Name), a.Size))
	}
	return "; not in use: " + strings.Join(words, ", ")
}

func named(name string) string {
	if name == "" {
		return ""
	}
	return name + ", "
}

func (s *State) remove(ev *Remove) Decision {
	_, there := s.Artefacts[ev.Digest]
	_, open := s.Leases[ev.Digest]
	switch {
	case !there && !open:
		return refuse(wire.CodeNotFound, "", "the store has no artefact %.80s", ev.Digest)
	case there && len(ev.Used) > 0:
		return refuse(wire.CodeWrongState, "", "%s is in use: %s", ev.Digest, few(ev.Used))
	}
	return Decision{Record: record.ArtefactRemovedData{Digest: ev.Digest, Reason: ev.Reason, Upload: !there}}
}

// few names the first of many.
func few(all []string) string {
	text := strings.Join(all[:min(len(all), maxNamed)], ", ")
	if more := len(all) - maxNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Check returns why a record cannot have been written by Decide; nil: it can.
func Check(data record.Artefact) error {
	digest, size := "", int64(0)
	switch d := data.(type) {
	case record.ArtefactLeasedData:
		digest, size = d.Digest, d.Size
	case record.ArtefactAddedData:
		digest, size = d.Digest, d.Size
		if !wire.ValidHash(d.Chunks) {
			return fmt.Errorf("%.80q is not the hash of a list of chunks", d.Chunks)
		}
	case record.ArtefactRemovedData:
		digest = d.Digest
	}
	if !wire.ValidHash(digest) || size < 0 || size > MaxSize {
		return fmt.Errorf("%.80q of %d bytes is no artefact", digest, size)
	}
	return nil
}

// Apply changes the state as a record says.
func (s *State) Apply(at time.Time, who string, data record.Artefact) {
	switch d := data.(type) {
	case record.ArtefactLeasedData:
		begun := at
		if old, renewed := s.Leases[d.Digest]; renewed {
			who, begun = cmp.Or(old.Who, who), old.Begun // a lease is renewed by the controller, too
		}
		s.Leases[d.Digest] = Lease{Digest: d.Digest, Size: d.Size, Name: d.Name, Who: who, Begun: begun, Since: at,
			Expires: d.Expires}
	case record.ArtefactAddedData:
		l := s.Leases[d.Digest]
		delete(s.Leases, d.Digest)
		s.Artefacts[d.Digest] = Artefact{Digest: d.Digest, Size: d.Size, Name: l.Name, Who: cmp.Or(l.Who, who),
			Added: at, Chunks: d.Chunks}
	case record.ArtefactRemovedData:
		delete(s.Leases, d.Digest)
		if !d.Upload {
			delete(s.Artefacts, d.Digest)
		}
	}
}

// Opened caps the leases at the start of the controller: where its clock was set back, none lasts longer than it was
// to.
func (s *State) Opened(now time.Time) {
	for digest, l := range s.Leases {
		if l.Expires.Sub(now) > LeaseLife {
			l.Expires = now.Add(LeaseLife)
			s.Leases[digest] = l
		}
	}
}
