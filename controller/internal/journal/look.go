package journal

import (
	"errors"
	"strconv"

	"tandem.internal/shared/boltfile"
	"tandem.internal/shared/wire"
)

// Found is what Look sees of a journal.
type Found struct {
	Format int   // of the file; Version is this program's
	Copy   int64 // bytes of the copy that an upgrade of the format would keep; 0: it would keep none
	Epoch  bool  // whoever opens it for writing begins a higher epoch: it is a copy
}

// Look says what this program would do with the journal in path, while another one may be writing to it. It takes no
// lock, changes nothing, and disturbs nobody. It fails as Open does, and with ErrLocked if the other one writes too
// quickly. A journal that Open would find damaged beyond its first pages passes.
func Look(path string) (found Found, err error) {
	file, err := openRegular(path)
	if err != nil {
		return found, explainOpen(path, err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	meta, head, err := boltfile.Live(file, string(bucketMeta))
	switch {
	case errors.Is(err, boltfile.ErrBusy):
		return found, fail(ErrLocked, wire.CodeUnavailable, err, "the journal "+path+" is written to so quickly by "+
			lockHolder(path)+" that its format cannot be read; try again")
	case errors.Is(err, boltfile.ErrDamaged), errors.Is(err, boltfile.ErrCut):
		return found, damagedPages(path, err)
	case errors.Is(err, boltfile.ErrForeign):
		err = errNoMeta
	case err == nil:
		found.Format, err = parseVersion(meta[string(keyVersion)])
	}
	if err != nil {
		return found, explainOpen(path, err)
	}
	_, found.Epoch = meta[string(keyCopy)]
	if found.Format > Version {
		return found, newer(path, found.Format)
	}
	if found.Format < Version {
		found.Copy = int64(head.Pages) * head.PageSize
	}
	return found, nil
}

// parseVersion reads the format's number.
func parseVersion(text []byte) (int, error) {
	version, err := strconv.Atoi(string(text))
	if err != nil || version < 0 {
		return 0, errNoMeta
	}
	return version, nil
}
