package enrol

import (
	"slices"
	"time"
)

// Issuers returns the CA of each accepted certificate, as Serials returns their serial numbers.
func (sub *Subject) Issuers() []string {
	if !sub.Revoked.IsZero() {
		return nil
	}
	var list []string
	for _, c := range sub.Certificates {
		list = append(list, c.CA)
	}
	return list
}

// newest is the newest accepted certificate; nil if there is none that is valid now.
func (sub *Subject) newest(now time.Time) *Certificate {
	n := len(sub.Certificates)
	if n == 0 || !sub.Revoked.IsZero() || !now.Before(sub.Certificates[n-1].Expires) {
		return nil
	}
	return &sub.Certificates[n-1]
}

// Belongs reports whether a subject has a certificate that counts and is valid, and which CA signed the newest one.
func (sub *Subject) Belongs(now time.Time) (ca string, ok bool) {
	if c := sub.newest(now); c != nil {
		return c.CA, true
	}
	return "", false
}

// NeedingCA names who needs a CA: those whose newest certificate is of it, and those who have an open token that was
// made before since, when another one began to sign; and batches of before.
func (s *State) NeedingCA(now time.Time, ca string, since time.Time) (all []string) {
	s.Each(func(sub *Subject) {
		by, ok := sub.Belongs(now)
		token := slices.ContainsFunc(sub.Tokens, func(t Token) bool {
			return t.State == Open && now.Before(t.Expires) && t.Issued.Before(since)
		})
		switch {
		case ok && by == ca:
			all = append(all, nodeName(sub.Name))
		case token:
			all = append(all, "a token for "+nodeName(sub.Name))
		}
	})
	for _, b := range s.Batches() {
		if !b.Over(now) && b.Created.Before(since) {
			all = append(all, "the batch "+b.Name)
		}
	}
	return all
}

// keyHashSize is how many bytes of a key's hash tell it from all others.
const keyHashSize = 32 // hexadecimal digits

// maxRefused bounds the keys of RefusedBrokers.
const maxRefused = 1024

// RefusedBrokers returns the keys of brokers' certificates that do not count any more: the first 32 hexadecimal digits
// of each hash, in order. Of many brokers it has the newest ones of each.
func (s *State) RefusedBrokers() []string {
	all := [][]string{}
	s.Each(func(sub *Subject) {
		if isBroker(sub.Name) && len(sub.Burned) > 0 {
			all = append(all, sub.Burned)
		}
	})
	var keys []string
	for _, burned := range all {
		most := max(1, maxRefused/len(all))
		for _, key := range burned[max(0, len(burned)-most):] {
			keys = append(keys, key[:min(len(key), keyHashSize)])
		}
	}
	slices.Sort(keys)
	return keys[:min(len(keys), maxRefused)]
}
