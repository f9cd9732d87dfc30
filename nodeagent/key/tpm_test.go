package key

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"tandem.internal/nodeagent/key/internal/tpm"
	"tandem.internal/nodeagent/key/tpmtest"
)

// chips runs a test with keys in files, and with a TPM if one can be had.
func chips(t *testing.T, run func(t *testing.T, cfg Config)) {
	t.Run("file", func(t *testing.T) { run(t, config(t)) })
	t.Run("tpm", func(t *testing.T) {
		chip, err := tpm.Open(tpmtest.Start(t).Setting)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := chip.Close(); err != nil {
				t.Error(err)
			}
		}()
		cfg := config(t)
		cfg.Chip = chip
		run(t, cfg)
	})
}

// TestKeysOfTPMAreNotOnTheDisk: the file of a program with a TPM has neither a key nor the secret.
func TestKeysOfTPMAreNotOnTheDisk(t *testing.T) {
	chip, err := tpm.Open(tpmtest.Start(t).Setting)
	if err != nil {
		t.Fatal(err)
	}
	cfg := config(t)
	cfg.Chip = chip
	c, stop := serve(t, cfg)
	if _, err := c.Make(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Store(t.Context(), "label", []byte("secret")); err != nil {
		t.Fatal(err)
	}
	stop()
	if err := chip.Close(); err != nil {
		t.Error(err)
	}
	var f saved
	data, err := os.ReadFile(filepath.Join(cfg.Dir, storeFile))
	if err == nil {
		err = json.Unmarshal(data, &f)
	}
	if err != nil || f.Chip != "tpm" || len(f.Keys) != 1 {
		t.Fatalf("%+v %v", f, err)
	}
	_, err = (Files{}).Sign(f.Keys[0].Kept, make([]byte, 32))
	if err == nil || bytes.Contains(f.Secret, []byte("secret")) {
		t.Errorf("the disk has the key (%v) or the secret %q", err, f.Secret)
	}
	cfg.Chip, cfg.Guard = nil, anybody
	if err := Serve(t.Context(), cfg, nil); err == nil || !strings.Contains(err.Error(), "another place") {
		t.Errorf("without the TPM: %v", err)
	}
}
