package layers

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/shared/durable"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// A tree of very many small entries takes no room that it was not given, and waits for more; how much it takes at least
// is known then, and it is not unpacked again in vain.
func TestRoomOfSmallEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		if used(t, r.dir) == 0 {
			t.Skip("NOT TRIED: room for directories, which take none here")
		}
		var files []string
		for i := range 60 {
			files = append(files, fmt.Sprintf("%d/a/b/c/d/e/f", i), "")
		}
		many := r.layer("many", files...)
		entries := int64(len(files) / 2 * 7)
		begun, most := 0, uint64(0)
		r.fault = func(step durable.Step, do func() error) error {
			if step == durable.MakeDir {
				begun++
			}
			return do()
		}
		r.used = func() uint64 {
			n := used(t, filepath.Join(r.dir, "layers"))
			most = max(most, n)
			return n
		}
		r.room = uint64(entries * 2048)
		s := r.open()
		s.Want([]workload.Artifact{many})
		settled(time.Hour)
		got := s.Look(many)
		if got.State != "waiting" || got.Err == nil || got.Err.Code != wire.CodeStorage || r.trees() != "" {
			t.Errorf("without room: %+v, left %q", got, r.trees())
		}
		if begun != 1 || entries*2048 < many.Unpack.Size || most > r.room {
			t.Errorf("begun %d times, %d entries, size %d, it took %d of %d", begun, entries, many.Unpack.Size, most,
				r.room)
		}
		r.mu.Lock()
		r.room = uint64(entries * 5000)
		r.mu.Unlock()
		settled(longest + again)
		has(t, s, many, "0/a/b/c/d/e/f", "")
		if begun != 2 {
			t.Errorf("begun %d times", begun)
		}
		r.close()
	})
}

// used is what is in a directory takes on the disk.
func used(t *testing.T, dir string) (sum uint64) {
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		var st syscall.Stat_t
		if err == nil {
			err = syscall.Lstat(path, &st)
		}
		sum += uint64(st.Blocks) * 512
		return err
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	return sum
}
