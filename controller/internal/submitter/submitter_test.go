package submitter

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tandem.internal/shared/seal"
	"tandem.internal/shared/wire"
)

var now = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

func key(seed byte) ed25519.PrivateKey { return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, 32)) }

func public(seed byte) string {
	return base64.StdEncoding.EncodeToString(key(seed).Public().(ed25519.PublicKey))
}

func listed(t *testing.T, text string) List {
	t.Helper()
	l := List{filepath.Join(t.TempDir(), "submitters")}
	if err := os.WriteFile(l.Path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return l
}

func TestVerify(t *testing.T) {
	l := listed(t, "# who may\n\nfleet "+public(1)+"\n  plant "+public(2)+" config,health \n")
	for _, c := range []struct {
		name   string
		seed   byte
		what   string
		change func(m *wire.Submission) // after it was signed
		who    string
		code   wire.Code
	}{
		{"good", 1, "config", nil, "submitter/fleet", ""},
		{"any kind", 1, "workloads", nil, "submitter/fleet", ""},
		{"its kind", 2, "config", nil, "submitter/plant", ""},
		{"another kind", 2, "workloads", nil, "", wire.CodeNotAllowed},
		{"a stranger", 3, "config", nil, "", wire.CodeUnknownKey},
		{"unsigned", 1, "config", func(m *wire.Submission) { m.Sig = nil }, "", wire.CodeUnsigned},
		{"another's name of a key", 3, "config",
			func(m *wire.Submission) { m.Sig.KeyID = seal.NewSigner(key(1)).Key().ID },
			"", wire.CodeBadSignature},
		{"another document", 1, "config", func(m *wire.Submission) { m.Document = []byte(`{"b":1}`) }, "",
			wire.CodeBadSignature},
		{"another ID", 1, "config", func(m *wire.Submission) { m.ID = "t" }, "", wire.CodeBadSignature},
		{"another sender", 1, "config", func(m *wire.Submission) { m.From = "t" }, "", wire.CodeBadSignature},
		{"another mode", 1, "config", func(m *wire.Submission) { m.Mode = wire.ModeApply }, "", wire.CodeBadSignature},
		{"another limit", 1, "config", func(m *wire.Submission) { m.ConfirmWithin = "PT9M" }, "",
			wire.CodeBadSignature},
		{"forced", 1, "config", func(m *wire.Submission) { m.Force = true }, "", wire.CodeBadSignature},
		{"in waves", 1, "config", func(m *wire.Submission) { m.Rollout = []byte(`{"waves":[]}`) }, "",
			wire.CodeBadSignature},
		{"another time", 1, "config", func(m *wire.Submission) { m.Time = m.Time.Add(1) }, "", wire.CodeBadSignature},
	} {
		m := &wire.Submission{V: wire.Version, ID: "s", From: "f", Mode: wire.ModeTry, ConfirmWithin: "PT2M", Time: now,
			Document: []byte(`{"a":1}`)}
		m.Sig = seal.NewSigner(key(c.seed)).Sign(seal.SubmissionPreimage("u1", c.what, m))
		if c.change != nil {
			c.change(m)
		}
		who, err := l.Verify("u1", c.what, m, now)
		if who != c.who || (err == nil) != (c.code == "") || err != nil && err.Code != c.code {
			t.Errorf("%s: %q, %v", c.name, who, err)
		}
	}
}

// A submission is for one unit, one topic and one time, and counts while its submitter is in the file.
func TestVerifyElsewhere(t *testing.T) {
	l := listed(t, "fleet "+public(1)+"\n")
	m := &wire.Submission{V: wire.Version, ID: "s", From: "f", Time: now, Document: []byte(`{"a":1}`)}
	m.Sig = seal.NewSigner(key(1)).Sign(seal.SubmissionPreimage("u1", "config", m))
	for _, c := range []struct {
		unit, what string
		now        time.Time
		code       wire.Code
	}{
		{"u1", "config", now.Add(Window), ""},
		{"u1", "config", now.Add(-Window), ""},
		{"u1", "config", now.Add(Window + 1), wire.CodeExpired},
		{"u1", "config", now.Add(-Window - 1), wire.CodeExpired},
		{"u2", "config", now, wire.CodeBadSignature},
		{"u1", "workloads", now, wire.CodeBadSignature},
		{"u1", "Config", now, wire.CodeBadSignature},
	} {
		_, err := l.Verify(c.unit, c.what, m, c.now)
		if (err == nil) != (c.code == "") || err != nil && err.Code != c.code {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if err := os.WriteFile(l.Path, []byte("plant "+public(2)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Verify("u1", "config", m, now); err == nil || err.Code != wire.CodeUnknownKey {
		t.Errorf("it was taken out of the file: %v", err)
	}
	if err := os.Remove(l.Path); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Verify("u1", "config", m, now); err == nil || err.Code != wire.CodeStorage {
		t.Errorf("there is no file: %v", err)
	}
}

func TestRead(t *testing.T) {
	for text, want := range map[string]string{
		"fleet": "line 1: a line is NAME KEY",
		"# x\nfleet " + public(1) + " config more":          "line 2: a line is NAME KEY",
		"fl/eet " + public(1):                               `line 1: "fl/eet" is no name`,
		"fleet AAAA":                                        "line 1: the key of fleet is not",
		"fleet " + public(1)[1:]:                            "line 1: the key of fleet is not",
		"a " + public(1) + "\nb " + public(1):               "line 2: a and b have the same name or key",
		"a " + public(1) + "\na " + public(2):               "line 2: a and a have the same name or key",
		strings.Repeat("#", maxFile+1):                      "larger than",
		"a " + public(1) + "\n" + strings.Repeat("x", 70e3): "too long",
	} {
		if _, err := listed(t, text).Read(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v", text, err)
		}
	}
	l := listed(t, "a "+public(1))
	if err := os.Chmod(l.Path, 0o620); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Read(); err == nil || !strings.Contains(err.Error(), "chmod go-w") {
		t.Errorf("others may write it: %v", err)
	}
	fifo := List{filepath.Join(t.TempDir(), "fifo")}
	if err := syscall.Mkfifo(fifo.Path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := fifo.Read(); err == nil || !strings.Contains(err.Error(), "regular") {
		t.Errorf("a FIFO: %v", err)
	}
}
