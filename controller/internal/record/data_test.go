package record

import (
	"fmt"
	"testing"

	"tandem.internal/controller/internal/view"
)

// Every type that is written has data that is read back; the data of another type is no panic.
func TestDecodeKnowsEveryTypeThatIsWritten(t *testing.T) {
	for _, typ := range Types() {
		data, err := Decode(typ, []byte(`{}`))
		if known := data != nil || err != nil; !known {
			t.Errorf("%s: %T, %v", typ, data, err)
		}
	}
}

func TestEncodedDataIsReadBack(t *testing.T) {
	for typ, data := range map[Type]any{
		Opened:      OpenedData{Version: "1.2.3", Epoch: 7, Online: true},
		Accepted:    Verdict{ID: "a", Version: "1.0.0", Checks: view.Checks{Asked: 2, Agreed: 2}},
		Issued:      IssuedData{Epoch: 7, Version: "1.0.0", Docs: []IssuedDoc{{Hash: "h", Nodes: []string{"n1"}}}},
		Settings:    SettingsData{Scope: view.Scope{All: true}},
		Note:        view.Remark{Text: "hello"},
		Revoked:     RevokedData{Subject: "node/n1"},
		Forgotten:   ForgottenData{Reason: "scrapped"},
		JoinRefused: JoinRefusedData{Subject: "node/n1", Count: 3},
		Keys:        KeysData{Did: RetireKey, Keys: SigningKeys{Rev: 3, Retired: []string{"k"}}},
	} {
		got, err := Decode(typ, Encode(data))
		if err != nil || fmt.Sprint(got) != fmt.Sprint(data) {
			t.Errorf("%s: %+v, %v; not %+v", typ, got, err, data)
		}
		if e, ok := data.(Enrolment); ok && e.Type() != typ {
			t.Errorf("%T is of type %s, not %s", data, e.Type(), typ)
		}
	}
}
