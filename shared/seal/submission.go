package seal

import (
	"strconv"
	"time"

	"tandem.internal/shared/wire"
)

// namedField is a field of what is signed: its name and value. One with the value "" is absent.
type namedField struct{ name, value string }

// fields returns a first line, then one for each field that there is: its name, a space and its value.
func fields(first string, all []namedField) []byte {
	b := append(make([]byte, 0, 256), first...)
	b = append(b, '\n')
	for _, f := range all {
		if f.value != "" {
			b = line(b, f.name+" "+f.value)
		}
	}
	return b
}

func timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

func codeOf(e *wire.Error) string {
	if e == nil {
		return ""
	}
	return string(e.Code)
}

// SubmissionPreimage returns the text that the signature of a submission on inbox/{what} covers: a first line, then one
// for each field, its name, a space and its value, in this order. A field that is absent has no line, so fields can be
// added to the end; a receiver refuses a submission with a field that it does not know. The document and the plan of a
// rollout are covered by the hashes of their exact bytes.
func SubmissionPreimage(unit, what string, s *wire.Submission) []byte {
	plan := ""
	if s.Rollout != nil {
		plan = wire.Hash(s.Rollout)
	}
	return fields("tandem/1/submission", []namedField{
		{"unit", unit},
		{"what", what},
		{"id", s.ID},
		{"from", s.From},
		{"time", timestamp(s.Time)},
		{"mode", string(s.Mode)},
		{"confirmWithin", s.ConfirmWithin},
		{"force", map[bool]string{true: "true"}[s.Force]},
		{"document", wire.Hash(s.Document)},
		{"name", s.Name},
		{"allNodes", map[bool]string{true: "true"}[s.AllNodes]},
		{"rollout", plan},
	})
}

// AnswerPreimage returns the text that the signature of an answer on outbox/{what} covers, as SubmissionPreimage does.
// Of an error it covers the code.
func AnswerPreimage(unit, what string, a *wire.Answer) []byte {
	return fields("tandem/1/answer", []namedField{
		{"unit", unit},
		{"what", what},
		{"id", a.ID},
		{"version", a.Version},
		{"state", a.State},
		{"error", codeOf(a.Error)},
		{"time", timestamp(a.Time)},
		{"of", a.Of},
	})
}

// StatusPreimage returns the text that the signature of outbox/status covers, as SubmissionPreimage does. Of an error
// it covers the code, of a part the hash of its data.
func StatusPreimage(unit string, s *wire.UnitStatus) []byte {
	all := []namedField{
		{"unit", unit},
		{"epoch", strconv.FormatUint(s.Epoch, 10)},
		{"rev", strconv.FormatUint(s.Rev, 10)},
		{"time", timestamp(s.Time)},
		{"state", s.State},
		{"version", s.Version},
		{"error", codeOf(s.Error)},
		{"at", timestamp(s.At)},
	}
	if t := s.Trial; t != nil {
		all = append(all, namedField{"trial", t.Version}, namedField{"trialRev", strconv.FormatUint(t.Rev, 10)},
			namedField{"deadline", timestamp(t.Deadline)})
	}
	if p := s.Part; p != nil {
		all = append(all, namedField{"prev", strconv.FormatUint(p.Prev, 10)})
		if p.Prev != 0 {
			all = append(all, namedField{"prevTime", timestamp(p.PrevTime)})
		}
		all = append(all,
			namedField{"part", strconv.Itoa(p.Part)}, namedField{"of", strconv.Itoa(p.Of)},
			namedField{"data", wire.Hash(p.Data)})
	}
	return fields("tandem/1/status", all)
}
