package app

import (
	"errors"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"time"

	"go.uber.org/zap"

	"tandem.internal/shared/settings"
	"tandem.internal/shared/wire"
)

// reported is one report of the node, as it was published last.
type reported struct {
	name    wire.Kind
	seq     uint64        // of the newest report
	current wire.Reported // the newest report
	payload []byte        // current, encoded
}

// reports are all reports of the node, in the order in which they are published.
func (a *Agent) reports() []*reported {
	all := []*reported{&a.info}
	for _, d := range a.documents {
		all = append(all, &d.reported)
	}
	for _, name := range slices.Sorted(maps.Keys(a.unknown)) {
		all = append(all, a.unknown[name])
	}
	return all
}

// reportEverything publishes live, the node's information, and every report.
func (a *Agent) reportEverything() {
	a.refreshInfo()
	for _, d := range a.documents {
		running, last := d.inbox.State.Report()
		a.refresh(&d.reported, running, last, d.kind.Detail())
	}
	a.publishLive()
	for _, r := range a.reports() {
		a.send(r)
	}
}

// publishLive publishes live, and sets the next beat.
func (a *Agent) publishLive() {
	l := wire.Live{V: wire.Version, Node: a.id.Node, Boot: a.boot, Session: a.session, Up: true,
		Seqs: map[wire.Kind]uint64{}, Events: a.store.NewestEvent(), Asks: a.asks}
	a.asks = ""
	for _, r := range a.reports() {
		l.Seqs[r.name] = r.seq
	}
	a.sender.Latest(a.topics.Live(), wire.Encode(&l))
	a.beatAt = time.Since(a.began) + time.Duration(float64(a.cfg.Beat)*(0.8+0.4*a.deps.Rand.Float64()))
}

// report publishes what is new about a kind, or the same again.
func (a *Agent) report(d *documents) {
	a.heed(d)
	running, last := d.inbox.State.Report()
	a.refresh(&d.reported, running, last, d.kind.Detail())
	a.send(&d.reported)
}

func (a *Agent) send(r *reported) { a.sender.Latest(a.topics.Reported(r.name), r.payload) }

// refresh makes the report of a kind anew if something has changed.
func (a *Agent) refresh(r *reported, running *wire.DocRef, last *wire.Attempt, detail []byte) {
	before := r.current.Last
	if !a.replace(r, wire.Reported{Kind: r.name, Running: running, Last: last, Detail: detail}) {
		return
	}
	if last != nil && !reflect.DeepEqual(last, before) {
		fields := []zap.Field{zap.String("kind", string(r.name)), zap.String("state", string(last.State)),
			zap.String("version", last.Version), zap.Uint64("epoch", last.Epoch), zap.Uint64("rev", last.Rev),
			zap.Int("attempt", last.Attempt)}
		if last.Error != nil {
			fields = append(fields, zap.Error(last.Error))
		}
		a.log.Info("document", fields...)
	}
	if a.deps.OnState != nil {
		a.deps.OnState(r.name, running, last)
	}
}

// replace takes over a report with new content, under the next sequence number.
func (a *Agent) replace(r *reported, next wire.Reported) bool {
	next.V, next.Node, next.Boot, next.Seq = wire.Version, a.id.Node, a.boot, r.seq
	if r.payload != nil && reflect.DeepEqual(next, r.current) {
		return false
	}
	r.seq++
	next.Seq = r.seq
	r.current, r.payload = next, wire.Encode(&next)
	return true
}

// refreshInfo looks at the node and makes the report of it anew.
func (a *Agent) refreshInfo() {
	info := wire.NodeInfo{Type: a.cfg.Type, OS: runtime.GOOS, Arch: runtime.GOARCH, Attributes: a.attributes(),
		AgentVersion: settings.Version, Keys: a.trust.Order, Policy: a.nodePolicy,
		Error: a.lossTrouble()}
	if err := errors.Join(a.cfg.offers(&info, processor(), device.there), a.deps.Capacity(&info)); err != nil {
		info.Error = wire.New(wire.CodeInternal, "", err.Error())
	}
	a.devices = info.Devices
	a.replace(&a.info, wire.Reported{Kind: a.info.name, Detail: wire.Encode(&info)})
}

// reply answers a request, and remembers the answer for as long as the request may be repeated.
func (a *Agent) reply(id string, result []byte, err *wire.Error) {
	r := wire.Reply{V: wire.Version, Node: a.id.Node, ID: id, Error: err}
	if err == nil {
		r.Result = result
	}
	payload := wire.Encode(&r)
	a.answers.add(id, payload)
	a.sender.Once(a.topics.Reply(), payload, 0)
}
