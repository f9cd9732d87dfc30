package slot

import (
	"errors"
	"fmt"
	"hash"
	"io/fs"

	"tandem.internal/nodeagent/internal/slot/record"
	"tandem.internal/shared/publisher"
	"tandem.internal/shared/wire"
)

// ErrUnread says that it is not known whose signatures are demanded: nothing new is tried.
var ErrUnread = errors.New("the publishers' keys cannot be read")

// signature is the file with the publisher's signature of a slot's binary. Older agents and launchers know neither it
// nor a member of the record in its place, which they would drop; the file they leave alone.
func (s *Store) signature(id ID) string { return s.binary(id) + ".minisig" }

// readSignature returns the text of the signature that lies beside a slot's binary, "" if there is none.
func (s *Store) readSignature(id ID) (string, error) {
	data, err := s.disk.Read(s.signature(id), publisher.MaxSignature)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(data), err
}

// keepSignature writes the signature of what is staged as a version, "" if there is none, beside it.
func (s *Store) keepSignature(id ID, text, version string) error {
	if len(s.cfg.Publishers) > 0 {
		if err := s.cfg.Publishers.JudgeRelease(agent(version), text, nil); err != nil {
			return fmt.Errorf("%w: %w", ErrRefused, err)
		}
	}
	if text == "" {
		return nil
	}
	if _, err := publisher.Parse(text); err != nil {
		return fmt.Errorf("%w: its signature: %w", ErrRefused, err)
	}
	if err := s.disk.Replace(s.signature(id), []byte(text)); err != nil {
		return fmt.Errorf("stage: %w", err)
	}
	return nil
}

// digesting returns what makes the digest that publishers sign, nil where nobody demands that.
func (s *Store) digesting() hash.Hash {
	if len(s.cfg.Publishers) == 0 {
		return nil
	}
	return publisher.NewHash()
}

// signed says whether a version, and the content with this digest, is what a publisher has signed, as the signature
// beside the slot's binary says; nil: also where nobody demands it. A *wire.Error says that it is not.
func (s *Store) signed(id ID, version string, digest hash.Hash) error {
	if digest == nil {
		return nil
	}
	text, err := s.readSignature(id)
	if err != nil {
		return err
	}
	if err := s.cfg.Publishers.JudgeRelease(agent(version), text, digest.Sum(nil)); err != nil {
		return err
	}
	return nil
}

func agent(version string) publisher.Release {
	return publisher.Release{Name: publisher.AgentName, Version: version}
}

// Signed returns the signature of what a slot holds, judged as far as can be without reading that: the error is a
// *wire.Error if it does not count, or the version is below the floor. It is zero where nobody demands one.
func (s *Store) Signed(x SlotStatus) (sig publisher.Signature, err error) {
	if len(s.cfg.Publishers) == 0 {
		return sig, nil
	}
	if sig, err = s.vouched(x.Slot, x.Version); err == nil {
		err = s.above(x.Version)
	}
	return sig, err
}

// vouched returns the signature of a version in a slot, judged but for the content.
func (s *Store) vouched(id ID, version string) (sig publisher.Signature, err error) {
	text, err := s.readSignature(id)
	if err != nil {
		return sig, fmt.Errorf("slots: %w", err)
	}
	if err := s.cfg.Publishers.JudgeRelease(agent(version), text, nil); err != nil {
		return sig, err
	}
	return publisher.Parse(text)
}

// Disarm gives up a slot that was armed, and not started yet, if no publisher has signed what it holds, or it is below
// the floor. Somebody at the node may have armed it who knows nothing of either.
func (s *Store) Disarm() error {
	if len(s.cfg.Publishers) == 0 && s.cfg.Floor == "" {
		return nil
	}
	return s.update(func(r record.Record) (record.Record, error) {
		if r.Trying == record.None || r.Booted {
			return r, nil
		}
		why, no := errors.AsType[*wire.Error](s.sound(r, r.Trying))
		if !no {
			return r, nil // or it is broken, which the next start sees
		}
		return r.RollBack(r.Trying, wire.BootFallback, why.Error())
	}, s.mirror)
}
