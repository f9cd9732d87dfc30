package distribute

import (
	"bytes"
	"cmp"
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/journal"
	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/duration"
	"tandem.internal/shared/link"
	"tandem.internal/shared/seal"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// inbox takes submissions that come over MQTT from the cloud side. They take the same way as those
// over HTTP and are answered on the outbox topic. A submission that is delivered again is answered
// again and not judged again.
type inbox struct {
	discarded sync.Once // the first message that came while the inbox was off was logged

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu       sync.Mutex
	over     bool
	busy     int
	answered []answer // the newest answers, oldest first
	open     map[submitted]bool
	signed   map[line]time.Time // when the newest submission that was judged was signed
}

// line is what one submitter sends on one topic: the signed times grow.
type line struct{ who, what string }

// Submitters knows who may submit; see submitter.List.
type Submitters interface {
	Verify(unit, what string, m *wire.Submission, now time.Time) (who string, err *wire.Error)
}

// submitted tells a submission from every other one: what is its topic's name, the kind of the documents
// to be made of it. An ID that comes again with something else is not taken for the same.
type submitted struct {
	what, id, hash string
	mode           wire.Mode
	within         time.Duration
	force          bool
	name           string // of a policy
	allNodes       bool
	plan           string // hash of that of its rollout; "": there is none
}

type answer struct {
	submitted
	wire.Answer
}

// Bounds of what the cloud side may have under way and is remembered.
const (
	maxBusy     = 16
	maxAnswered = 64
	inboxWait   = 5 * time.Minute
)

func (b *inbox) init() {
	b.ctx, b.cancel = context.WithCancel(context.Background())
	b.open, b.signed = map[submitted]bool{}, map[line]time.Time{}
}

// remember finds the newest answers in the journal, so that a submission which is delivered again
// after a restart is not judged again.
func (b *inbox) remember(j *journal.Journal) error {
	var answered []answer
	newest := map[line]time.Time{}
	types := []record.Type{record.Accepted, record.Refused, record.Settings}
	err := j.Scan(journal.Filter{Types: types}, func(r record.Record) error {
		v, err := record.Submitted(&r)
		if err == nil && v.Via == viaInbox {
			state := r.Type.String()
			if r.Type == record.Settings {
				state = record.Accepted.String()
			}
			answered = append(answered,
				answer{submitted{r.Kind, v.ID, v.Hash, v.Mode, v.Within.Std(), v.Forced, v.Name, v.AllNodes, v.Plan},
					wire.Answer{V: wire.Version, ID: v.ID, Version: v.Version, State: state, Error: v.Error}})
			answered = answered[max(0, len(answered)-maxAnswered):]
			if l := (line{r.Who, r.Kind}); v.Signed.After(newest[l]) {
				newest[l] = v.Signed
			}
		}
		return err
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answered, b.signed = answered, newest
	return err
}

// newest returns the newest answers that are remembered, at most one for each topic.
func (b *inbox) newest() map[string]answer {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := map[string]answer{}
	for _, a := range b.answered {
		all[a.what] = a
	}
	return all
}

const viaInbox = "inbox"

// close ends what is under way and waits.
func (b *inbox) close() {
	b.mu.Lock()
	b.over = true
	b.mu.Unlock()
	b.cancel()
	b.wg.Wait()
}

// discard drops a message that comes while the inbox is off. Nothing is journaled or answered; the log
// has one line for all of them, so that whoever waits for an answer can find out why there is none.
func (b *inbox) discard(c *Core, what, topic string) {
	b.discarded.Do(func() {
		c.cfg.Log.Warn("a submission over MQTT was discarded, and so will be others: the inbox is off, see --inbox",
			zap.String("kind", what), zap.String("topic", topic))
	})
}

// take answers a submission, later unless it is malformed. One that cannot be judged is journaled as
// what it is: trouble, of which there is not too much.
func (b *inbox) take(c *Core, what, topic string, payload []byte) {
	of := wire.Hash(payload)
	m, err := wire.Decode[wire.Submission](payload)
	if err != nil {
		b.turnAway(c, what, topic, idOf(payload), of, wire.AsError(err))
		return
	}
	kind := wire.Kind(what)
	src := c.cfg.Kinds.Source(kind)
	switch {
	case src == nil || !takesFromInbox(src):
		b.turnAway(c, what, topic, m.ID, of, wire.New(wire.CodeNotSupported, "", c.takes()))
		return
	case kind == record.KindWanted && !c.cfg.Cloud:
		b.turnAway(c, what, topic, m.ID, of, wire.New(wire.CodeNotAllowed, "", "here the cloud side does not say what "+
			"runs: the controller has to be started with --steering cloud"))
		return
	case src.Parse != nil && (m.Name != "" || m.AllNodes):
		b.turnAway(c, what, topic, m.ID, of, wire.New(wire.CodeNotSupported, "/name",
			"there is one "+src.Title+": it has no name, and goes to all nodes"))
		return
	case src.Parse == nil && len(m.Rollout) > 0:
		b.turnAway(c, what, topic, m.ID, of, wire.New(wire.CodeNotSupported, "/rollout",
			src.Title+" go in waves by what they say themselves, in their field rollout, if they have one"))
		return
	}
	s := view.Submission{Kind: kind, Document: m.Document, Via: viaInbox, ID: m.ID,
		Mode: cmp.Or(m.Mode, wire.ModeApply), Force: m.Force, Signed: m.Time.UTC(), Rollout: m.Rollout}
	var refused *wire.Error
	if s.Who, refused = c.submitter(what, m); refused != nil {
		b.turnAway(c, what, topic, m.ID, of, refused)
		return
	}
	if m.ConfirmWithin != "" {
		if s.ConfirmWithin, err = duration.Parse(m.ConfirmWithin); err != nil {
			b.turnAway(c, what, topic, m.ID, of, wire.New(wire.CodeInvalidArgument, "/confirmWithin", err.Error()))
			return
		}
	}
	this := submitted{what, m.ID, wire.Hash(m.Document), s.Mode, s.ConfirmWithin, s.Force, m.Name, m.AllNodes,
		s.PlanHash()}
	from := line{s.Who, what}
	if again, ok := b.begin(this, from, s.Signed); !ok {
		if again != nil {
			again.Of = of
			c.reply(what, *again)
		}
		return
	}
	go func() {
		defer b.wg.Done()
		a := wire.Answer{}
		if src.Fold != nil {
			a = c.changeFrom(b.ctx, src, m, s)
		} else {
			a = c.submitFrom(b.ctx, s)
		}
		a.Of = of
		b.end(answer{this, a}, from, s.Signed)
		c.reply(what, a)
	}()
}

// submitter returns who submits: who has signed, or, at the embedded broker, which lets nobody else publish there, whom
// the cloud side names.
func (c *Core) submitter(what string, m *wire.Submission) (who string, err *wire.Error) {
	switch {
	case c.cfg.Submitters != nil:
		return c.cfg.Submitters.Verify(c.cfg.Unit, what, m, c.cfg.Now())
	case !c.cfg.Broker.Embedded:
		return "", wire.New(wire.CodeUnsigned, "", "at a broker outside only signed submissions count, and this "+
			"controller was started without --submitters")
	case m.Sig != nil:
		return "", wire.New(wire.CodeUnknownKey, "/sig", "this controller was started without --submitters")
	}
	return "unsigned/" + m.From, nil
}

// takes names the topics on which submissions are taken.
func (c *Core) takes() string {
	var all []string
	for _, src := range c.cfg.Kinds.Sources {
		if takesFromInbox(src) {
			all = append(all, "inbox/"+string(src.Name))
		}
	}
	return "this controller takes submissions on " + strings.Join(all, ", ") + " and inbox/status"
}

// takesFromInbox reports whether something of a source may be submitted over MQTT.
func takesFromInbox(src *kind.Source) bool { return src.Parse != nil || src.Fold.Submit != nil }

func (b *inbox) turnAway(c *Core, what, topic, id, of string, err *wire.Error) {
	c.Misbehaved("", topic, err)
	c.reply(what, wire.Answer{V: wire.Version, ID: id, State: "refused", Error: err, Of: of})
}

// begin reports whether a submission is new and there is room; if not, again is the answer to
// give, if there is one already.
func (b *inbox) begin(s submitted, from line, signed time.Time) (again *wire.Answer, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.answered {
		if b.answered[i].submitted == s {
			a := b.answered[i].Answer
			return &a, false
		}
	}
	switch {
	case b.over || b.open[s]:
		return nil, false
	case !signed.IsZero() && !signed.After(b.signed[from]):
		return &wire.Answer{V: wire.Version, ID: s.id, State: "refused", Error: wire.New(wire.CodeExpired, "/time",
			"a later one of "+from.who+" was judged: it is played again, or came too late")}, false
	case b.busy >= maxBusy:
		return &wire.Answer{V: wire.Version, ID: s.id, State: "refused",
			Error: wire.New(wire.CodeUnavailable, "", "too many submissions are under way; send it again later")}, false
	}
	b.busy++
	b.open[s] = true
	b.wg.Add(1) // before close can wait
	return nil, true
}

func (b *inbox) end(a answer, from line, signed time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.busy--
	delete(b.open, a.submitted)
	if a.Error != nil && (a.Error.Code == wire.CodeUnavailable || a.Error.Code == wire.CodeStorage) {
		return // not judged: it may be sent again
	}
	if signed.After(b.signed[from]) {
		b.signed[from] = signed
	}
	b.answered = append(b.answered, a)
	if len(b.answered) > maxAnswered {
		b.answered = b.answered[1:]
	}
}

func (c *Core) submitFrom(ctx context.Context, s view.Submission) wire.Answer {
	a := wire.Answer{V: wire.Version, ID: s.ID, State: "refused"}
	ctx, cancel := context.WithTimeout(ctx, inboxWait)
	defer cancel()
	r, err := c.Submit(ctx, s)
	if err != nil {
		a.Error = asError(err)
		return a
	}
	a.Version, a.State, a.Error = r.Version, r.State, r.Error
	return a
}

// changeFrom makes a submission a change of a collection.
func (c *Core) changeFrom(ctx context.Context, src *kind.Source, m *wire.Submission, s view.Submission) wire.Answer {
	a := wire.Answer{V: wire.Version, ID: m.ID, State: "refused"}
	ctx, cancel := context.WithTimeout(ctx, inboxWait)
	defer cancel()
	from := record.InboxData{ID: m.ID, Hash: wire.Hash(m.Document), Signed: s.Signed}
	verdict := record.Verdict{ID: m.ID, Via: viaInbox, Hash: from.Hash, Mode: s.Mode, Forced: s.Force, Signed: s.Signed,
		Within: duration.Duration(s.ConfirmWithin), Name: m.Name, AllNodes: m.AllNodes}
	var data any
	var refused *wire.Error
	if err := c.inTurn(ctx, src, func() { data, refused = src.Fold.Submit(m, from) }); err != nil {
		a.Error = asError(err)
		return a
	}
	if refused != nil {
		a.Error = refused
		return a
	}
	r, err := c.order(ctx, func(t uint64) fleet.Event {
		return fleet.Change{Ticket: t, Source: src.Name, Data: data, Who: s.Who, Submitted: &verdict}
	})
	if err != nil {
		a.Error = asError(err)
		return a
	}
	if a.State, a.Version = r.State, strconv.FormatUint(r.Rev, 10); r.State == fleet.Unchanged {
		a.State = record.Accepted.String() // it is as it should be
	}
	if src.Name == record.KindWanted {
		c.report.whole()
	}
	return a
}

// asError keeps an error's code; an error without one is the controller's own trouble.
func asError(err error) *wire.Error {
	if w := wire.AsError(err); w.Code != wire.CodeMalformed {
		return w
	}
	return wire.New(wire.CodeUnavailable, "", err.Error())
}

// unknownID is the ID in the answer to a submission whose own could not be found.
const unknownID = "unknown"

// idOf finds the ID of a submission that is otherwise malformed, so that its sender can tell which
// one is meant.
func idOf(payload []byte) string {
	dec := jsontext.NewDecoder(bytes.NewBuffer(payload), jsontext.AllowDuplicateNames(true))
	if t, err := dec.ReadToken(); err != nil || t.Kind() != '{' {
		return unknownID
	}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadValue()
		isID := err == nil && string(name) == `"id"`
		if isID && dec.PeekKind() == '"' {
			t, err := dec.ReadToken()
			if id := t.String(); err == nil && id != "" && len(id) <= 256 &&
				!strings.ContainsFunc(id, wire.Misleads) {
				return id
			}
			return unknownID
		}
		if err != nil || dec.SkipValue() != nil {
			return unknownID
		}
	}
	return unknownID
}

// reply answers on an outbox topic, unless it is that of the status, which has no answers.
func (c *Core) reply(what string, a wire.Answer) {
	if what == statusTopic {
		return
	}
	c.outbox.send(c.answerOn(what, a))
}

// answerOn returns what is published as the answer to a submission, signed. Of makes it the answer to one payload:
// whoever can publish may submit under the ID of another, and would have a signed refusal to show for that.
func (c *Core) answerOn(what string, a wire.Answer) link.Publication {
	a.Time = c.cfg.Now().UTC()
	a.Sig = c.signer().Sign(seal.AnswerPreimage(c.cfg.Unit, what, &a))
	return link.Publication{Topic: topic.ForOutbox(c.cfg.Unit, what), Payload: wire.Encode(&a), Retain: true}
}
