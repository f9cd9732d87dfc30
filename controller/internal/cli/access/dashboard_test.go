package access

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestDashboardOpens: the link is in a file that only the user may read, and in no argument; where no browser is, the
// file goes.
func TestDashboardOpens(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv("HOME", cache)
	const link = "https://gateway:8885/#once=tdo1.abc"
	before := browse
	t.Cleanup(func() { browse = before })
	opened := ""
	browse = func(_ context.Context, file string) error {
		opened = file
		text, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(text), `content="0;url=`+link+`"`) || strings.Contains(file, "tdo1") {
			t.Errorf("%s: %s %v", file, text, err)
		}
		return nil
	}
	if err := browseTo(t.Context(), link); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{opened, filepath.Dir(opened)} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if runtime.GOOS == "linux" && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", name, info.Mode().Perm())
		}
	}
	browse = func(context.Context, string) error { return errors.New("no display") }
	if err := browseTo(t.Context(), link); err == nil || !strings.Contains(err.Error(), "no display") {
		t.Error(err)
	}
	if _, err := os.Stat(opened); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file with the link is there: %v", err)
	}
}
