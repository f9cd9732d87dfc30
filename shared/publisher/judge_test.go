package publisher_test

import (
	"strings"
	"testing"
	"time"

	"tandem.internal/shared/publisher"
	"tandem.internal/shared/publisher/publishertest"
	"tandem.internal/shared/wire"
)

// A signature counts for the release that its trusted comment begins with, and for no other one.
func TestReleases(t *testing.T) {
	own := publishertest.New(1)
	file := []byte("program")
	want := publisher.Release{Name: "tandem-node", Version: "1.4.0"}
	for comment, ok := range map[string]bool{
		"tandem-node 1.4.0": true, "tandem-node\t1.4.0\tfile:x": true,
		" tandem-node  1.4.0 expires:2027-01-31T00:00:00Z": true,
		"": false, "tandem-node": false, "1.4.0": false, "tandem-node 1.4.0 for:container": false,
		"tandem-node 1.4.1": false, "tandem-node 1.4": false,
		"tandem-node 1.4.0-rc1": false, "os 1.4.0": false, "x tandem-node 1.4.0": false, "tandem-node-1.4.0": false,
		"timestamp:1\tfile:tandem-node\thashed": false, "Tandem-Node 1.4.0": false,
	} {
		for _, sum := range [][]byte{nil, digest(file)} {
			err := own.Keys(t).JudgeRelease(want, own.SignAs(file, comment), sum)
			if (err == nil) != ok || !ok && err.Code != wire.CodeBadSignature {
				t.Errorf("%q: %v", comment, err)
			}
		}
	}
	signed := own.SignAs(file, want.Comment())
	for _, c := range []struct {
		keys publisher.Keys
		text string
		sum  []byte
		want wire.Code
	}{
		{own.Keys(t), "", nil, wire.CodeUnsigned},
		{nil, signed, nil, wire.CodeUnknownKey},
		{publishertest.New(2).As(own).Keys(t), signed, nil, wire.CodeBadSignature},
		{own.Keys(t), signed, digest([]byte("other")), wire.CodeBadSignature},
		{own.Keys(t), strings.Replace(signed, "1.4.0", "1.4.1", 1), nil, wire.CodeBadSignature},
	} {
		if err := c.keys.JudgeRelease(want, c.text, c.sum); err == nil || err.Code != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

// A signature expires when its trusted comment says so, and else never; a word that is nearly that is refused.
func TestExpiry(t *testing.T) {
	own := publishertest.New(1)
	end := time.Date(2027, 1, 31, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		comment string
		want    time.Time
		bad     bool
	}{
		{"hello 1.4.0", time.Time{}, false},
		{"hello expires", time.Time{}, false},
		{"it-expires:soon", time.Time{}, false},
		{"hello " + publisher.Expiry(end), end, false},
		{publisher.Expiry(end) + " hello", end, false},
		{"hello\texpires:2027-01-31T02:00:00+02:00", end, false},
		{"hello expires:", time.Time{}, true},
		{"hello expires:soon", time.Time{}, true},
		{"hello expires:2027-01-31", time.Time{}, true},
		{"hello expires:0001-01-01T00:00:00Z", time.Time{}, true},
		{"hello " + publisher.Expiry(end) + " " + publisher.Expiry(end), time.Time{}, true},
	} {
		text := own.SignAs(nil, c.comment)
		sig, err := publisher.Parse(text)
		if (err != nil) != c.bad || err == nil && !sig.Expires().Equal(c.want) {
			t.Errorf("%q: %v %v", c.comment, sig.Expires(), err)
		}
		for now, over := range map[time.Time]bool{end.Add(-time.Second): false, end: true, end.AddDate(9, 0, 0): true} {
			err := publisher.Expired(text, now)
			if over = over && !c.want.IsZero(); (err != nil) != over || over && err.Code != wire.CodeExpired {
				t.Errorf("%q at %v: %v", c.comment, now, err)
			}
		}
	}
}

// A release of the agent may name the lowest version that is put in force after it; what is nearly that is refused, and
// in a signature of anything else it says nothing.
func TestFloorOfARelease(t *testing.T) {
	own := publishertest.New(1)
	for _, c := range []struct {
		comment, want string
		bad           bool
	}{
		{"tandem-node 1.4.0", "", false},
		{"tandem-node 1.4.0 floor:1.2.0", "1.2.0", false},
		{"tandem-node 1.4.0 expires:2027-01-31T00:00:00Z floor:1.4.0", "1.4.0", false},
		{"tandem-node 1.4.0+b floor:1.4.0-rc.1 file:x", "1.4.0-rc.1", false},
		{"tandem-node 1.4.0 the-floor:1.2.0 floor", "", false},
		{"tandem-node 1.4.0 floor:", "", true},
		{"tandem-node 1.4.0 floor:1.2", "", true},
		{"tandem-node 1.4.0 floor:1.4.1", "", true},
		{"tandem-node 1.4.0 floor:1.2.0 floor:1.2.0", "", true},
		{"tandem-node 7 floor:1.2.0", "", true},
		{"os 1.4.0 floor:9.9.9", "", false},
		{"floor:9.9.9", "", false},
		{"", "", false},
	} {
		text := own.SignAs(nil, c.comment)
		sig, err := publisher.Parse(text)
		if (err != nil) != c.bad || sig.Floor() != c.want {
			t.Errorf("%q: %q %v", c.comment, sig.Floor(), err)
		}
		if altered := strings.Replace(text, "floor:1.2.0", "floor:1.3.0", 1); c.want == "1.2.0" {
			if err := own.Keys(t).Judge(altered, nil); err == nil || err.Code != wire.CodeBadSignature {
				t.Errorf("altered: %v", err)
			}
		}
	}
	for _, c := range []struct {
		version, floor string
		below          bool
	}{
		{"1.4.0", "", false}, {"1.4.0", "1.4.0", false}, {"1.4.0+x", "1.4.0+y", false}, {"1.10.0", "1.9.0", false},
		{"1.4.0-rc.1", "1.4.0", true}, {"1.3.9", "1.4.0", true}, {"dev", "1.4.0", true}, {"dev", "", false},
		{"1.4.0", "x", true},
	} {
		if err := publisher.BelowFloor(c.version, c.floor); (err != nil) != c.below ||
			c.below && err.Code != wire.CodeBelowFloor {
			t.Errorf("%s with the floor %s: %v", c.version, c.floor, err)
		}
	}
	for _, c := range [][3]string{{"", "", ""}, {"1.2.0", "", "1.2.0"}, {"", "1.2.0", "1.2.0"},
		{"1.9.0", "1.10.0", "1.10.0"}, {"1.10.0", "1.9.0", "1.10.0"}} {
		if got := publisher.HigherFloor(c[0], c[1]); got != c[2] {
			t.Errorf("%q and %q: %q", c[0], c[1], got)
		}
	}
}

// A key's text is what it was read from.
func TestKeyText(t *testing.T) {
	for _, k := range known(t, "one", "two") {
		again, err := publisher.ParseKey(k.String())
		if err != nil || again.String() != k.String() || again.ID() != k.ID() ||
			!strings.Contains(string(read(t, "one.pub"))+string(read(t, "two.pub")), k.String()) {
			t.Errorf("%s %v", k, err)
		}
	}
}
