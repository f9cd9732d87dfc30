package update

import (
	"strings"
	"time"

	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
)

// Refusal says why content is not staged or tried: it is in quarantine. Nil: it is not, or somebody insists.
func Refusal(quarantine []wire.HealthFailed, hash string, force bool) *wire.Error {
	err := Quarantined(quarantine, hash)
	if err == nil || force {
		return nil
	}
	err.Message += "; --force tries it all the same, or stage a newer version"
	return err
}

// Quarantined says that content is in quarantine, and since when. Nil: it is not.
func Quarantined(quarantine []wire.HealthFailed, hash string) *wire.Error {
	for i := range quarantine {
		q := &quarantine[i]
		if q.Hash != hash || hash == "" {
			continue
		}
		at := ""
		if !q.At.IsZero() {
			at = " (at " + q.At.UTC().Format(time.RFC3339) + ")"
		}
		return wire.New(wire.CodeQuarantined, "", "version "+q.Version+" failed here before: "+q.Text+at)
	}
	return nil
}

// quarantine keeps what has failed just now.
func (t *step) quarantine() {
	t.keep(func(q *wire.HealthFailed) bool { return q.Hash != t.Hash })
	why := strings.TrimPrefix(t.Last.Why.Detail, "version "+t.Version+": ")
	t.Quarantine = append(t.Quarantine,
		wire.HealthFailed{Version: t.Version, Hash: t.Hash, Text: plain(why), At: t.Last.At})
	t.Quarantine = t.Quarantine[max(0, len(t.Quarantine)-maxFailed):]
}

// release forgets what the commit of a version disproves: its own failure, and what it is newer than.
func (t *step) release() {
	t.keep(func(q *wire.HealthFailed) bool {
		c, err := unitconfig.Compare(q.Version, t.Version)
		return q.Hash != t.Hash && (err != nil || c >= 0)
	})
}

// clearQuarantine does what somebody at the node asks for.
func (t *step) clearQuarantine(version string) *wire.Error {
	before := len(t.Quarantine)
	t.keep(func(q *wire.HealthFailed) bool { return version != "" && q.Version != version })
	if len(t.Quarantine) == before {
		return wire.New(wire.CodeNotFound, "", "no such version is in quarantine: tandem-node slot status lists them")
	}
	return nil
}

// keep keeps some of the quarantine, in a list of its own.
func (r *Record) keep(which func(*wire.HealthFailed) bool) {
	var kept []wire.HealthFailed
	for i := range r.Quarantine {
		if q := &r.Quarantine[i]; which(q) {
			kept = append(kept, *q)
		}
	}
	r.Quarantine = kept
}
