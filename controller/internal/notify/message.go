package notify

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"time"

	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
)

// What is sent: CloudEvents 1.0 in JSON, in structured mode, signed as Standard Webhooks 1.0.0 has it.
const (
	ContentType = "application/cloudevents+json; charset=utf-8"

	HeaderID        = "webhook-id"
	HeaderTimestamp = "webhook-timestamp" // seconds of Unix
	HeaderSignature = "webhook-signature"
)

// Types of events that are no entry of the journal. That of an entry is "tandem.journal." and the type of its record,
// of a node's event "tandem.event." and the event's own.
const (
	TypeTest     = "tandem.notice.test"
	TypeGone     = "tandem.notice.gone"     // view.NoticeGone: records were removed before they were told
	TypeRestored = "tandem.notice.restored" // view.NoticeGone: the journal is another one, such as a backup's
	TypeQuiet    = "tandem.notice.quiet"    // view.NoticeQuiet
)

// maxData is how many bytes of an entry's data are sent; MaxBody is more than any message has.
const (
	maxData = 16 << 10
	MaxBody = 32 << 10
)

// Message is what is sent in one request.
type Message struct {
	ID   string // of the event, for ever
	Seq  uint64 // of the record; 0: it is of none
	Body []byte
	done Progress // when it has arrived
}

// cloudEvent is an event in CloudEvents' JSON format.
type cloudEvent struct {
	SpecVersion string    `json:"specversion"`
	ID          string    `json:"id"`
	Source      string    `json:"source"` // "/tandem/units/" and the unit
	Type        string    `json:"type"`
	Subject     string    `json:"subject,omitempty"` // the node
	Time        time.Time `json:"time,omitzero"`
	ContentType string    `json:"datacontenttype"`
	Sequence    string    `json:"sequence,omitempty"` // number of the record, 20 digits (CloudEvents' extension)
	Level       string    `json:"tandemlevel"`        // as in the data, for those who route by attributes
	Data        any       `json:"data"`
}

func (m *Machine) message(e cloudEvent, seq uint64, done Progress) Message {
	e.SpecVersion, e.Source, e.ContentType = "1.0", "/tandem/units/"+m.unit, "application/json"
	if seq > 0 {
		e.Sequence = fmt.Sprintf("%020d", seq)
	}
	return Message{ID: e.ID, Seq: seq, Body: marshal(&e), done: done}
}

// entry makes the message about an entry.
func (m *Machine) entry(e *Entry, level Level, done Progress) Message {
	n := view.Notice{Level: string(level), Entry: e.Entry}
	if len(n.Data) > maxData {
		n.DataBytes, n.Data = len(n.Data), nil
	}
	typ := "tandem.journal." + e.Type
	if e.Type == record.Event.String() {
		typ = "tandem.event." + e.Kind
	}
	return m.message(cloudEvent{ID: fmt.Sprintf("%d-%s", e.Seq, e.Hash), Type: typ, Subject: e.Node, Time: e.At,
		Level: string(level), Data: &n}, e.Seq, done)
}

// gone makes the message about records that are gone.
func (m *Machine) gone(g Gone, done Progress) Message {
	text := fmt.Sprintf("%d records of the journal from %d to %d were removed, by age, number or size, before this "+
		"receiver was told of them", g.Count, g.First, g.Last)
	return m.message(cloudEvent{ID: fmt.Sprintf("gone-%d-%d", g.First, g.Last), Type: TypeGone, Level: string(Warning),
		Data: &view.NoticeGone{Level: string(Warning), Text: text, First: g.First, Last: g.Last, Count: g.Count}},
		0, done)
}

// restored makes the message about a journal that is not the one of which the receiver was told.
func (m *Machine) restored(was Progress, done Progress) Message {
	text := fmt.Sprintf("the journal is not the one of which this receiver was told up to record %d, as after a "+
		"restore", was.Seq)
	if was.Seq == 0 {
		text = "it is not known any more how far this receiver was told"
	}
	text += fmt.Sprintf(". It is told what comes after record %d", done.Seq)
	return m.message(cloudEvent{ID: fmt.Sprintf("restored-%d-%s", done.Seq, done.Hash), Type: TypeRestored,
		Level: string(Warning), Data: &view.NoticeGone{Level: string(Warning), Text: text}}, 0, done)
}

// quietOver makes the message about what was left out during a maintenance.
func (m *Machine) quietOver(q Quiet, done Progress) Message {
	level := Info
	if q.Warnings > 0 {
		level = Warning
	}
	text := fmt.Sprintf("%d entries, %d of them warnings, were left out during the maintenance that was announced at "+
		"%s: they are among the records %d to %d of the journal", q.Left, q.Warnings, q.Since.Format(time.RFC3339),
		q.First, q.Last)
	return m.message(cloudEvent{ID: fmt.Sprintf("quiet-%d-%d", q.By, q.Last), Type: TypeQuiet, Level: string(level),
		Data: &view.NoticeQuiet{Level: string(level), Text: text, Since: q.Since, Until: q.Until, Left: q.Left,
			Warnings: q.Warnings, First: q.First, Last: q.Last}}, 0, done)
}

// Test makes the message that tries a receiver of a unit. It is no part of what the receiver is told in order.
func Test(unit, id string, now time.Time, r *Receiver) Message {
	m := Machine{unit: unit}
	text := "this is a test of the notices to " + r.Name
	return m.message(cloudEvent{ID: "test-" + id, Type: TypeTest, Time: now.UTC(), Level: string(Info),
		Data: &view.NoticeGone{Level: string(Info), Text: text}}, 0, Progress{})
}

// Sign returns the value of HeaderSignature for a message that is sent at a time.
func (s Secret) Sign(id string, at time.Time, body []byte) string {
	h := hmac.New(sha256.New, s[:])
	h.Write([]byte(id + "." + Timestamp(at) + ".")) // a hash.Hash never returns an error
	h.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// Timestamp is the value of HeaderTimestamp.
func Timestamp(at time.Time) string { return strconv.FormatInt(at.Unix(), 10) }
