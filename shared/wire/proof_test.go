package wire

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

var (
	proofKey   = bytes.Repeat([]byte{7}, ReportKeySize)
	proofHeard = Heard{Epoch: 3, Time: time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)}
)

const (
	proofTopic   = "tandem/1/unit-7/node/7a/ecu-1/live"
	proofMessage = `{"v":1,"node":"ecu-1","boot":"6f1c2a9e","session":2,"up":true,"seqs":{"config":7},"events":12}`
)

// TestProof: what Prove adds comes off again, and whatever is changed in between shows.
func TestProof(t *testing.T) {
	data := Prove(proofKey, proofTopic, []byte(proofMessage), proofHeard)
	message, p := SplitProof(data)
	if string(message) != proofMessage || p == nil || p.Heard != proofHeard || p.Since() != proofHeard {
		t.Fatalf("%s\n%+v", message, p)
	}
	if !p.Verify(proofKey, proofTopic, message) {
		t.Error("its own proof does not hold")
	}
	other := bytes.Clone(proofKey)
	other[31] ^= 1
	if p.Verify(other, proofTopic, message) || p.Verify(proofKey, proofTopic+"x", message) ||
		p.Verify(proofKey, proofTopic, message[1:]) {
		t.Error("another key, topic or message holds")
	}
	for i := range data {
		for bit := range 8 {
			changed := bytes.Clone(data)
			changed[i] ^= 1 << bit
			if m, p := SplitProof(changed); p != nil && p.Verify(proofKey, proofTopic, m) {
				t.Errorf("bit %d of byte %d is not proved: %s", bit, i, changed)
			}
		}
	}
}

// TestNoProof: a message that does not end as Prove ends it has no proof, and stays as it is.
func TestNoProof(t *testing.T) {
	good := string(Prove(proofKey, proofTopic, []byte(proofMessage), proofHeard))
	for name, data := range map[string]string{
		"empty":                "",
		"no proof":             proofMessage,
		"white space at end":   good + "\n",
		"white space inside":   strings.Replace(good, `,"proof":`, `, "proof":`, 1),
		"no padding":           strings.Replace(good, `="}`, `"}`, 1),
		"stray bits":           good[:len(good)-4] + "_" + good[len(good)-3:],
		"another form of time": strings.Replace(good, `10:00:00Z"},"proof`, `10:00:00.0Z"},"proof`, 1),
		"in a detail":          `{"v":1,"detail":{"a":1` + good[len(proofMessage)-1:] + "}",
		"a zero in front":      strings.Replace(good, `"epoch":3`, `"epoch":03`, 1),
		"no epoch":             strings.Replace(good, `"epoch":3`, `"epoch":-3`, 1),
	} {
		if m, p := SplitProof([]byte(data)); p != nil || string(m) != data {
			t.Errorf("%s: %s, %+v", name, m, p)
		}
	}
}

func TestHeardBefore(t *testing.T) {
	for _, other := range []Heard{{4, time.Time{}}, {3, proofHeard.Time.Add(1)}} {
		if !proofHeard.Before(other) || other.Before(proofHeard) {
			t.Errorf("%+v and %+v are in the wrong order", proofHeard, other)
		}
	}
	if proofHeard.Before(proofHeard) {
		t.Error("a beacon is older than itself")
	}
}

// FuzzSplitProof: a proof has one form only.
func FuzzSplitProof(f *testing.F) {
	f.Add(Prove(proofKey, proofTopic, []byte(proofMessage), proofHeard))
	f.Add([]byte(proofMessage))
	f.Fuzz(func(t *testing.T, data []byte) {
		message, p := SplitProof(data)
		if p == nil {
			if !bytes.Equal(message, data) {
				t.Errorf("%q became %q", data, message)
			}
			return
		}
		again := Prove(proofKey, proofTopic, message, p.Heard)
		const mac = base64Size + len(`"}`)
		if len(again) != len(data) || !bytes.Equal(again[:len(again)-mac], data[:len(data)-mac]) {
			t.Errorf("%q reads as %q", data, again)
		}
	})
}

// TestBootNumber: only a name of exactly one form has a number.
func TestBootNumber(t *testing.T) {
	for boot, want := range map[string]uint64{
		"12-0123456789abcdef": 12, "1-ffffffffffffffff": 1, "18446744073709551615-0000000000000000": 1<<64 - 1,
		"": 0, "12": 0, "12-": 0, "6f1c2a9e": 0, "012-0123456789abcdef": 0, "+2-0123456789abcdef": 0,
		"12-0123456789abcdeF": 0, "12-0123456789abcde": 0, "12-0123456789abcdef0": 0, "-0123456789abcdef": 0,
		"18446744073709551616-0000000000000000": 0, "12-01234567-9abcdef": 0,
	} {
		if got := BootNumber(boot); got != want {
			t.Errorf("%q: %d, want %d", boot, got, want)
		}
	}
}
