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

// TestKeptIsRead: what is taken can be read from the journal again. What would grow over the bound as it is kept is
// refused, and a document that cannot be read is told of.
func TestKeptIsRead(t *testing.T) {
	fill := func(start string, size int) *wire.Submission {
		text := start + `"unitConfig":"`
		text += strings.Repeat("x", size-len(text)-2) + `"}`
		packed := base64.StdEncoding.EncodeToString(cloud.Pack([]byte(text)))
		return &wire.Submission{Document: jsontext.Value(`{"packed":"` + packed + `"}`)}
	}
	grows := `{"subjects":[{"type":"user"}],` // an identity is added
	data, err := submit(fill(grows, cloud.MaxDocument-100), record.InboxData{})
	if err != nil {
		t.Fatal(err)
	}
	s := &Status{Document: data.(Change).Document}
	if _, d := Of(s); d == nil || Trouble(s) != "" {
		t.Errorf("%d bytes: %s", len(s.Document), Trouble(s))
	}
	if _, err := submit(fill(grows, cloud.MaxDocument), record.InboxData{}); wire.CodeOf(err) != wire.CodeTooLarge {
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
