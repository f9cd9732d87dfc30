package app

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"path/filepath"

	"tandem.internal/controller/internal/artefact/serve"
	"tandem.internal/controller/internal/artefact/store"
)

// artefactsDir is the directory of the store of artefacts in the state directory.
const artefactsDir = "artefacts"

// artefactStore is the store of artefacts as it is set; with a quota of 0 there is none.
func (c *Config) artefactStore() store.Config {
	if c.ArtefactQuota == 0 {
		return store.Config{}
	}
	return store.Config{Dir: filepath.Join(c.StateDir, artefactsDir), Quota: int64(c.ArtefactQuota),
		KeepFree: int64(c.ArtefactFree), Keep: c.ArtefactKeep}
}

// artefacts sends artefacts to nodes; nil: there is no store.
func (a *App) artefacts(deps Deps) func(w http.ResponseWriter, r *http.Request, node, digest string) error {
	if a.cfg.ArtefactQuota == 0 {
		return nil
	}
	return serve.New(serve.Config{Store: a.core.Artefacts(), Allowed: a.core.MayFetch,
		Rate: float64(a.cfg.ArtefactRate), Chance: rand.Float64, Log: deps.Log}).Send
}

// artefactLimits returns an error for a size of the store of artefacts that cannot be.
func (c *Config) artefactLimits() error {
	for _, l := range []struct {
		name  string
		value uint64
	}{
		{"artefact-quota", c.ArtefactQuota}, {"artefact-keep-free", c.ArtefactFree}, {"artefact-rate", c.ArtefactRate},
	} {
		if l.value > math.MaxInt64 {
			return fmt.Errorf("--%s: at most %d bytes, not %d", l.name, int64(math.MaxInt64), l.value)
		}
	}
	if c.ArtefactKeep < 0 {
		return fmt.Errorf("--artefact-keep: 0 or more, not %v", c.ArtefactKeep)
	}
	return nil
}
