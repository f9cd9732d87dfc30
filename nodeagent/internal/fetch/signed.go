package fetch

import (
	"encoding/hex"
	"hash"
	"io"

	"tandem.internal/nodeagent/internal/fetch/plan"
	"tandem.internal/shared/publisher"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// judgement is the question whether a content is the one that a signature is of. Its answer never changes.
type judgement struct{ sum, signature string }

func asked(a workload.Artifact) judgement {
	return judgement{a.Verification.Checksum, a.Verification.Minisign}
}

// unsigned says why an artifact is not known to be what a publisher has signed; nil: it is, or nobody demands that.
// s.mu is held.
func (s *Store) unsigned(a workload.Artifact, v plan.View) *wire.Error {
	if len(s.Publishers) == 0 {
		return nil
	}
	if err, known := s.judged[asked(a)]; known {
		return err
	}
	digest, err := hex.DecodeString(v.Digest)
	if err != nil || len(digest) == 0 {
		if err := a.Published(s.Publishers, nil); err != nil {
			return err
		}
		return wire.New(wire.CodeUnavailable, "", "its signature is not verified yet")
	}
	s.judged[asked(a)] = a.Published(s.Publishers, digest)
	return s.judged[asked(a)]
}

// wantJudged forgets what was found out about artifacts that are not wanted any more.
func (s *Store) wantJudged(all []workload.Artifact) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := map[judgement]*wire.Error{}
	for _, a := range all {
		if err, known := s.judged[asked(a)]; known {
			kept[asked(a)] = err
		}
	}
	s.judged = kept
}

// digesting returns what makes the digest of a content beside its checksum, and where that writes; nil and h itself
// where nobody demands signatures.
func (s *Store) digesting(h io.Writer) (digest hash.Hash, both io.Writer) {
	if len(s.Publishers) == 0 {
		return nil, h
	}
	digest = publisher.NewHash()
	return digest, io.MultiWriter(h, digest)
}
