package record

import (
	"time"

	"tandem.internal/shared/wire"
)

// Enrolment is the data of a record about who belongs to the unit. Type is the type of its record.
type Enrolment interface{ Type() Type }

// EnrolData says that a token was made.
type EnrolData struct {
	Subject string    `json:"subject"`
	Hash    string    `json:"hash"`
	Expires time.Time `json:"expires"`
	// Node type of who joins with it, the only one that it may report; "": any
	NodeType string `json:"nodeType,omitempty"`
}

// JoinedData says that a subject has a key certified: with a token, or without one by order of an
// administrator. Whatever counted before does not any more.
type JoinedData struct {
	Subject  string    `json:"subject"`
	Token    string    `json:"token,omitempty"` // hash of its secret
	Serial   string    `json:"serial"`
	Key      string    `json:"key"`
	Expires  time.Time `json:"expires"`
	CA       string    `json:"ca"`
	From     string    `json:"from,omitempty"`
	Again    bool      `json:"again,omitempty"` // the same key: the first answer was lost
	Replaced []string  `json:"replaced,omitempty"`
	Batch    string    `json:"batch,omitempty"` // name of the batch whose secret the token is
	// of a certificate that the journal did not have, see enrol.TakeOver; zero: it was issued here
	NotBefore time.Time `json:"notBefore,omitzero"`
}

// RenewedData says that a subject has a new certificate. That and the one it was asked for with count.
type RenewedData struct {
	Subject string    `json:"subject"`
	Old     string    `json:"old"` // "": nothing that it had counts any more, see enrol.TakeOver
	Serial  string    `json:"serial"`
	Key     string    `json:"key"`
	Expires time.Time `json:"expires"`
	CA      string    `json:"ca"`
	From    string    `json:"from,omitempty"`
	// as in JoinedData
	NotBefore time.Time `json:"notBefore,omitzero"`
}

// RevokedData says that nothing of a subject counts any more, tokens included.
type RevokedData struct {
	Subject string   `json:"subject"`
	Reason  string   `json:"reason,omitempty"`
	Serials []string `json:"serials,omitempty"`
}

// TokenWithdrawnData says that the open tokens of a subject are withdrawn. Its certificates count as before.
type TokenWithdrawnData struct {
	Subject string `json:"subject"`
	Reason  string `json:"reason,omitempty"`
}

// ProvesData says that a node has proved a message with its report key.
type ProvesData struct {
	Subject string `json:"subject"`
}

// JoinRefusedData says that somebody was not let in. It changes nothing.
type JoinRefusedData struct {
	Subject string      `json:"subject"` // as claimed
	From    string      `json:"from,omitempty"`
	Error   *wire.Error `json:"error"`
	Count   int         `json:"count"` // how many it stands for
}

// Type is the type of the record.
func (EnrolData) Type() Type       { return Enrol }
func (JoinedData) Type() Type      { return Joined }      // Type is the type of the record.
func (RenewedData) Type() Type     { return Renewed }     // Type is the type of the record.
func (RevokedData) Type() Type     { return Revoked }     // Type is the type of the record.
func (JoinRefusedData) Type() Type { return JoinRefused } // Type is the type of the record.
func (ProvesData) Type() Type      { return Proves }      // Type is the type of the record.

// Type is the type of the record.
func (TokenWithdrawnData) Type() Type { return TokenWithdrawn }
