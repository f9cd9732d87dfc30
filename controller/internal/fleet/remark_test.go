package fleet

import (
	"testing"

	"tandem.internal/controller/internal/kinds"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// TestRemark: a remark is a record, answered, and changes nothing but the number of records; a
// replay takes it.
func TestRemark(t *testing.T) {
	f := New(Options{Kinds: kinds.All(), Unit: "u1", Epoch: 1})
	var out Out
	f.Step(origin, Remark{Ticket: 7, Who: "token/ann",
		Data: view.Remark{Text: "token bob was made", Token: "bob", Role: "view"}}, &out)
	if len(out.Records) != 1 || len(out.Effects) != 1 {
		t.Fatalf("%+v", out)
	}
	r := out.Records[0]
	if r.Type != record.Note || r.Who != "token/ann" || r.Seq != 1 ||
		string(r.Data) != `{"text":"token bob was made","token":"bob","role":"view"}` {
		t.Errorf("%+v %s", r, r.Data)
	}
	if a, ok := out.Effects[0].(Answer); !ok || a.Ticket != 7 || a.Err != nil {
		t.Errorf("%+v", out.Effects[0])
	}
	again := New(Options{Kinds: kinds.All(), Unit: "u1", Epoch: 1})
	if err := again.Replay(&r); err != nil || again.Seq() != f.Seq() ||
		again.State(wire.KindConfig) != f.State(wire.KindConfig) {
		t.Errorf("%v", err)
	}
}
