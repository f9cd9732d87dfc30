package fleet

import (
	"bytes"
	"encoding/base64"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/shared/wire"
)

// Ten thousand nodes on the cores of one machine would spend most of their time in the general
// decoder, on bodies that are the same for thousands. What the controller writes has one form, so
// that form is read here: the same fields, with the same strictness. Whatever differs in one byte
// goes to wire.Decode, and so does the first message with a body or params not seen before.

// seen remembers raw values that wire.Decode has accepted once.
type seen struct {
	mu  sync.RWMutex
	all map[string]struct{}
}

const maxSeen = 1 << 10

func (s *seen) has(raw []byte) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	_, ok := s.all[string(raw)]
	return ok
}

func (s *seen) add(raw []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil || len(s.all) >= maxSeen {
		s.all = map[string]struct{}{}
	}
	s.all[string(raw)] = struct{}{}
}

// reader cuts a message into pieces; bad is set at the first that is not as it should be.
type reader struct {
	s   []byte
	bad bool
}

func (r *reader) want(literal string) {
	if r.bad || len(r.s) < len(literal) || string(r.s[:len(literal)]) != literal {
		r.bad = true
		return
	}
	r.s = r.s[len(literal):]
}

// text reads to the closing quote, which it leaves; only what needs no escape and no look at
// UTF-8.
func (r *reader) text() []byte {
	if r.bad {
		return nil
	}
	for i, c := range r.s {
		if c == '"' {
			t := r.s[:i]
			r.s = r.s[i:]
			return t
		}
		if c < ' ' || c >= 0x7f || c == '\\' {
			break
		}
	}
	r.bad = true
	return nil
}

func (r *reader) number() uint64 {
	n := 0
	for n < len(r.s) && n < 19 && r.s[n] >= '0' && r.s[n] <= '9' {
		n++
	}
	if r.bad || n == 0 || r.s[0] == '0' {
		r.bad = true
		return 0
	}
	v, err := strconv.ParseUint(string(r.s[:n]), 10, 64)
	r.bad = err != nil
	r.s = r.s[n:]
	return v
}

func (r *reader) bytes() []byte {
	t := r.text()
	b, err := base64.StdEncoding.Strict().AppendDecode(make([]byte, 0, len(t)*3/4), t)
	if err != nil {
		r.bad = true
	}
	return b
}

func (r *reader) instant() time.Time {
	t, err := time.Parse(time.RFC3339Nano, string(r.text()))
	if err != nil || t.IsZero() {
		r.bad = true
	}
	return t
}

// signature reads a sig member to the end of its object.
func (r *reader) signature() *wire.Signature {
	s := &wire.Signature{}
	r.want(`{"kid":"`)
	s.KeyID = string(r.text())
	r.want(`","ed25519":"`)
	s.Ed25519 = r.bytes()
	if bytes.HasPrefix(r.s, []byte(`","path":"`)) {
		r.want(`","path":"`)
		s.Path = r.bytes()
	}
	r.want(`"}`)
	return s
}

// maxText is wire's bound on versions and IDs.
const maxText = 256

// desired decodes a document for this node.
func (n *node) desired(payload []byte) (*wire.Desired, error) {
	if d := n.shortDesired(payload); d != nil {
		return d, nil
	}
	d, err := wire.Decode[wire.Desired](payload)
	if err == nil && d.Body != nil {
		n.f.bodies.add(d.Body)
	}
	return d, err
}

// shortDesired returns nil unless all is as the controller writes it.
func (n *node) shortDesired(payload []byte) *wire.Desired {
	d := wire.Desired{V: wire.Version, Unit: n.f.cfg.Unit, Node: n.name, Kind: wire.KindConfig, Mode: wire.ModeApply}
	r := reader{s: payload}
	r.want(`{"v":1,"unit":"`)
	r.want(n.f.cfg.Unit)
	r.want(`","node":"`)
	r.want(n.name)
	r.want(`","kind":"config","epoch":`)
	d.Epoch = r.number()
	r.want(`,"rev":`)
	d.Rev = r.number()
	r.want(`,"version":"`)
	version := r.text()
	r.want(`","hash":"`)
	hash := r.text()
	r.want(`","issued":"`)
	d.Issued = r.instant()
	r.want(`","mode":"apply","body":`)
	if at := bytes.LastIndex(r.s, []byte(`,"sig":{`)); at >= 0 && !r.bad && n.f.bodies.has(r.s[:at]) {
		d.Body = jsontext.Value(r.s[:at])
		r.s = r.s[at+len(`,"sig":`):]
		d.Sig = r.signature()
		r.want(`}`)
		if !r.bad && len(r.s) == 0 && len(version) > 0 && len(version) <= maxText && len(d.Sig.KeyID) <= maxText {
			if known := wire.Hash(d.Body); known == string(hash) { // else let wire.Decode judge its form
				d.Version, d.Hash = n.f.intern(string(version)), known
				return &d
			}
		}
	}
	return nil
}

// question decodes a request to this node.
func (n *node) question(payload []byte) (*wire.Request, error) {
	if q := n.shortRequest(payload); q != nil {
		return q, nil
	}
	return wire.Decode[wire.Request](payload)
}

func (n *node) shortRequest(payload []byte) *wire.Request {
	q := wire.Request{V: wire.Version, Unit: n.f.cfg.Unit, Node: n.name, Method: wire.MethodCheck}
	r := reader{s: payload}
	r.want(`{"v":1,"unit":"`)
	r.want(n.f.cfg.Unit)
	r.want(`","node":"`)
	r.want(n.name)
	r.want(`","id":"`)
	id := r.text()
	r.want(`","method":"check","notAfter":"`)
	q.NotAfter = r.instant()
	r.want(`","sig":`)
	q.Sig = r.signature()
	r.want(`,"params":`)
	if !r.bad && len(r.s) > 0 && len(id) > 0 && len(id) <= maxText && len(q.Sig.KeyID) <= maxText {
		if params := r.s[:len(r.s)-1]; r.s[len(params)] == '}' && n.f.params.has(params) {
			q.ID, q.Params = string(id), jsontext.Value(params)
			return &q
		}
	}
	return nil
}

// appendReport writes a report on the configuration as wire.Encode does; only one without an error.
func appendReport(b []byte, r *wire.Reported) []byte {
	b = append(b, `{"v":1,"node":"`...)
	b = append(b, r.Node...)
	b = append(b, `","kind":"config","boot":"`...)
	b = append(b, r.Boot...)
	b = append(b, `","seq":`...)
	b = strconv.AppendUint(b, r.Seq, 10)
	stamp := func(name string, epoch, rev uint64, version, hash string) {
		b = append(b, `,"`...)
		b = append(b, name...)
		b = append(b, `":{"epoch":`...)
		b = strconv.AppendUint(b, epoch, 10)
		b = append(b, `,"rev":`...)
		b = strconv.AppendUint(b, rev, 10)
		b = append(b, `,"version":"`...)
		b = append(b, version...)
		b = append(b, `","hash":"`...)
		b = append(b, hash...)
	}
	if d := r.Running; d != nil {
		stamp("running", d.Epoch, d.Rev, d.Version, d.Hash)
		b = append(b, `"}`...)
	}
	if l := r.Last; l != nil {
		stamp("last", l.Epoch, l.Rev, l.Version, l.Hash)
		b = append(b, `","state":"`...)
		b = append(b, l.State...)
		b = append(b, `","attempt":`...)
		b = strconv.AppendInt(b, int64(l.Attempt), 10)
		b = append(b, `,"at":"`...)
		b = l.At.AppendFormat(b, time.RFC3339Nano)
		b = append(b, `"}`...)
	}
	return append(b, '}')
}
