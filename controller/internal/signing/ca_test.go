package signing

import (
	"fmt"
	"strings"
	"testing"

	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/wire"
)

func fingerprint(n int) string { return fmt.Sprintf("sha256:%016x%048x", n, n) }

// caUnit is a list of CAs, and who depends on them.
type caUnit struct {
	cas              record.Authorities
	unaware, needing []string
}

func (u *caUnit) use() CAUse {
	return CAUse{Unaware: func(record.Authority) []string { return u.unaware },
		Needing: func(record.Authority) []string { return u.needing }}
}

func (u *caUnit) order(t *testing.T, do record.KeyStep, n int, force bool) (record.CAData, error) {
	t.Helper()
	before := fmt.Sprint(u.cas)
	o := CAOrder{Do: do, CA: fingerprint(n), First: fingerprint(1), Force: force, Who: "ann"}
	if do == record.SignWithKey || do == record.RetireKey {
		o.CA = record.CAID(o.CA)
	}
	data, err := ChangeCA(now, u.cas, o, u.use())
	if fmt.Sprint(u.cas) != before {
		t.Errorf("%s %d changed the list before", do, n)
	}
	if err == nil {
		u.cas = data.CAs
		if err := u.cas.Check(); err != nil {
			t.Errorf("%s %d: %v", do, n, err)
		}
		if data.CA != fingerprint(n) || data.Did != do {
			t.Errorf("%s %d: %+v", do, n, data)
		}
	}
	return data, err
}

// The rules of a rotation of the CA: in which order, who stands in the way, and that the number of the list rises.
func TestChangeCA(t *testing.T) {
	u := &caUnit{}
	refused := func(do record.KeyStep, n int, force bool, code wire.Code, with string) {
		t.Helper()
		_, err := u.order(t, do, n, force)
		if e := wire.AsError(err); err == nil || e.Code != code || !strings.Contains(e.Message, with) {
			t.Errorf("%s %d: %v, want %s with %q", do, n, err, code, with)
		}
	}
	must := func(do record.KeyStep, n int, force bool) record.CAData {
		t.Helper()
		rev := u.cas.Rev
		data, err := u.order(t, do, n, force)
		if err != nil || data.CAs.Rev <= rev || data.CAs.Rev < uint64(now.Unix()) {
			t.Fatalf("%s %d: %+v %v", do, n, data, err)
		}
		return data
	}
	refused(record.SignWithKey, 2, true, wire.CodeWrongState, "is not announced")
	refused(record.RetireKey, 1, true, wire.CodeWrongState, "signs; have another one take over first")
	refused(record.RetireKey, 9, true, wire.CodeNotFound, "there is no CA")
	refused(record.AnnounceKey, 1, true, wire.CodeWrongState, "was in use before")
	must(record.AnnounceKey, 2, false)
	refused(record.AnnounceKey, 3, true, wire.CodeWrongState, "is announced already")
	u.unaware = []string{"n3"}
	refused(record.SignWithKey, 2, false, wire.CodeWrongState, "n3 is not known to believe it")
	if d := must(record.SignWithKey, 2, true); !d.Forced || len(d.Missing) != 1 || u.cas.Signs().CA != fingerprint(2) {
		t.Errorf("%+v", d)
	}
	u.needing = []string{"a token for n4", "n3"}
	refused(record.RetireKey, 1, false, wire.CodeWrongState, "a token for n4, n3 are in need of it")
	if v := CAView(u.cas, "", u.use()); len(v.CAs) != 2 || len(v.CAs[0].Missing) != 2 || v.CAs[1].State != "signing" {
		t.Errorf("%+v", v)
	}
	if d := must(record.RetireKey, 1, true); !d.Forced || len(u.cas.List) != 1 {
		t.Errorf("%+v", d)
	}
	refused(record.RetireKey, 1, true, wire.CodeWrongState, "is retired already")
	refused(record.AnnounceKey, 1, true, wire.CodeWrongState, "was in use before")
	// What is only announced can be given up whoever needs it not.
	must(record.AnnounceKey, 5, false)
	if d := must(record.RetireKey, 5, false); d.Forced {
		t.Errorf("%+v", d)
	}
	u.needing, u.unaware = nil, nil
	for n := 6; len(u.cas.List) < record.MaxAuthorities; n++ {
		must(record.AnnounceKey, n, false)
		must(record.SignWithKey, n, false)
	}
	refused(record.AnnounceKey, 20, true, wire.CodeWrongState, "retire one: tandem ca retire")
	if must(record.ReplaceKey, 30, false); len(u.cas.List) != 1 || u.cas.Signs().CA != fingerprint(30) {
		t.Errorf("%+v", u.cas)
	}
	for n := 31; n < 31+maxRetired+5; n++ {
		must(record.ReplaceKey, n, false)
	}
	if len(u.cas.Retired) != maxRetired {
		t.Errorf("%d retired ones are remembered", len(u.cas.Retired))
	}
}
