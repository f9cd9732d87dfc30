package tokens

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/apitoken"
	"tandem.internal/shared/filetest"
)

// Whatever bit of the file is flipped, it is refused by its name, or has the tokens that were written.
func TestDamagedFile(t *testing.T) {
	cfg := Config{Path: filepath.Join(t.TempDir(), FileName), Now: func() time.Time { return now }}
	s := open(t, cfg)
	create(t, s, "ann", Operate, time.Hour)
	create(t, s, "bob", View, 0)
	want := string(s.List().Encode())
	good, err := os.ReadFile(cfg.Path)
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for bit := range 8 * len(good) {
		bad := filetest.Flipped(good, bit)
		set, err := Decode(bad)
		switch {
		case err != nil:
			refused++
		case string(set.Encode()) != want:
			t.Errorf("bit %d is taken for other tokens: %s", bit, bad)
		}
		if bit%500 == 0 && err != nil {
			if err := os.WriteFile(cfg.Path, bad, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(cfg); err == nil || !strings.Contains(err.Error(), cfg.Path) {
				t.Errorf("bit %d: %v", bit, err)
			}
		}
	}
	if refused < 4*len(good) {
		t.Errorf("%d of %d bits were refused", refused, 8*len(good))
	}
}

// A file that an older program has written has no sum.
func TestFileWithoutSum(t *testing.T) {
	set := Set{{Name: "ann", Role: View, Hash: apitoken.New().Hash(), Created: now}}
	sum := strings.Split(string(set.Encode()), "\n")[2]
	old := strings.Replace(string(set.Encode()), sum+"\n", "", 1)
	if got, err := Decode([]byte(old)); err != nil || len(got) != 1 || !strings.Contains(sum, `"sum"`) {
		t.Errorf("%v %v of %s", got, err, old)
	}
}
