package seal

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"tandem.internal/shared/wire"
)

// The contract prints these; changing one breaks every agent in the field.
func TestPreimagesAreAsWritten(t *testing.T) {
	at := time.Date(2026, 11, 20, 11, 0, 0, 500_000_000, time.FixedZone("x", 3600))
	d := document(0)
	d.Mode, d.ConfirmWithin = wire.ModeTry, "PT2M"
	for _, test := range []struct{ got, want string }{
		{string(DesiredPreimage(d)), "tandem/1/desired\nu1\nn0\nconfig\n3\n1\n2.0.0\n" + d.Hash + "\ntry\nPT2M\n"},
		{string(RequestPreimage(&wire.Request{Unit: "u1", Node: "n1", ID: "i", Method: "report", NotAfter: at})),
			"tandem/1/request\nu1\nn1\ni\nreport\n2026-11-20T10:00:00.5Z\n" +
				"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n"},
		{string(BeaconPreimage(&wire.Beacon{Unit: "u1", Epoch: 3, Up: true, Time: at,
			Keys: []wire.Key{{ID: "k", Ed25519: []byte{0xab, 1}}}, Jitter: "PT30S"})),
			"tandem/1/beacon\nu1\n3\ntrue\n2026-11-20T10:00:00.5Z\nk\nab01\nPT30S\n"},
		{string(BeaconPreimage(&wire.Beacon{Unit: "u1", Epoch: 3, Time: at,
			Keys: []wire.Key{{ID: "k", Ed25519: []byte{0xab, 1}}}, KeysRev: 7})),
			"tandem/1/beacon\nu1\n3\nfalse\n2026-11-20T10:00:00.5Z\nk\nab01\n\nkeys 7\n"},
	} {
		if test.got != test.want {
			t.Errorf("got  %q\nwant %q", test.got, test.want)
		}
	}
}

// field draws a string as an attacker would choose it, one time in five, and otherwise one that
// collides often.
func field(t *rapid.T, label string) string {
	if rapid.IntRange(0, 4).Draw(t, label+"?") > 0 {
		return rapid.SampledFrom([]string{"a", "b"}).Draw(t, label)
	}
	return rapid.OneOf(rapid.SampledFrom([]string{"", "a\n", "\na", "a\nb", "1\n2", "\x00", "a\x00b", "apply", "PT1M"}),
		rapid.StringMatching(`[a-c1-3\n\x00.]{0,4}`)).Draw(t, label)
}

// Two messages that a decoder accepts have the same preimage only if they say the same.
func TestPreimagesAreInjective(t *testing.T) {
	decoded := func(t *rapid.T, label string) *wire.Desired {
		d := &wire.Desired{V: wire.Version, Unit: field(t, label+"unit"), Node: field(t, label+"node"),
			Kind:  wire.Kind(field(t, label+"kind")),
			Epoch: rapid.Uint64Range(1, 3).Draw(t, label+"epoch"), Rev: rapid.Uint64Range(1, 3).Draw(t, label+"rev"),
			Version: field(t, label+"version"),
			Hash:    wire.Hash([]byte(rapid.SampledFrom([]string{"1", "2"}).Draw(t, label+"body"))),
			Issued:  time.Unix(1, 0), Body: jsontext.Value("1"),
			Mode: rapid.SampledFrom([]wire.Mode{wire.ModeApply, wire.ModeTry}).Draw(t, label+"mode"),
			ConfirmWithin: rapid.SampledFrom([]string{"PT1M", "PT1M", "PT1M", "PT2M", "", "PT1M\n"}).Draw(t, label+
				"within")}
		if d.Mode == wire.ModeApply {
			d.ConfirmWithin = ""
		}
		out, err := wire.Decode[wire.Desired](wire.Encode(d))
		if err != nil {
			return nil
		}
		return out
	}
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		a, b := decoded(t, "a "), decoded(t, "b ")
		if a == nil || b == nil {
			return
		}
		accepted++
		if bytes.Count(DesiredPreimage(a), []byte("\n")) != 10 {
			t.Fatalf("%q", DesiredPreimage(a))
		}
		same := a.Unit == b.Unit && a.Node == b.Node && a.Kind == b.Kind && a.Stamp() == b.Stamp() &&
			a.Version == b.Version && a.Hash == b.Hash &&
			a.Mode == b.Mode && a.ConfirmWithin == b.ConfirmWithin
		if bytes.Equal(DesiredPreimage(a), DesiredPreimage(b)) != same {
			t.Fatalf("%q\n%q", DesiredPreimage(a), DesiredPreimage(b))
		}
	})
	t.Logf("%d pairs", accepted)
	if accepted == 0 {
		t.Error("no message was valid: the test looks at nothing")
	}
	// Nor does what is refused look like what is accepted.
	evil, good := document(0), document(0)
	evil.Unit, evil.Node, evil.Kind = "u1\nn0", "config", ""
	good.Unit, good.Node, good.Kind = "u1", "n0", "config"
	if bytes.HasPrefix(DesiredPreimage(evil), []byte("tandem/1/desired\nu1\nn0\n")) ||
		!bytes.HasPrefix(DesiredPreimage(good), []byte("tandem/1/desired\nu1\nn0\n")) {
		t.Error("a line feed within a field is a line feed of the preimage")
	}
}

// The same holds for requests and beacons, whose free fields are fewer.
func TestOtherPreimagesAreInjective(t *testing.T) {
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		request := func(label string) *wire.Request {
			r := &wire.Request{V: 1, Unit: "u", Node: field(t, label+"node"), ID: field(t, label+"id"),
				Method:   wire.Method(field(t, label+"method")),
				NotAfter: time.Unix(rapid.Int64Range(0, 2).Draw(t, label+"after"), 0),
				Params:   jsontext.Value(rapid.SampledFrom([]string{"", "{}", "{ }"}).Draw(t, label+"params"))}
			out, err := wire.Decode[wire.Request](wire.Encode(r))
			if err != nil {
				return nil
			}
			return out
		}
		a, b := request("a "), request("b ")
		if a != nil && b != nil {
			accepted++
			same := a.Node == b.Node && a.ID == b.ID && a.Method == b.Method && a.NotAfter.Equal(b.NotAfter) &&
				string(a.Params) == string(b.Params)
			if bytes.Equal(RequestPreimage(a), RequestPreimage(b)) != same {
				t.Fatalf("%+v\n%+v", a, b)
			}
		}
		beacon := func(label string) *wire.Beacon {
			m := &wire.Beacon{V: 1, Unit: "u", Epoch: 1, Time: time.Unix(1, 0),
				KeysRev: rapid.SampledFrom([]uint64{0, 1, 11}).Draw(t, label+"rev"),
				Jitter:  rapid.SampledFrom([]string{"", "PT1S"}).Draw(t, label+"jitter")}
			for range rapid.IntRange(0, 2).Draw(t, label+"keys") {
				m.Keys = append(m.Keys, wire.Key{ID: rapid.SampledFrom([]string{"a", "b", "1", "PT1S"}).Draw(t, label+
					"kid"), Ed25519: bytes.Repeat([]byte{byte(rapid.IntRange(0, 1).Draw(t, label+"key"))}, 32)})
			}
			out, err := wire.Decode[wire.Beacon](wire.Encode(m))
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
		c, d := beacon("c "), beacon("d ")
		same := c.Jitter == d.Jitter && c.KeysRev == d.KeysRev &&
			slices.EqualFunc(c.Keys, d.Keys, func(a, b wire.Key) bool {
				return a.ID == b.ID &&
					bytes.Equal(a.Ed25519, b.Ed25519)
			})
		if bytes.Equal(BeaconPreimage(c), BeaconPreimage(d)) != same {
			t.Fatalf("%+v\n%+v", c, d)
		}
	})
	t.Logf("%d pairs", accepted)
	if accepted == 0 {
		t.Error("no request was valid: the test looks at nothing")
	}
}
