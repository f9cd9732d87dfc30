package enrol

import (
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/jointoken"
)

// Check returns an error for a record that Decide cannot have returned.
func Check(d record.Enrolment) error {
	subject, named := "", true
	switch d := d.(type) {
	case record.EnrolData:
		subject, named = d.Subject, d.Hash != ""
	case record.JoinedData:
		subject, named = d.Subject, d.Serial != "" && d.Key != ""
	case record.RenewedData:
		subject, named = d.Subject, d.Serial != "" && d.Key != ""
	case record.RevokedData:
		subject = d.Subject
	case record.ProvesData:
		subject = d.Subject
	case record.TokenWithdrawnData:
		subject = d.Subject
	case record.BatchData:
		return checkBatch(d)
	default: // JoinRefusedData: its subject is only a claim of the caller
		return nil
	}
	if !jointoken.ValidSubject(subject) || !named {
		return fmt.Errorf("enrolment record of %.80q: a name, hash, serial number or key is missing", subject)
	}
	return nil
}

// Apply changes the state according to a record, seq in the journal. Nothing else changes it.
func (s *State) Apply(seq uint64, at time.Time, who string, d record.Enrolment) {
	at = at.UTC()
	switch d := d.(type) {
	case record.EnrolData:
		sub := s.subject(d.Subject)
		s.withdraw(sub)
		s.addToken(sub, Token{Hash: d.Hash, State: Open, Issued: at, Expires: d.Expires.UTC(), Who: who,
			Type: d.NodeType})
	case record.JoinedData:
		sub := s.subject(d.Subject)
		s.applyJoined(at, sub, d)
		for i := range sub.Tokens {
			if t := &sub.Tokens[i]; t.Hash == d.Token {
				if t.State == Used && d.Again {
					t.Again++
				}
				t.State, t.Key, sub.Type = Used, d.Key, t.Type
			}
		}
		gone := sub.serials()
		if isBroker(d.Subject) {
			gone = d.Replaced
		}
		s.drop(sub, func(c Certificate) bool { return slices.Contains(gone, c.Serial) }, d.Key)
		s.add(sub, Certificate{Serial: d.Serial, Key: d.Key, Issued: at, Expires: d.Expires.UTC(), CA: d.CA})
		sub.Joined, sub.Revoked, sub.RevokedBy, sub.Proves, s.ca = at, time.Time{}, "", time.Time{}, d.CA
		if d.NotBefore.IsZero() {
			sub.Order = Order{Settled: seq}
		} else {
			sub.applyTaken(seq, d.NotBefore)
		}
	case record.RenewedData:
		sub := s.subject(d.Subject)
		s.drop(sub, func(c Certificate) bool { return c.Serial != d.Old }, d.Key)
		s.add(sub, Certificate{Serial: d.Serial, Key: d.Key, Issued: at, Expires: d.Expires.UTC(), CA: d.CA})
		if s.ca = d.CA; d.NotBefore.IsZero() {
			sub.Order.Renewed = seq
		} else {
			sub.applyTaken(seq, d.NotBefore)
		}
	case record.RevokedData:
		sub := s.subject(d.Subject)
		s.withdraw(sub)
		s.drop(sub, func(Certificate) bool { return true }, "")
		sub.Revoked, sub.RevokedBy, sub.Order = at, who, Order{Settled: seq}
	case record.TokenWithdrawnData:
		s.withdraw(s.subject(d.Subject))
	case record.ProvesData:
		s.subject(d.Subject).Proves = at
	case record.BatchData:
		s.applyBatch(at, who, d)
	}
}

func (s *State) addToken(sub *Subject, t Token) {
	sub.Tokens = append(sub.Tokens, t)
	if !t.Batch {
		s.tokens[t.Hash] = sub
	}
	for len(sub.Tokens) > maxTokens {
		delete(s.tokens, sub.Tokens[0].Hash)
		sub.Tokens = slices.Delete(sub.Tokens, 0, 1)
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

// withdraw withdraws the open tokens of a subject.
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

// drop removes the certificates for which which is true. Their keys are burned, except keep and the
// keys of the certificates that remain.
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

// snapshot is the JSON form of a State in a checkpoint.
type snapshot struct {
	CA       string     `json:"ca,omitempty"`
	Subjects []*Subject `json:"subjects,omitempty"`
	Batches  []*Batch   `json:"batches,omitempty"`
}

// Checkpoint encodes the state, so that a replay may begin here; nil if there is no subject and no batch yet.
func (s *State) Checkpoint() []byte {
	if len(s.subjects)+len(s.batches) == 0 {
		return nil
	}
	snap := snapshot{CA: s.ca, Batches: s.Batches()}
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
			if !t.Batch {
				s.tokens[t.Hash] = sub
			}
		}
		for i := range sub.Certificates {
			c := &sub.Certificates[i]
			s.keys[c.Key] = sub
			if c.CA == "" { // of a program that knew one CA
				c.CA = snap.CA
			}
		}
	}
	for _, b := range snap.Batches {
		if b == nil || b.Hash == "" || s.batches[b.Hash] != nil {
			return nil, fmt.Errorf("enrolment checkpoint: a batch has no secret, or is there twice")
		}
		s.batches[b.Hash] = b
	}
	return s, nil
}
