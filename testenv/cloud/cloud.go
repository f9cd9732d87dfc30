// Package cloud is the cloud side of a test: it signs what it submits over MQTT, and, as a Client, follows what the
// unit says of itself.
package cloud

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tandem.internal/shared/seal"
	"tandem.internal/shared/wire"
)

// Side is a submitter with a key.
type Side struct {
	File   string // names it to a controller, as --submitters
	signer *seal.Signer
	last   time.Time // that something was signed for
}

// New makes a cloud side and its file, in a directory of the test. With kinds it may submit these only.
func New(t testing.TB, kinds ...string) *Side {
	t.Helper()
	public, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &Side{File: filepath.Join(t.TempDir(), "submitters"), signer: seal.NewSigner(key)}
	line := "cloud " + base64.StdEncoding.EncodeToString(public) + " " + strings.Join(kinds, ",") + "\n"
	if err := os.WriteFile(s.File, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// Again is the same side, which does not remember when it signed.
func Again(s *Side) *Side { return &Side{File: s.File, signer: s.signer} }

// Sign signs a submission on inbox/{what} of a unit, at a time, but later than the one before, and returns its payload.
func (s *Side) Sign(unit, what string, m *wire.Submission, at time.Time) []byte {
	if at = at.UTC(); !at.After(s.last) {
		at = s.last.Add(time.Microsecond)
	}
	s.last, m.Time, m.Document = at, at, bytes.TrimSpace(m.Document)
	m.Sig = s.signer.Sign(seal.SubmissionPreimage(unit, what, m))
	return wire.Encode(m)
}
