package wanted

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/cloud"
	"tandem.internal/shared/wire"
)

// TestKeptIsRead: what is taken can be read from the journal again, up to its bound, and a document that cannot be read
// is told of.
func TestKeptIsRead(t *testing.T) {
	fill := func(size int) *wire.Submission {
		text := `{"messageType":"desiredStatus","unitConfig":"`
		text += strings.Repeat("x", size-len(text)-2) + `"}`
		packed := base64.StdEncoding.EncodeToString(cloud.Pack([]byte(text)))
		return &wire.Submission{Document: jsontext.Value(`{"packed":"` + packed + `"}`)}
	}
	data, err := submit(fill(cloud.MaxDocument), record.InboxData{})
	if err != nil {
		t.Fatal(err)
	}
	s := &Status{Document: data.(Change).Document}
	if _, d := Of(s); d == nil || Trouble(s) != "" {
		t.Errorf("%d bytes: %s", len(s.Document), Trouble(s))
	}
	if _, err := submit(fill(cloud.MaxDocument+1), record.InboxData{}); wire.CodeOf(err) != wire.CodeTooLarge {
		t.Errorf("%v", err)
	}
	s = &Status{Document: []byte(`{"items":{}}`), Rev: 7}
	if _, d := Of(s); d != nil || !strings.Contains(Trouble(s), "record 7, cannot be read") ||
		!strings.Contains(Trouble(s), "/items") {
		t.Errorf("%+v %s", d, Trouble(s))
	}
	if Trouble(nil) != "" {
		t.Error(Trouble(nil))
	}
}

// TestMessageTypeIsRequired: a message that does not say that it is a desired status is none, so an empty one stops
// nothing. What was kept does not say it, and is read.
func TestMessageTypeIsRequired(t *testing.T) {
	for _, text := range []string{`{}`, `{"messageType":""}`, `{"correlationId":"7","items":[]}`,
		`{"packed":"` + base64.StdEncoding.EncodeToString(cloud.Pack([]byte(`{}`))) + `"}`} {
		_, err := submit(&wire.Submission{Document: jsontext.Value(text)}, record.InboxData{})
		if wire.CodeOf(err) != wire.CodeMissing || err.Path != "/messageType" ||
			!strings.Contains(err.Message, "must be desiredStatus") {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := submit(&wire.Submission{Document: jsontext.Value(`{"messageType":"desiredStatus"}`)},
		record.InboxData{}); err != nil {
		t.Error(err)
	}
	if _, d := Of(&Status{Document: []byte(`{}`)}); d == nil {
		t.Error("what was kept is not read")
	}
}
