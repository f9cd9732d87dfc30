package journal

import (
	"bytes"
	"crypto/sha256"

	"encoding/hex"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"

	"tandem.internal/shared/wire"
)

// BodyError says which stored body cannot be used, and where it is. errors.Is finds ErrDamaged in it,
// errors.AsType a *wire.Error with the code storage.
type BodyError struct {
	Path   string // of the journal
	Hash   Hash   // the body's key in the bucket bodies
	Got    Hash   // of the bytes that are there; zero if Absent
	Absent bool   // nothing is stored under Hash
	Record uint64 // Seq of the newest record that names Hash, 0 if none does
}

// Error says what is wrong, and where.
func (e *BodyError) Error() string {
	named := "no record names it"
	if e.Record != 0 {
		named = fmt.Sprintf("record %d names it", e.Record)
	}
	what := "is not what was written"
	if e.Absent {
		what = "is missing"
	}
	return fmt.Sprintf("the journal %s is damaged: sha256:%x in the bucket bodies (%s) %s", e.Path, e.Hash, named, what)
}

// Unwrap gives ErrDamaged and the *wire.Error.
func (e *BodyError) Unwrap() []error {
	return []error{ErrDamaged, wire.New(wire.CodeStorage, "", e.Error())}
}

// Body reads the bytes that have this hash. ok is false if they are not stored, or no more. Bytes that do not have
// the hash are never returned: the error then is a *BodyError.
func (j *Journal) Body(hash Hash) (body []byte, ok bool, err error) {
	err = j.view(func(tx *bbolt.Tx) error {
		v := tx.Bucket(bucketBodies).Get(hash[:])
		ok = v != nil
		body = append([]byte{}, v...)
		return nil
	})
	if err != nil || !ok {
		return nil, false, err
	}
	if got := Hash(sha256.Sum256(body)); got != hash {
		return nil, false, j.bodyError(BodyError{Hash: hash, Got: got})
	}
	return body, true, nil
}

// NeededBody is Body for bytes that must be there: if they are not stored the error is a *BodyError, too.
func (j *Journal) NeededBody(hash Hash) ([]byte, error) {
	body, ok, err := j.Body(hash)
	if err == nil && !ok {
		err = j.bodyError(BodyError{Hash: hash, Absent: true})
	}
	return body, err
}

// bodyError completes e with the record that names the body. It reads the log for that, newest first.
func (j *Journal) bodyError(e BodyError) error {
	e.Path = j.path
	text := []byte(hex.EncodeToString(e.Hash[:]))
	err := j.Scan(Filter{Reverse: true}, func(r Record) error {
		if !bytes.Contains(r.Data, text) {
			return nil
		}
		e.Record = r.Seq
		return ErrStop
	})
	if err != nil && !errors.Is(err, ErrDamaged) { // a damaged record is a problem of its own
		return err
	}
	return &e
}

// body reports the body of a record as missing if it is not stored.
func (v *verifier) body(seq uint64, r *Record) error {
	h, named := r.Body()
	if !named {
		return nil
	}
	return v.j.view(func(tx *bbolt.Tx) error {
		if tx.Bucket(bucketBodies).Get(h[:]) == nil {
			v.found(BodyWrong, seq, 0, "the document that was accepted is gone, %x", h)
		}
		return nil
	})
}

// bodies compares every stored body with its hash.
func (v *verifier) bodies() error {
	for last := (*Hash)(nil); ; {
		if err := v.ctx.Err(); err != nil {
			return err
		}
		hashes, err := v.j.bodyHashes(last, compactChunk)
		if err != nil || len(hashes) == 0 {
			return err
		}
		last = &hashes[len(hashes)-1]
		for _, h := range hashes {
			_, ok, err := v.j.Body(h)
			if bad, damaged := errors.AsType[*BodyError](err); damaged {
				v.found(BodyWrong, bad.Record, 0, "the bytes of the body %x have the hash %x", h, bad.Got)
			} else if err != nil {
				return err
			} else if !ok {
				continue // compacted meanwhile
			}
			v.proof.Bodies++
		}
	}
}
