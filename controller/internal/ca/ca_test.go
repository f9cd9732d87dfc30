package ca

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tandem.internal/shared/durable"
)

// day is when the tests are.
var day = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

func at(t time.Time) func() time.Time { return func() time.Time { return t } }

func open(t testing.TB, cfg Config) *CA {
	t.Helper()
	if cfg.Unit == "" {
		cfg.Unit = "u1"
	}
	if cfg.Now == nil {
		cfg.Now = at(day)
	}
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	c, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestFirstStart(t *testing.T) {
	dir := t.TempDir()
	c := open(t, Config{Dir: dir})
	for name, mode := range map[string]os.FileMode{KeyFile: 0o600, CertificateFile: 0o644} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v %v, want mode %v", name, info.Mode(), err, mode)
		}
	}
	public, err := os.ReadFile(filepath.Join(dir, CertificateFile))
	if err != nil || bytes.Contains(public, []byte("PRIVATE")) || !bytes.Equal(public, c.PEM()) {
		t.Errorf("the public copy: %s %v", public, err)
	}
	if got := c.signs().cert.NotAfter.Sub(c.signs().cert.NotBefore); got != Life {
		t.Errorf("the CA lives %v, want %v", got, Life)
	}
	if c.signs().cert.Subject.CommonName != "tandem CA u1" || !c.signs().cert.IsCA || !c.signs().cert.MaxPathLenZero {
		t.Errorf("the CA's certificate: %+v", c.signs().cert.Subject)
	}
	again := open(t, Config{Dir: dir})
	if again.Fingerprint() != c.Fingerprint() {
		t.Error("the second start made another CA")
	}
	if err := os.WriteFile(filepath.Join(dir, CertificateFile), []byte("altered"), 0o644); err != nil {
		t.Fatal(err)
	}
	open(t, Config{Dir: dir})
	if public, _ = os.ReadFile(filepath.Join(dir, CertificateFile)); !bytes.Equal(public, c.PEM()) {
		t.Error("an altered copy was not mended")
	}
}

func TestOpenRefuses(t *testing.T) {
	good := t.TempDir()
	c := open(t, Config{Dir: good})
	fp := c.Fingerprint()
	other := t.TempDir()
	foreign := open(t, Config{Dir: other})
	read := func(dir string) []byte {
		b, err := os.ReadFile(filepath.Join(dir, KeyFile))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	half := func(b []byte) (key, cert []byte) {
		i := bytes.Index(b, []byte("-----BEGIN CERTIFICATE"))
		return b[:i], b[i:]
	}
	key, cert := half(read(good))
	otherKey, _ := half(read(other))
	for _, tt := range []struct {
		name string
		file []byte // nil: none
		mode os.FileMode
		cfg  Config
		want string // "": opens
	}{
		{"as it was", read(good), 0o600, Config{Known: &fp}, ""},
		{"lost, nobody joined", nil, 0, Config{}, ""},
		{"lost", nil, 0, Config{Known: &fp}, "restore it from a backup"},
		{"lost, made anew", nil, 0, Config{Known: &fp, Renew: true}, ""},
		{"replaced", read(other), 0o600, Config{Known: &fp}, "another CA"},
		{"replaced on purpose", read(other), 0o600, Config{Known: &fp, Renew: true}, ""},
		{"open to others", read(good), 0o640, Config{}, "chmod 600"},
		{"empty", []byte{}, 0o600, Config{}, "a private key and a certificate"},
		{"no PEM", []byte("hello"), 0o600, Config{}, "a private key and a certificate"},
		{"key only", key, 0o600, Config{}, "a private key and a certificate"},
		{"certificate only", cert, 0o600, Config{}, "a private key and a certificate"},
		{"another's key", append(bytes.Clone(otherKey), cert...), 0o600, Config{}, "do not belong together"},
		{"cut", read(good)[:200], 0o600, Config{}, "a private key and a certificate"},
		{"another unit's", read(good), 0o600, Config{Unit: "u2"},
			`not of unit "u2"; start with --unit and --state-dir of the same unit`},
		{"eleven years later", read(good), 0o600, Config{Now: at(day.AddDate(11, 0, 0))}, "was valid until"},
		{"a unit that no URI can name", nil, 0, Config{Unit: "a..b"}, "cannot stand in certificates"},
		{"a unit that ends in a dot", nil, 0, Config{Unit: "a."}, "cannot stand in certificates"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.cfg.Dir = t.TempDir()
			if tt.cfg.Unit == "" {
				tt.cfg.Unit = "u1"
			}
			if tt.cfg.Now == nil {
				tt.cfg.Now = at(day)
			}
			if tt.file != nil {
				if err := os.WriteFile(filepath.Join(tt.cfg.Dir, KeyFile), tt.file, tt.mode); err != nil {
					t.Fatal(err)
				}
			}
			_, err := Open(tt.cfg)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
			if tt.want != "" && tt.file == nil {
				if _, err := os.Stat(filepath.Join(tt.cfg.Dir, KeyFile)); err == nil {
					t.Error("a CA was made all the same")
				}
			}
		})
	}
	if foreign.Fingerprint() == fp {
		t.Error("two CAs are one")
	}
}

// A crash at any step of the first start leaves a CA or none, and the next start goes on.
func TestCrashAtFirstStart(t *testing.T) {
	type crash struct{}
	for n := 0; ; n++ {
		dir := t.TempDir()
		steps, crashed := 0, false
		func() {
			defer func() {
				if r := recover(); r != nil {
					if _, ok := r.(crash); !ok {
						panic(r)
					}
					crashed = true
				}
			}()
			open(t, Config{Dir: dir, Steps: func(durable.Step) error {
				if steps++; steps > n {
					panic(crash{})
				}
				return nil
			}})
		}()
		var before []byte
		if b, err := os.ReadFile(filepath.Join(dir, KeyFile)); err == nil {
			if _, _, err := parse(b); err != nil {
				t.Fatalf("crash at step %d left half a CA: %v", n, err)
			}
			before = b
		}
		c := open(t, Config{Dir: dir})
		after, err := os.ReadFile(filepath.Join(dir, KeyFile))
		if err != nil || before != nil && !bytes.Equal(before, after) {
			t.Fatalf("crash at step %d: the CA was made twice (%v)", n, err)
		}
		if public, err := os.ReadFile(filepath.Join(dir, CertificateFile)); err != nil ||
			!bytes.Equal(public, c.PEM()) {
			t.Fatalf("crash at step %d: no public copy (%v)", n, err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
			t.Fatalf("crash at step %d left %v", n, left)
		}
		if !crashed {
			if n < 12 {
				t.Fatalf("only %d steps", n)
			}
			return
		}
	}
}

func TestFailedWrites(t *testing.T) {
	broken := errors.New("disk full")
	for n := range 12 {
		dir, steps := t.TempDir(), 0
		_, err := Open(Config{Unit: "u1", Dir: dir, Now: at(day), Steps: func(durable.Step) error {
			if steps++; steps == n+1 {
				return broken
			}
			return nil
		}})
		if !errors.Is(err, broken) {
			t.Errorf("step %d: %v", n, err)
		}
		open(t, Config{Dir: dir})
	}
}

// A gateway without a battery starts in 1970.
func TestClockOfTheDead(t *testing.T) {
	dir := t.TempDir()
	c := open(t, Config{Dir: dir, Now: at(time.Unix(0, 0))})
	if c.signs().cert.NotBefore.Before(earliestTime.Add(-Skew)) || c.now().Before(earliestTime) {
		t.Fatalf("a CA of %v", c.signs().cert.NotBefore)
	}
	// The time is set, certificates are made, and the battery fails again.
	c = open(t, Config{Dir: dir})
	from, until := c.Validity(NodeLife)
	c = open(t, Config{Dir: dir, Now: at(time.Unix(100, 0)), Floor: day.Add(time.Hour)})
	if now := c.now(); now.Before(from) || now.After(until) {
		t.Errorf("at %v a certificate from %v until %v does not count", now, from, until)
	}
}
