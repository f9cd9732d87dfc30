package seal

import (
	"time"

	"tandem.internal/shared/wire"
)

// SubmissionPreimage returns the text that the signature of a submission on inbox/{what} covers: a first line, then one
// for each field, its name, a space and its value, in this order. A field that is absent has no line, so fields can be
// added to the end; a receiver refuses a submission with a field that it does not know. The document is covered by the
// hash of its exact bytes.
func SubmissionPreimage(unit, what string, s *wire.Submission) []byte {
	b := make([]byte, 0, 256)
	b = append(b, "tandem/1/submission\n"...)
	for _, f := range []struct{ name, value string }{
		{"unit", unit},
		{"what", what},
		{"id", s.ID},
		{"from", s.From},
		{"time", s.Time.UTC().Format(time.RFC3339Nano)},
		{"mode", string(s.Mode)},
		{"confirmWithin", s.ConfirmWithin},
		{"force", map[bool]string{true: "true"}[s.Force]},
		{"document", wire.Hash(s.Document)},
	} {
		if f.value != "" {
			b = line(b, f.name+" "+f.value)
		}
	}
	return b
}

// AnswerPreimage returns the text that the signature of an answer on outbox/{what} covers, as SubmissionPreimage does.
// Of an error it covers the code.
func AnswerPreimage(unit, what string, a *wire.Answer) []byte {
	b := make([]byte, 0, 256)
	b = append(b, "tandem/1/answer\n"...)
	code := ""
	if a.Error != nil {
		code = string(a.Error.Code)
	}
	for _, f := range []struct{ name, value string }{
		{"unit", unit},
		{"what", what},
		{"id", a.ID},
		{"version", a.Version},
		{"state", a.State},
		{"error", code},
		{"time", a.Time.UTC().Format(time.RFC3339Nano)},
		{"of", a.Of},
	} {
		if f.value != "" {
			b = line(b, f.name+" "+f.value)
		}
	}
	return b
}
