package app

import (
	"maps"
	"reflect"
	"runtime"
	"slices"
	"time"

	"go.uber.org/zap"

	"tandem.internal/shared/settings"
	"tandem.internal/shared/wire"
)

// sayEverything publishes live, the node's information, and every report.
func (a *Agent) sayEverything() {
	a.sayInfo()
	names := slices.Sorted(maps.Keys(a.kinds))
	for _, name := range names {
		running, last := a.kinds[name].inbox.State.Report()
		a.refresh(a.kinds[name], running, last)
	}
	a.sayLive()
	a.send(a.info)
	for _, name := range names {
		a.send(a.kinds[name])
	}
}

// sayLive publishes live, and sets the next beat.
func (a *Agent) sayLive() {
	l := wire.Live{V: wire.Version, Node: a.id.Node, Boot: a.boot, Session: a.session, Up: true,
		Seqs: map[wire.Kind]uint64{wire.KindInfo: a.info.seq}, Events: a.store.NewestEvent()}
	for name, k := range a.kinds {
		l.Seqs[name] = k.seq
	}
	a.sender.Latest(a.topics.Live(), wire.Encode(&l))
	a.beatAt = time.Since(a.began) + time.Duration(float64(a.cfg.Beat)*(0.8+0.4*a.deps.Rand.Float64()))
}

// sayKind publishes what is new about a kind, or the same again.
func (a *Agent) sayKind(k *kind, running *wire.DocRef, last *wire.Attempt) {
	a.refresh(k, running, last)
	a.send(k)
}

func (a *Agent) send(k *kind) { a.sender.Latest(a.topics.Reported(k.name), k.payload) }

// refresh makes the report of a kind anew if something has changed.
func (a *Agent) refresh(k *kind, running *wire.DocRef, last *wire.Attempt) {
	next := wire.Reported{V: wire.Version, Node: a.id.Node, Kind: k.name, Boot: a.boot, Running: running, Last: last}
	if k.name == wire.KindHealth && a.care.report.Indicator != 0 {
		next.Detail = wire.Encode(&a.care.report)
	}
	if k.name == wire.KindWorkloads && a.duties.report != nil {
		next.Detail = wire.Encode(a.duties.report)
	}
	before := k.current.Last
	if a.replace(k, next) {
		if last != nil && !reflect.DeepEqual(last, before) {
			fields := []zap.Field{zap.String("kind", string(k.name)), zap.String("state", string(last.State)), zap.String("version", last.Version),
				zap.Uint64("epoch", last.Epoch), zap.Uint64("rev", last.Rev), zap.Int("attempt", last.Attempt)}
			if last.Error != nil {
				fields = append(fields, zap.Error(last.Error))
			}
			a.log.Info("document", fields...)
		}
		if a.deps.OnState != nil {
			a.deps.OnState(k.name, running, last)
		}
	}
}

// replace takes over a report with new content, under the next sequence number.
func (a *Agent) replace(k *kind, next wire.Reported) bool {
	next.Seq = k.seq
	if k.payload != nil && reflect.DeepEqual(next, k.current) {
		return false
	}
	k.seq++
	next.Seq = k.seq
	k.current, k.payload = next, wire.Encode(&next)
	return true
}

// sayInfo looks at the node and makes the report of it.
func (a *Agent) sayInfo() {
	info := wire.NodeInfo{Type: a.cfg.Type, OS: runtime.GOOS, Arch: runtime.GOARCH, Attributes: a.cfg.Attributes, AgentVersion: settings.Version, Keys: a.trust.Order}
	for _, name := range a.cfg.partitionNames() {
		info.Partitions = append(info.Partitions, wire.Partition{Name: name, Path: a.cfg.Partitions[name]})
	}
	if err := a.deps.Capacity(&info); err != nil {
		info.Error = wire.New(wire.CodeInternal, "", err.Error())
	}
	a.replace(a.info, wire.Reported{V: wire.Version, Node: a.id.Node, Kind: wire.KindInfo, Boot: a.boot, Detail: wire.Encode(&info)})
}

// eventsAtOnce bounds the events that wait in the sender, so that a long queue costs no memory.
const eventsAtOnce = 32

// sendEvents hands the next kept events to the sender, if there is a session and room. The sender
// asks for more when it has sent them.
func (a *Agent) sendEvents() {
	if a.session == 0 || a.sent >= a.store.NewestEvent() || a.sender.Pending() >= eventsAtOnce {
		return
	}
	events, err := a.store.Events(a.sent, eventsAtOnce)
	if err != nil {
		a.fatal = err
		return
	}
	for i := range events {
		a.sender.Once(a.topics.Event(), wire.Encode(&events[i]), events[i].Seq)
		a.sent = events[i].Seq
	}
	if len(events) == 0 {
		a.sent = a.store.NewestEvent()
	}
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
