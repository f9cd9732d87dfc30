package slot

import (
	"errors"
	"fmt"
	"io/fs"

	"tandem.internal/nodeagent/internal/slot/record"
	"tandem.internal/shared/publisher"
)

// floorFile, in the slot directory, has the highest floor of all versions that were armed. Older agents and launchers
// leave it alone; a member of the record they would drop.
const floorFile = "floor"

// floorHead are the first words of that file; the number is the format's version.
const floorHead = "tandem-floor 1 "

type floor struct {
	Version string `json:"floor"`
}

// signedFloor returns the highest floor that a publisher has signed of what was armed here; "": none.
func (s *Store) signedFloor() (string, error) {
	data, err := s.disk.Read(floorFile, record.MaxSize)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	var f floor
	if err == nil {
		err = record.Unseal(floorHead, data, &f)
	}
	if err != nil {
		return "", fmt.Errorf("the lowest version that publishers want here cannot be read, so nothing is tried "+
			"unless --floor says another one: %s/%s: %w", s.cfg.Dir, floorFile, err)
	}
	return f.Version, nil
}

// Floor returns the lowest version that is put in force; "": any.
func (s *Store) Floor() (string, error) {
	switch {
	case s.cfg.Floor != "":
		return s.cfg.Floor, nil
	case len(s.cfg.Publishers) == 0:
		return "", nil
	}
	return s.signedFloor()
}

// above says why a version is not put in force since it is too low; nil: it may be. A *wire.Error says that it is.
func (s *Store) above(version string) error {
	lowest, err := s.Floor()
	if err != nil {
		return err
	}
	if err := publisher.BelowFloor(version, lowest); err != nil {
		return err
	}
	return nil
}

// raise makes the floor of what a slot holds, if a publisher has signed a higher one than before, the node's for good.
func (s *Store) raise(id ID, version string) error {
	if len(s.cfg.Publishers) == 0 || id == record.Factory {
		return nil
	}
	sig, err := s.vouched(id, version)
	if err != nil || sig.Floor() == "" {
		return nil // whether it is signed is judged elsewhere
	}
	had, err := s.signedFloor()
	if err != nil && s.cfg.Floor == "" {
		return err
	}
	if high := publisher.HigherFloor(had, sig.Floor()); high != had {
		if err := s.disk.Replace(floorFile, record.Seal(floorHead, floor{high})); err != nil {
			return fmt.Errorf("slots: %w", err)
		}
	}
	return nil
}
