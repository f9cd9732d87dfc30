package signing

import (
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/publisher/publishertest"
	"tandem.internal/shared/rootlist"
	"tandem.internal/shared/wire"
)

// Which lists of a root key are taken, and why others are not. What is refused leaves what is kept as it was.
func TestImportRoot(t *testing.T) {
	fresh := func(after time.Duration, roots ...byte) *rootlist.List {
		der := []byte("a CA")
		l := &rootlist.List{Unit: "u1", Number: uint64(now.Add(after).Unix()), CAs: [][]byte{der},
			Signs: jointoken.FingerprintOf(der).String(), UnitKeys: []wire.Key{key(1)}}
		for _, r := range roots {
			l.Roots = append(l.Roots, publishertest.New(r).Public())
		}
		return l
	}
	signed := func(by byte, l *rootlist.List) rootlist.Signed {
		t.Helper()
		b, err := l.Encode()
		if err != nil {
			t.Fatal(err)
		}
		return rootlist.Signed{List: b, Signature: publishertest.New(by).SignAs(b, l.Comment())}
	}
	changed := func(change func(*rootlist.List)) rootlist.Signed {
		l := fresh(time.Minute, 1)
		change(l)
		return signed(1, l)
	}
	other := []byte("another CA")
	kept := []rootlist.Signed{signed(1, fresh(0, 1))}
	for _, c := range []struct {
		name  string
		have  []rootlist.Signed
		lists []rootlist.Signed
		code  wire.Code
		want  string
	}{
		{"the first", nil, []rootlist.Signed{signed(2, fresh(0, 2))}, "", ""},
		{"the next", kept, []rootlist.Signed{signed(1, fresh(time.Minute, 1))}, "", ""},
		{"the next root", kept, []rootlist.Signed{signed(1, fresh(time.Minute, 1, 2)), signed(2, fresh(time.Hour, 2))},
			"", ""},
		{"nothing", nil, nil, wire.CodeMissing, "no list"},
		{"no list", kept, []rootlist.Signed{{}}, wire.CodeBadValue, "not a list"},
		{"no first list", nil, []rootlist.Signed{{}}, wire.CodeBadValue, "not a list"},
		{"no signature", nil, []rootlist.Signed{{List: kept[0].List}}, wire.CodeBadValue, "its signature"},
		{"another key", kept, []rootlist.Signed{signed(2, fresh(time.Minute, 2))}, wire.CodeUnknownKey, "not known"},
		{"another key at first", nil, []rootlist.Signed{signed(2, fresh(0, 1))}, wire.CodeUnknownKey, "not known"},
		{"a forged one", kept, []rootlist.Signed{{List: signed(1, fresh(time.Minute, 1)).List,
			Signature: kept[0].Signature}}, wire.CodeBadSignature, "another content"},
		{"the same", kept, kept, wire.CodeStale, "no newer"},
		{"an older one", kept, []rootlist.Signed{signed(1, fresh(-time.Hour, 1))}, wire.CodeStale, "no newer"},
		{"of a time to come", kept, []rootlist.Signed{signed(1, fresh(25*time.Hour, 1))}, wire.CodeBadValue,
			"a time to come"},
		{"another unit's", kept, []rootlist.Signed{changed(func(l *rootlist.List) { l.Unit = "u2" })},
			wire.CodeWrongTarget, "another unit"},
		{"without who signed", kept, []rootlist.Signed{signed(1, fresh(time.Minute, 2))}, wire.CodeBadSignature,
			"not among the root keys"},
		{"of other CAs", kept, []rootlist.Signed{changed(func(l *rootlist.List) {
			l.CAs, l.Signs = [][]byte{other}, jointoken.FingerprintOf(other).String()
		})}, wire.CodeWrongState, "have changed"},
		{"of a CA more", kept, []rootlist.Signed{changed(func(l *rootlist.List) { l.CAs = append(l.CAs, other) })},
			wire.CodeWrongState, "have changed"},
		{"where another certifies", kept, []rootlist.Signed{changed(func(l *rootlist.List) {
			l.CAs, l.Signs = append(l.CAs, other), jointoken.FingerprintOf(other).String()
		})}, wire.CodeWrongState, "have changed"},
		{"of other keys", kept, []rootlist.Signed{changed(func(l *rootlist.List) {
			l.UnitKeys = []wire.Key{key(2)}
		})}, wire.CodeWrongState, "have changed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			data, err := ImportRoot(now, c.have, RootOrder{Unit: "u1", Lists: c.lists, Now: *fresh(0, 1)})
			if c.code != "" {
				if e := wire.AsError(err); err == nil || e.Code != c.code || !strings.Contains(e.Message, c.want) ||
					len(data.Lists) != 0 {
					t.Errorf("%v, want %s with %q", err, c.code, c.want)
				}
				return
			}
			last := c.lists[len(c.lists)-1]
			if err != nil || data.Check() != nil || string(data.Lists[len(data.Lists)-1].List) != string(last.List) ||
				data.By != string(last.Signer()) {
				t.Errorf("%+v %v", data, err)
			}
			if bad := (record.RootData{Number: data.Number + 1, Lists: data.Lists}); bad.Check() == nil {
				t.Error("a number that no list has")
			}
		})
	}
	if (record.RootData{}).Check() == nil {
		t.Error("a record without a list")
	}
}
