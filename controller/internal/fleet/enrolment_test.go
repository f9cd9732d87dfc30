package fleet

import (
	"slices"
	"testing"
	"time"

	"tandem.internal/controller/internal/enrol"
	"tandem.internal/controller/internal/kinds"
	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/wire"
)

// What follows from each wish, and that replay and checkpoint lead to the same.
func TestEnrolments(t *testing.T) {
	now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	live := New(Options{Kinds: kinds.All(), Unit: "u1", Epoch: 5})
	var journal []record.Record
	step := func(ev enrol.Event) (types []record.Type, admitted []Admission, err error) {
		t.Helper()
		var out Out
		live.Step(now, Enrolment{Ticket: 7, Event: ev, Who: "ann"}, &out)
		for _, r := range out.Records {
			types = append(types, r.Type)
			journal = append(journal, r)
		}
		for i, e := range out.Effects {
			switch e := e.(type) {
			case Admission:
				admitted = append(admitted, e)
			case Answer:
				if e.Ticket != 7 || i != len(out.Effects)-1 {
					t.Errorf("answer %+v at %d of %d", e, i, len(out.Effects))
				}
				err = e.Err
			default:
				t.Errorf("effect %T", e)
			}
		}
		return types, admitted, err
	}
	join := func(node, key, serial string) enrol.Event {
		return enrol.Join{Subject: "node/" + node, Hash: "h", Key: key, Serial: serial, Expires: now.Add(time.Hour),
			CA: "ca", From: "10.0.0.9"}
	}
	byBatch := func(node string) enrol.Event {
		ev := join(node, "k-"+node, "s-"+node).(enrol.Join)
		ev.Hash = "hb"
		return ev
	}
	for i, c := range []struct {
		ev      enrol.Event
		want    []record.Type
		serials []string // of n1, admitted by it; nil: nobody is
		cut     bool
		code    wire.Code
	}{
		{join("n1", "k1", "s0"), []record.Type{record.JoinRefused}, nil, false, wire.CodeNotAllowed},
		{enrol.Enrol{Subject: "node/n1", Hash: "h"}, []record.Type{record.Enrol}, nil, false, ""},
		{join("n1", "k1", "s1"), []record.Type{record.Joined}, []string{"s1"}, true, ""},
		{enrol.Renew{Subject: "node/n1", Serial: "s1", Shown: "k1", Key: "k2", Next: "s2", Expires: now.Add(time.Hour),
			CA: "ca"},
			[]record.Type{record.Renewed}, []string{"s1", "s2"}, false, ""},
		{enrol.Revoke{Subject: "node/n9"}, nil, nil, false, wire.CodeNotFound},
		{enrol.Revoke{Subject: "node/n1"}, []record.Type{record.Revoked}, []string{}, true, ""},
		{enrol.Revoke{Subject: "node/n1"}, nil, nil, false, ""},
		{enrol.NewBatch{Name: "b", Hash: "hb", Count: 2, From: []string{"10.0.0.0/8"}},
			[]record.Type{record.Batch}, nil, false, ""},
		{byBatch("n1"), []record.Type{record.JoinRefused}, nil, false, wire.CodeWrongState},
		{byBatch("n6"), nil, nil, false, wire.CodeUnavailable},
		{enrol.Approve{Nodes: []enrol.Named{{Node: "n6"}}}, []record.Type{record.Batch}, nil, false, ""},
	} {
		now = now.Add(2 * time.Minute)
		types, admitted, err := step(c.ev)
		code := wire.Code("")
		if err != nil {
			code = wire.AsError(err).Code
		}
		if !slices.Equal(types, c.want) || code != c.code || len(admitted) > 1 ||
			(len(admitted) == 1) != (c.serials != nil) {
			t.Errorf("%d: %v %v %v", i, types, admitted, err)
			continue
		}
		if len(admitted) == 1 {
			a := admitted[0]
			if a.Subject != "node/n1" || !slices.Equal(a.Serials, c.serials) || (a.Cut != "") != c.cut ||
				a.Revoked != (len(c.serials) == 0) {
				t.Errorf("%d: %+v", i, a)
			}
		}
		of := "n1"
		switch c.ev.(type) {
		case enrol.NewBatch:
			of = ""
		case enrol.Approve:
			of = "n6"
		}
		if r := journal[len(journal)-1]; len(types) > 0 && (r.Node != of || r.Who != "ann") {
			t.Errorf("%d: %+v", i, r)
		}
		again := New(Options{Kinds: kinds.All(), Unit: "u1", Epoch: 5})
		for _, r := range journal {
			if err := again.Replay(&r); err != nil {
				t.Fatal(err)
			}
		}
		restored, err := Restored(Options{Kinds: kinds.All(), Unit: "u1", Epoch: 5}, live.Checkpoint())
		if err != nil {
			t.Fatal(err)
		}
		for what, f := range map[string]*Fleet{"replay": again, "checkpoint": restored} {
			if string(f.Checkpoint()) != string(live.Checkpoint()) || len(f.Admissions()) != len(live.Admissions()) ||
				f.CA() != live.CA() {
				t.Errorf("%d: %s leads elsewhere:\n%s\n%s", i, what, f.Checkpoint(), live.Checkpoint())
			}
		}
	}
	if id := live.Identity("n1", now); id == nil || id.State != "revoked" || live.Identity("n2", now) != nil ||
		live.CA() != "ca" {
		t.Errorf("%+v", id)
	}
	if got := live.Awaited(now); len(got) != 0 {
		t.Errorf("nobody is awaited, and yet %+v", got)
	}
	for _, name := range []string{"n4", "n3", "n5"} {
		step(enrol.Enrol{Subject: "node/" + name, Hash: "h" + name})
	}
	step(enrol.Join{Subject: "node/n3", Hash: "hn3", Key: "k3", Serial: "s3", Expires: now.Add(time.Hour), CA: "ca"})
	step(enrol.Revoke{Subject: "node/n5"})
	step(enrol.Certify{Subject: "cloud/eu", Key: "k4", Serial: "s4", Expires: now.Add(time.Hour), CA: "ca"})
	if got := live.Awaited(now); len(got) != 2 || got[0].Node != "n3" || got[0].Identity.State != "joined" ||
		got[1].Node != "n4" || got[1].Identity.State != "enrolled" {
		t.Errorf("awaited are %+v", got)
	}
	if got := live.Awaited(now.Add(enrol.TokenLife)); len(got) != 1 || got[0].Node != "n3" {
		t.Errorf("when the token has ended, %+v are awaited", got)
	}
	if err := live.Replay(&record.Record{Seq: 99, Type: record.Joined, Data: []byte("[]")}); err == nil {
		t.Error("a broken record was taken")
	}
}
