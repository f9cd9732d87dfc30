package app_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"tandem.internal/controller/app"
	"tandem.internal/controller/internal/distribute"
	"tandem.internal/shared/wire"
)

// Seed 000, Startup: the file's place is a setting. The controller reads it there, and writes it there.
func TestConfigFileIsWhereTheSettingSays(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "elsewhere.json")
	doc := `{"formatVersion":"7","version":"1.0.0","nodes":[]}`
	if err := os.WriteFile(path, []byte(doc), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := app.New(app.Config{Unit: "u1", StateDir: filepath.Join(dir, "state"), Listen: "127.0.0.1:0",
		ConfigFile: path},
		app.Deps{NoAPI: true, Tune: func(c *distribute.Config) { c.Beacon = time.Hour }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	s, err := a.Unit().SourceStatus(t.Context(), wire.KindConfig)
	if err != nil || s.State != "installed" || s.Version != "1.0.0" {
		t.Errorf("%+v %v", s, err)
	}
	next := `{"formatVersion":"7","version":"1.0.1","nodes":[]}`
	r, err := a.Unit().Submit(t.Context(), app.Submission{Kind: "config", Document: []byte(next), Via: "http"})
	if err != nil || r.State != "accepted" {
		t.Fatalf("%+v %v", r, err)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != next {
		t.Errorf("%s %v", data, err)
	}
}
