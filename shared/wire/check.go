package wire

import (
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"strconv"
	"time"

	"tandem.internal/shared/duration"
)

// Limits of lists and strings in messages. They limit the memory that a hostile sender can take at the receiver.
const (
	maxName  = 63  // bytes of unit, node, kind, method and key names
	maxKinds = 64  // kinds in live.seqs
	maxList  = 256 // elements of any other list: keys of a beacon, errors, partitions, attributes
)

// check returns the first violation of a rule of the contract that goes beyond field names and types, as an *Error. A
// string that a signature covers must have no control characters, so that no two messages have the same preimage
// (package seal).
func check(m any) error {
	switch m := m.(type) {
	case *Desired:
		return m.check()
	case *Reported:
		return m.check()
	case *Live:
		if err := first(version(m.V), name("/node", m.Node), text("/boot", m.Boot),
			positive("/session", m.Session), plain("/asks", m.Asks)); err != nil {
			return err
		}
		return m.checkSeqs()
	case *Event:
		return first(version(m.V), name("/node", m.Node), text("/boot", m.Boot), positive("/seq", m.Seq),
			instant("/at", m.At), text("/type", m.Type), bounded("/error", m.Error))
	case *Request:
		return first(version(m.V), name("/unit", m.Unit), name("/node", m.Node), text("/id", m.ID),
			name("/method", string(m.Method)), instant("/notAfter", m.NotAfter), key(m.Sig))
	case *Reply:
		if m.Error != nil && presentRaw("/result", m.Result) == nil {
			return New(CodeBadValue, "/result", "goes without an error")
		}
		return first(version(m.V), name("/node", m.Node), text("/id", m.ID), bounded("/error", m.Error))
	case *Beacon:
		return m.check()
	case *Submission:
		return m.check()
	case *Answer:
		if m.State != "" && m.State != "accepted" && m.State != "refused" {
			return New(CodeBadValue, "/state", "neither accepted nor refused")
		}
		return first(version(m.V), text("/id", m.ID), plain("/version", m.Version), text("/state", m.State),
			bounded("/error", m.Error), plain("/of", m.Of), key(m.Sig))
	case *UnitStatus:
		return first(version(m.V), text("/state", m.State), plain("/version", m.Version), bounded("/error", m.Error),
			m.Part.check(), key(m.Sig))
	case *CheckParams:
		return first(name("/kind", string(m.Kind)), text("/version", m.Version), presentRaw("/body", m.Body))
	case *CheckResult:
		return m.check()
	case *NewestParams:
		for k, s := range m.Stamps {
			if !ValidName(string(k)) || s.Epoch == 0 || s.Rev == 0 {
				return New(CodeBadValue, "/stamps", "not the place of a kind's document")
			}
		}
		return first(text("/mark", m.Mark))
	case *ShowParams:
		return first(name("/kind", string(m.Kind)))
	case *Shown:
		return m.check()
	case *ConfirmParams:
		return first(name("/kind", string(m.Kind)), positive("/epoch", m.Epoch), positive("/rev", m.Rev))
	case *NodeInfo:
		return m.check()
	case *Health:
		return m.check()
	case *RebootParams:
		return first(text("/reason", m.Reason))
	case *TryParams:
		if m.Component != "" {
			return first(name("/component", m.Component), plain("/version", m.Version))
		}
		return first(plain("/version", m.Version))
	case *ApproveParams:
		return first(text("/version", m.Version))
	case *Workloads:
		return m.check()
	case *LogsParams:
		return m.check()
	case *LogsResult:
		return first(text("/cursor", m.Cursor), plain("/hook", m.Hook))
	case *RestartParams:
		return first(name("/service", m.Service))
	case interface{ check() error }: // settings of health, policies, and the report of them
		return m.check()
	}
	return nil
}

// maxStatusParts bounds the parts of a status.
const maxStatusParts = 256

func (p *StatusPart) check() *Error {
	switch {
	case p == nil:
		return nil
	case p.Of < 1 || p.Of > maxStatusParts:
		return New(CodeBadValue, "/part/of", "not from 1 to 256")
	case p.Part < 1 || p.Part > p.Of:
		return New(CodeBadValue, "/part/part", "not one of them")
	case len(p.Data) == 0:
		return New(CodeMissing, "/part/data", "required")
	case p.Prev == 0 && !p.PrevTime.IsZero():
		return New(CodeBadValue, "/part/prevTime", "only with prev")
	case p.Prev != 0:
		return instant("/part/prevTime", p.PrevTime)
	}
	return nil
}

func (d *Desired) check() error {
	if err := first(version(d.V), name("/unit", d.Unit), name("/node", d.Node), name("/kind", string(d.Kind)),
		positive("/epoch", d.Epoch), positive("/rev", d.Rev), text("/version", d.Version), hash("/hash", d.Hash),
		instant("/issued", d.Issued), key(d.Sig)); err != nil {
		return err
	}
	if string(d.Body) == "null" { // null means absent, as for every field
		d.Body = nil
	}
	switch {
	case d.Mode != ModeApply && d.Mode != ModeTry:
		return New(CodeBadValue, "/mode", "neither apply nor try")
	case (len(d.Body) == 0) == (d.Ref == nil):
		return New(CodeMissing, "/body", "exactly one of body and ref is needed")
	case len(d.Body) > MaxBody:
		return New(CodeTooLarge, "/body", fmt.Sprintf("%d bytes; a body has at most %d", len(d.Body), MaxBody))
	}
	if err := confirmWithin(d.Mode, d.ConfirmWithin); err != nil {
		return err
	}
	if r := d.Ref; r != nil {
		switch {
		case r.Hash != d.Hash: // the signature covers the envelope's hash only
			return New(CodeHashMismatch, "/ref/hash", "not the hash of the envelope")
		case r.Size < 0:
			return New(CodeBadValue, "/ref/size", "below 0")
		case len(r.URL) > 2048:
			return New(CodeTooLarge, "/ref/url", "longer than 2048 bytes")
		}
		return first(present("/ref/url", r.URL))
	}
	return nil
}

func (r *Reported) check() error {
	if err := first(version(r.V), name("/node", r.Node), name("/kind", string(r.Kind)), text("/boot", r.Boot),
		positive("/seq", r.Seq)); err != nil {
		return err
	}
	if d := r.Running; d != nil {
		if err := first(positive("/running/epoch", d.Epoch), positive("/running/rev", d.Rev),
			plain("/running/version", d.Version), hash("/running/hash", d.Hash)); err != nil {
			return err
		}
	}
	if l := r.Last; l != nil {
		if !l.State.Known() {
			return New(CodeBadValue, "/last/state", "no such state")
		}
		if l.Attempt < 0 {
			return New(CodeBadValue, "/last/attempt", "below 0")
		}
		return first(positive("/last/epoch", l.Epoch), positive("/last/rev", l.Rev), plain("/last/version", l.Version),
			hash("/last/hash", l.Hash), instant("/last/at", l.At), bounded("/last/error", l.Error))
	}
	return nil
}

func (l *Live) checkSeqs() error {
	if len(l.Seqs) > maxKinds {
		return New(CodeTooLarge, "/seqs", "more than "+strconv.Itoa(maxKinds)+" kinds")
	}
	for k := range l.Seqs {
		if !ValidName(string(k)) {
			return New(CodeBadValue, "/seqs", "a kind that is no name")
		}
	}
	return nil
}

func (b *Beacon) check() error {
	if err := first(version(b.V), name("/unit", b.Unit), positive("/epoch", b.Epoch), instant("/time", b.Time),
		optional("/maintenance", b.Maintenance), key(b.Sig)); err != nil {
		return err
	}
	if b.Jitter != "" && !duration.Valid(b.Jitter) {
		return New(CodeBadValue, "/jitter", "not an ISO 8601 duration")
	}
	if len(b.Keys) > maxList {
		return New(CodeTooLarge, "/keys", "more than "+strconv.Itoa(maxList))
	}
	for i, k := range b.Keys {
		at := "/keys/" + strconv.Itoa(i)
		if err := name(at+"/kid", k.ID); err != nil {
			return err
		}
		if len(k.Ed25519) != ed25519.PublicKeySize {
			return New(CodeBadValue, at+"/ed25519", "not 32 bytes")
		}
	}
	return nil
}

func (s *Submission) check() error {
	if s.Mode != "" && s.Mode != ModeApply && s.Mode != ModeTry {
		return New(CodeBadValue, "/mode", "neither apply nor try")
	}
	if err := first(version(s.V), text("/id", s.ID), text("/from", s.From),
		presentRaw("/document", s.Document), key(s.Sig)); err != nil {
		return err
	}
	switch {
	case s.Name != "" && !ValidName(s.Name):
		return New(CodeBadValue, "/name", "no name")
	case s.Sig == nil && !s.Time.IsZero():
		return New(CodeMissing, "/sig", "a submission that has a time is signed")
	case s.Sig != nil && len(s.Sig.Path) > 0:
		return New(CodeBadValue, "/sig/path", "a submission is signed by itself")
	case s.Sig != nil:
		if err := instant("/time", s.Time); err != nil {
			return err
		}
	}
	return confirmWithin(s.Mode, s.ConfirmWithin)
}

func (r *CheckResult) check() error {
	if len(r.Errors) > maxList {
		return New(CodeTooLarge, "/errors", "more than "+strconv.Itoa(maxList))
	}
	for i, e := range r.Errors {
		at := "/errors/" + strconv.Itoa(i)
		if e == nil {
			return New(CodeBadValue, at, "an error is an object")
		}
		if err := bounded(at, e); err != nil {
			return err
		}
	}
	return nil
}

// ValidName reports whether s can be the name of a unit, node, kind, method or key, and part of a topic:
// [A-Za-z0-9][A-Za-z0-9._-]{0,62}.
func ValidName(s string) bool {
	if len(s) == 0 || len(s) > maxName {
		return false
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case i > 0 && (c == '.' || c == '_' || c == '-'):
		default:
			return false
		}
	}
	return true
}

// first returns the first of errs that is not nil; a nil error if all are nil.
func first(errs ...*Error) error {
	for _, e := range errs {
		if e != nil {
			return e
		}
	}
	return nil
}

// version returns an error unless v is Version.
func version(v int) *Error {
	switch v {
	case Version:
		return nil
	case 0:
		return New(CodeMissing, "/v", "required")
	}
	return New(CodeWrongVersion, "/v", fmt.Sprintf("wire version %d; this side speaks %d", v, Version))
}

// present returns an error if s is empty.
func present(path, s string) *Error {
	if s == "" {
		return New(CodeMissing, path, "required")
	}
	return nil
}

// presentRaw returns an error if a raw field is absent or null.
func presentRaw(path string, raw []byte) *Error {
	if len(raw) == 0 || string(raw) == "null" {
		return New(CodeMissing, path, "required")
	}
	return nil
}

// name returns an error unless ValidName accepts s.
func name(path, s string) *Error {
	if ValidName(s) {
		return nil
	}
	if s == "" {
		return New(CodeMissing, path, "required")
	}
	return New(CodeBadValue, path, "not a name: letters, digits and ._- after the first, at most 63")
}

// positive returns an error if the number is 0.
func positive(path string, n uint64) *Error {
	if n == 0 {
		return New(CodeMissing, path, "required, from 1")
	}
	return nil
}

// instant returns an error unless RFC 3339 can express the time in UTC.
func instant(path string, t time.Time) *Error {
	if t.IsZero() {
		return New(CodeMissing, path, "required")
	}
	if y := t.UTC().Year(); y < 0 || y > 9999 {
		return New(CodeBadValue, path, "not within the years 0 to 9999 of UTC")
	}
	return nil
}

// hash returns an error unless s has the form of what Hash returns.
func hash(path, h string) *Error {
	if len(h) == len(HashPrefix)+2*sha256.Size && h[:len(HashPrefix)] == HashPrefix {
		for i := len(HashPrefix); i < len(h); i++ {
			if c := h[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
				return New(CodeBadValue, path, "not sha256: and 64 lower-case hex digits")
			}
		}
		return nil
	}
	if h == "" {
		return New(CodeMissing, path, "required")
	}
	return New(CodeBadValue, path, "not sha256: and 64 lower-case hex digits")
}

// ValidHash reports whether s has the form of what Hash returns.
func ValidHash(s string) bool { return hash("", s) == nil }

// key checks the ID of the signing key. It does not verify the signature; package seal does.
func key(s *Signature) *Error {
	if s == nil {
		return nil
	}
	return plain("/sig/kid", s.KeyID)
}

// bounded returns an error if e exceeds the limits of the contract; nil does not.
func bounded(path string, e *Error) *Error {
	switch {
	case e == nil:
		return nil
	case e.Code == "":
		return New(CodeMissing, path+"/code", "required")
	case len(e.Message) > MaxMessage || len(e.Path) > MaxPath || len(e.Code) > 64 || len(e.Node) > maxName:
		return New(CodeTooLarge, path, fmt.Sprintf("a message has at most %d bytes, a path %d", MaxMessage, MaxPath))
	}
	return nil
}

// confirmWithin returns an error unless there is a duration with ModeTry, and none with another mode.
func confirmWithin(m Mode, d string) error {
	if (m == ModeTry) != (d != "") {
		return New(CodeBadValue, "/confirmWithin", "goes with mode try, and only with it")
	}
	if d != "" && !duration.Valid(d) {
		return New(CodeBadValue, "/confirmWithin", "not an ISO 8601 duration")
	}
	return nil
}
