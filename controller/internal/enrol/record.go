package enrol

import (
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/wire"
)

// Data is what a record of this package carries. Name is the record's type.
type Data interface{ Name() string }

// Issued says that a token was made.
type Issued struct {
	Subject string    `json:"subject"`
	Hash    string    `json:"hash"`
	Expires time.Time `json:"expires"`
}

// Joined says that a subject has a key certified: with a token, or without one by order of an
// administrator. Whatever counted before does not any more.
type Joined struct {
	Subject  string    `json:"subject"`
	Token    string    `json:"token,omitempty"` // hash of its secret
	Serial   string    `json:"serial"`
	Key      string    `json:"key"`
	Expires  time.Time `json:"expires"`
	CA       string    `json:"ca"`
	From     string    `json:"from,omitempty"`
	Again    bool      `json:"again,omitempty"` // the same key: the first answer was lost
	Replaced []string  `json:"replaced,omitempty"`
}

// Renewed says that a subject has a new certificate. That and the one it was asked for with count.
type Renewed struct {
	Subject string    `json:"subject"`
	Old     string    `json:"old"`
	Serial  string    `json:"serial"`
	Key     string    `json:"key"`
	Expires time.Time `json:"expires"`
	CA      string    `json:"ca"`
	From    string    `json:"from,omitempty"`
}

// Revoked says that nothing of a subject counts any more, tokens included.
type Revoked struct {
	Subject string   `json:"subject"`
	Reason  string   `json:"reason,omitempty"`
	Serials []string `json:"serials,omitempty"`
}

// Refused says that somebody was not let in. It changes nothing.
type Refused struct {
	Subject string      `json:"subject"` // as claimed
	From    string      `json:"from,omitempty"`
	Error   *wire.Error `json:"error"`
	Count   int         `json:"count"` // how many it stands for
}

// The names of the records.
const (
	NameIssued  = "enrol"
	NameJoined  = "joined"
	NameRenewed = "renewed"
	NameRevoked = "revoked"
	NameRefused = "join-refused"
)

// Name is the record's type.
func (Issued) Name() string  { return NameIssued }
func (Joined) Name() string  { return NameJoined }  // Name is the record's type.
func (Renewed) Name() string { return NameRenewed } // Name is the record's type.
func (Revoked) Name() string { return NameRevoked } // Name is the record's type.
func (Refused) Name() string { return NameRefused } // Name is the record's type.

// Parse reads the data of a record back. ok is false if the name is not of this package.
func Parse(name string, data []byte) (d Data, ok bool, err error) {
	switch name {
	case NameIssued:
		d, err = parse[Issued](data)
	case NameJoined:
		d, err = parse[Joined](data)
	case NameRenewed:
		d, err = parse[Renewed](data)
	case NameRevoked:
		d, err = parse[Revoked](data)
	case NameRefused:
		d, err = parse[Refused](data)
	default:
		return nil, false, nil
	}
	if err == nil {
		err = checkData(d)
	}
	return d, true, err
}

// checkData refuses what this package cannot have written.
func checkData(d Data) error {
	subject, named := "", true
	switch d := d.(type) {
	case Issued:
		subject, named = d.Subject, d.Hash != ""
	case Joined:
		subject, named = d.Subject, d.Serial != "" && d.Key != ""
	case Renewed:
		subject, named = d.Subject, d.Serial != "" && d.Key != ""
	case Revoked:
		subject = d.Subject
	default: // Refused: as claimed by whoever was refused
		return nil
	}
	if !jointoken.ValidSubject(subject) || !named {
		return fmt.Errorf("enrolment record of %.80q: a name, hash, serial number or key is missing", subject)
	}
	return nil
}

func parse[T Data](data []byte) (Data, error) {
	var t T
	if err := json.Unmarshal(data, &t); err != nil {
		return nil, err
	}
	return t, nil
}

// Apply changes the state as a record says. It is the only thing that does.
func (s *State) Apply(at time.Time, who string, d Data) {
	at = at.UTC()
	switch d := d.(type) {
	case Issued:
		sub := s.subject(d.Subject)
		s.withdraw(sub)
		sub.Tokens = append(sub.Tokens, Token{Hash: d.Hash, State: Open, Issued: at, Expires: d.Expires.UTC(), Who: who})
		s.tokens[d.Hash] = sub
		for len(sub.Tokens) > maxTokens {
			delete(s.tokens, sub.Tokens[0].Hash)
			sub.Tokens = slices.Delete(sub.Tokens, 0, 1)
		}
	case Joined:
		sub := s.subject(d.Subject)
		for i := range sub.Tokens {
			if t := &sub.Tokens[i]; t.Hash == d.Token {
				if t.State == Used && d.Again {
					t.Again++
				}
				t.State, t.Key = Used, d.Key
			}
		}
		s.drop(sub, func(c Certificate) bool { return true }, d.Key)
		s.add(sub, Certificate{Serial: d.Serial, Key: d.Key, Issued: at, Expires: d.Expires.UTC()})
		sub.Joined, sub.Revoked, sub.RevokedBy, s.ca = at, time.Time{}, "", d.CA
	case Renewed:
		sub := s.subject(d.Subject)
		s.drop(sub, func(c Certificate) bool { return c.Serial != d.Old }, d.Key)
		s.add(sub, Certificate{Serial: d.Serial, Key: d.Key, Issued: at, Expires: d.Expires.UTC()})
		s.ca = d.CA
	case Revoked:
		sub := s.subject(d.Subject)
		s.withdraw(sub)
		s.drop(sub, func(Certificate) bool { return true }, "")
		sub.Revoked, sub.RevokedBy = at, who
	}
}

func (s *State) subject(name string) *Subject {
	sub := s.subjects[name]
	if sub == nil {
		sub = &Subject{Name: name}
		s.subjects[name] = sub
	}
	return sub
}

// withdraw closes the open tokens.
func (s *State) withdraw(sub *Subject) {
	for i := range sub.Tokens {
		if t := &sub.Tokens[i]; t.State == Open {
			t.State = Withdrawn
		}
	}
}

func (s *State) add(sub *Subject, c Certificate) {
	sub.Certificates = append(sub.Certificates, c)
	s.keys[c.Key] = sub
}

// drop takes certificates off the list. Their keys are burned, but for keep and for those that
// another certificate of the list is for.
func (s *State) drop(sub *Subject, which func(Certificate) bool, keep string) {
	var rest []Certificate
	var gone []string
	for _, c := range sub.Certificates {
		if which(c) {
			gone = append(gone, c.Key)
		} else {
			rest = append(rest, c)
		}
	}
	sub.Certificates = rest
	for _, key := range gone {
		if key == keep || sub.holds(key) || slices.Contains(sub.Burned, key) {
			continue
		}
		delete(s.keys, key)
		sub.Burned = append(sub.Burned, key)
	}
	if n := len(sub.Burned) - maxBurned; n > 0 {
		sub.Burned = slices.Delete(sub.Burned, 0, n)
	}
}

// snapshot is the whole state as it is kept.
type snapshot struct {
	CA       string     `json:"ca,omitempty"`
	Subjects []*Subject `json:"subjects,omitempty"`
}

// Checkpoint returns the state, so that a replay may begin here; nil if there is none yet.
func (s *State) Checkpoint() []byte {
	if len(s.subjects) == 0 {
		return nil
	}
	snap := snapshot{CA: s.ca}
	s.Each(func(sub *Subject) { snap.Subjects = append(snap.Subjects, sub) })
	b, err := json.Marshal(&snap, json.Deterministic(true))
	if err != nil {
		panic("enrol: cannot encode a checkpoint: " + err.Error())
	}
	return b
}

// Restored returns the state that Checkpoint wrote.
func Restored(data []byte) (*State, error) {
	var snap snapshot
	if len(data) == 0 {
		return New(), nil
	}
	if err := json.Unmarshal(data, &snap); err != nil {
		return nil, fmt.Errorf("enrolment checkpoint: %w", err)
	}
	s := New()
	s.ca = snap.CA
	for _, sub := range snap.Subjects {
		if sub == nil || sub.Name == "" || s.subjects[sub.Name] != nil {
			return nil, fmt.Errorf("enrolment checkpoint: a subject is nameless or there twice")
		}
		s.subjects[sub.Name] = sub
		for _, t := range sub.Tokens {
			s.tokens[t.Hash] = sub
		}
		for _, c := range sub.Certificates {
			s.keys[c.Key] = sub
		}
	}
	return s, nil
}
