// Package notify decides what receivers outside of the unit (webhooks) are told of what the journal has, when, and what
// becomes of it: which entries a receiver wants, in the journal's order; how far it has come; when something is tried
// again; and what is left out during an announced maintenance (ADR 087). Package deliver does what it decides.
//
// It guarantees that
//   - each entry that a receiver wants is sent until the receiver has answered with success, and none after it before;
//   - what is sent again has the same ID and the same content;
//   - what cannot be sent any more, because the journal has it no more, is told instead of passed over;
//   - of a receiver at most MaxQueue messages of MaxBody bytes are in memory: the journal is the queue.
//
//tandem:pure
package notify

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/shared/imds"
	"tandem.internal/shared/wire"
)

// Bounds.
const (
	MaxReceivers = 16       // of a unit
	maxURL       = 2048     // bytes of an address
	maxCA        = 16 << 10 // bytes of a CA's certificates
)

// Receiver is somebody who is told.
type Receiver struct {
	Name     string    `json:"name"`
	URL      string    `json:"url"` // where to; its path and query may be secret
	Filter   Filter    `json:"filter"`
	CA       string    `json:"ca,omitempty"`      // PEM: who vouches for it; "": the system's authorities
	Insecure bool      `json:"insecure,omitzero"` // http to another machine was said to be meant
	Always   bool      `json:"always,omitzero"`   // also during an announced maintenance
	Secret   Secret    `json:"-"`                 // what its messages are signed with
	ID       string    `json:"id"`                // of this registration: a later one of the same name is another
	Created  time.Time `json:"created"`           // by the controller's clock
	By       string    `json:"by,omitempty"`      // who made it
}

// Origin is the part of the address that may be shown: scheme, host and port.
func (r *Receiver) Origin() string {
	u, err := url.Parse(r.URL)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// Check reports why there can be no such receiver; the error's path is that of the field in the API.
func (r *Receiver) Check() *wire.Error {
	if !wire.ValidName(r.Name) {
		return wire.New(wire.CodeBadValue, "/name", fmt.Sprintf("%.80q cannot name a receiver: letters, digits, and . "+
			"_ - after the first, at most 63", r.Name))
	}
	if err := r.checkURL(); err != nil {
		return err
	}
	if len(r.CA) > maxCA {
		return wire.New(wire.CodeTooLarge, "/ca", fmt.Sprintf("at most %d bytes of certificates", maxCA))
	}
	return r.Filter.Check()
}

func (r *Receiver) checkURL() *wire.Error {
	bad := func(text string) *wire.Error { return wire.New(wire.CodeBadValue, "/url", text) }
	u, err := url.Parse(r.URL)
	switch {
	case len(r.URL) > maxURL:
		return wire.New(wire.CodeTooLarge, "/url", fmt.Sprintf("at most %d bytes", maxURL))
	case err != nil, u.Hostname() == "":
		return bad("an address such as https://hooks.example.com/tandem is expected") // never echoed: it may be secret
	case u.User != nil:
		return bad("it has a user name or password: what is sent is signed instead")
	case u.Fragment != "":
		return bad("it has a fragment, which would never be sent")
	case nowhere(u.Hostname()):
		return bad("it is " + NoReceiverIs)
	case u.Scheme == "https":
		return nil
	case u.Scheme != "http":
		return bad("it begins with neither https:// nor http://")
	case r.CA != "":
		return bad("it begins with http://, and a CA vouches for https only")
	case !Loopback(u.Hostname()) && !r.Insecure:
		return bad("without TLS, whoever is on the way can read what is sent to another machine: use https, " +
			"or say that http is meant (tandem notify add --insecure-http)")
	}
	return nil
}

// NoReceiverIs says what the addresses are of which NoReceiver is true.
const NoReceiverIs = "link-local, multicast, unspecified or a cloud's metadata, where no receiver is"

// NoReceiver reports whether an address is no other host's, or that of the metadata of clouds.
func NoReceiver(ip netip.Addr) bool {
	ip = imds.Behind(ip)
	return ip.IsUnspecified() || ip.IsMulticast() || ip.IsLinkLocalUnicast() || imds.Serves(ip)
}

// nowhere reports whether a host is such an address.
func nowhere(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && NoReceiver(ip)
}

// Loopback reports whether a host is this machine, as its name or address says.
func Loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// Secret is the key of signatures.
type Secret [32]byte

const secretPrefix = "whsec_" // of its text, as Standard Webhooks has it; base64 follows

// Text is the secret, for its receiver and for the file.
func (s Secret) Text() string { return secretPrefix + base64.StdEncoding.EncodeToString(s[:]) }

// String does not show the secret, whatever prints it.
func (Secret) String() string { return hidden }

// Format does not show the secret, whatever the verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, hidden) }

// MarshalText does not show the secret in JSON or a log either.
func (Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

const hidden = "(secret)"

// ParseSecret reads the text of a secret, which is in none of its errors.
func ParseSecret(text string) (s Secret, err error) {
	digits, ok := strings.CutPrefix(text, secretPrefix)
	b, err := base64.StdEncoding.DecodeString(digits)
	if !ok || err != nil || len(b) != len(s) {
		return s, errors.New("a secret is whsec_ and base64 of 32 bytes")
	}
	return Secret(b), nil
}

// Set is all receivers, sorted by name. It is immutable: With and Without return another one.
type Set []Receiver

// Check reports why a receiver cannot be added; the error is a *wire.Error.
func (s Set) Check(r *Receiver) error {
	if err := r.Check(); err != nil {
		return err
	}
	switch {
	case s.Find(r.Name) != nil:
		return wire.New(wire.CodeAlreadyExists, "/name", "there is a receiver "+r.Name+" already; remove it first, or "+
			"choose another name")
	case len(s) >= MaxReceivers:
		return wire.New(wire.CodeTooLarge, "", fmt.Sprintf("there are %d receivers already; have one pass on to others",
			MaxReceivers))
	}
	return nil
}

// Find returns the receiver of a name, nil if there is none.
func (s Set) Find(name string) *Receiver {
	i := slices.IndexFunc(s, func(r Receiver) bool { return r.Name == name })
	if i < 0 {
		return nil
	}
	return &s[i]
}

// With returns the set with one more receiver, for which Check has returned nil.
func (s Set) With(r Receiver) Set {
	all := append(slices.Clone(s), r)
	slices.SortFunc(all, func(a, b Receiver) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Without returns the set without a receiver.
func (s Set) Without(name string) Set {
	return slices.DeleteFunc(slices.Clone(s), func(r Receiver) bool { return r.Name == name })
}

// format is the version of the files. Every other version is refused.
const format = 1

type file struct {
	Format    int      `json:"format"`
	Sum       string   `json:"sum"` // SHA-256 of the receivers without white space, hexadecimal
	Receivers []stored `json:"receivers"`
}

// stored is a receiver with its secret.
type stored struct {
	Receiver
	Key string `json:"secret"`
}

func (s Set) stored() []stored {
	all := make([]stored, len(s))
	for i, r := range s {
		all[i] = stored{r, r.Secret.Text()}
	}
	return all
}

func sum(all []stored) string {
	h := sha256.Sum256(marshal(all))
	return hex.EncodeToString(h[:])
}

func marshal(v any, options ...json.Options) []byte {
	b, err := json.Marshal(v, append(options, json.Deterministic(true))...)
	if err != nil {
		panic("notify: cannot encode: " + err.Error()) // only our own types come here
	}
	return b
}

// Encode writes the set as its file, secrets included.
func (s Set) Encode() []byte {
	all := s.stored()
	return append(marshal(file{Format: format, Sum: sum(all), Receivers: all}, jsontext.WithIndent(" ")), '\n')
}

// Decode reads the file. It accepts only what Encode writes: a part of it would tell some and not others.
func Decode(data []byte) (s Set, err error) {
	var f file
	if err := json.Unmarshal(data, &f, json.RejectUnknownMembers(true)); err != nil {
		return nil, errors.New("it is not the JSON of receivers") // the error might have a secret
	}
	switch {
	case f.Format != format:
		return nil, fmt.Errorf("format %d; this program knows %d", f.Format, format)
	case f.Sum != sum(f.Receivers):
		return nil, errors.New("it is damaged: the receivers are not those that were written")
	}
	for _, r := range f.Receivers {
		if r.Secret, err = ParseSecret(r.Key); err != nil {
			return nil, err
		}
		if err := s.Check(&r.Receiver); err != nil {
			return nil, err
		}
		s = s.With(r.Receiver)
	}
	return s, nil
}
