package record

import (
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"tandem.internal/shared/rootlist"
)

// Authority is one CA of the unit, in a state of signing keys.
type Authority struct {
	CA        string    `json:"ca"` // fingerprint, "sha256:" and 64 hexadecimal digits
	State     string    `json:"state"`
	Announced time.Time `json:"announced,omitzero"` // zero: it is the unit's first
	Since     time.Time `json:"since"`              // of the state
	Who       string    `json:"who,omitempty"`
}

// idDigits is the length of an ID of a CA: the beginning of its fingerprint.
const idDigits = 16

// ID is the beginning of the fingerprint, by which people call it.
func (a Authority) ID() string { return CAID(a.CA) }

// CAID is the ID of the CA with a fingerprint; "" of what is no fingerprint.
func CAID(fingerprint string) string {
	digits, ok := strings.CutPrefix(fingerprint, "sha256:")
	if b, err := hex.DecodeString(digits); !ok || err != nil || len(b) != 32 {
		return ""
	}
	return digits[:idDigits]
}

// Authorities are the unit's CAs that count. The zero Authorities is a unit whose first CA was never rotated: the shell
// knows which one that is.
type Authorities struct {
	Rev     uint64      `json:"rev,omitzero"` // number of the list, as nodes are told it
	List    []Authority `json:"list,omitempty"`
	Retired []string    `json:"retired,omitempty"` // fingerprints of the newest ones, the newest last
}

// MaxAuthorities bounds the list.
const MaxAuthorities = 4

// Signs returns the CA that signs, nil without a list.
func (c Authorities) Signs() *Authority {
	for i := range c.List {
		if c.List[i].State == KeySigning {
			return &c.List[i]
		}
	}
	return nil
}

// Find returns the CA with an ID, nil if it is not there.
func (c Authorities) Find(id string) *Authority {
	for i := range c.List {
		if c.List[i].ID() == id {
			return &c.List[i]
		}
	}
	return nil
}

// Next returns the CA that was announced, nil if there is none.
func (c Authorities) Next() *Authority {
	if n := len(c.List); n > 0 && c.List[n-1].State == KeyAnnounced {
		return &c.List[n-1]
	}
	return nil
}

// Check refuses a list that the controller cannot have written.
func (c Authorities) Check() error {
	signing := 0
	for i, a := range c.List {
		if a.ID() == "" || c.Find(a.ID()) != &c.List[i] {
			return fmt.Errorf("%.80q of the list is not the fingerprint of a CA, or there twice", a.CA)
		}
		switch a.State {
		case KeySigning:
			signing++
		case KeyAnnounced, KeyLeaving:
		default:
			return fmt.Errorf("the CA %s is in the state %.80q", a.ID(), a.State)
		}
	}
	if signing != 1 || len(c.List) > MaxAuthorities {
		return fmt.Errorf("%d of %d CAs sign", signing, len(c.List))
	}
	return nil
}

// CAData is the data of CA records: the whole list as it is from then on, and what was done.
type CAData struct {
	Did     KeyStep     `json:"did"`
	CA      string      `json:"ca"` // fingerprint
	Forced  bool        `json:"forced,omitzero"`
	Missing []string    `json:"missing,omitempty"` // with Forced: who was in the way, the first ones
	CAs     Authorities `json:"cas"`
}

// RootData is the data of Root records: the whole chain of lists as the join door answers it from then on.
type RootData struct {
	Number uint64            `json:"number"` // of the newest list
	By     string            `json:"by"`     // ID of the root key that has signed it
	Lists  []rootlist.Signed `json:"lists"`
}

// Check refuses a chain that the controller cannot have written.
func (d RootData) Check() error {
	if len(d.Lists) == 0 || len(d.Lists) > rootlist.MaxLists {
		return fmt.Errorf("%d lists of CAs", len(d.Lists))
	}
	if l, err := rootlist.Parse(d.Lists[len(d.Lists)-1].List); err != nil || l.Number != d.Number {
		return fmt.Errorf("the list of CAs %d is not the newest one", d.Number)
	}
	return nil
}
