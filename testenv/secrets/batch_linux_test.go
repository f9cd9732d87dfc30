package secrets

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tandem.internal/shared/jointoken"
	"tandem.internal/testenv/proc"
)

// joinByBatch has a machine join as n3 with the token of a batch, from a file as it stands on a boot partition, when
// somebody has approved it. Everything that is printed is searched.
func joinByBatch(t *testing.T, u *proc.Unit, s *search) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tandem-join.yaml")
	told := func(args ...string) {
		t.Helper()
		o := u.Tandem(args...)
		s.look("tandem "+strings.Join(args, " "), []byte(o.Out+o.Errors))
		if o.Status != 0 {
			t.Fatalf("tandem %q: %+v", args, o)
		}
	}
	o := u.Tandem("enrol", "batch", "create", "line4", "--count", "2", "--from", "127.0.0.0/8", "--out", file)
	text, err := os.ReadFile(file)
	if err != nil || o.Status != 0 {
		t.Fatal(o, err)
	}
	_, token, _ := strings.Cut(string(text), "\ntoken: ")
	parsed, err := jointoken.Parse(token)
	if err != nil {
		t.Fatal(err)
	}
	s.plant("the token of the batch", []byte(strings.TrimSpace(token)))
	s.plant("the secret in the token of the batch", parsed.Secret[:])
	s.plant("the secret of the batch as it is sent", []byte(hex.EncodeToString(parsed.Secret[:])))
	s.look("tandem enrol batch create", []byte(o.Out+o.Errors))
	join := func(status int, says string) {
		t.Helper()
		o := proc.Run(t, u.Dir, nil, proc.Binary(t, "tandem-node"), "join", "--config", file, "--node", "n3",
			"--state-dir", u.StateDir("n3"))
		s.look("tandem-node join of n3", []byte(o.Out+o.Errors))
		if o.Status != status || !strings.Contains(o.Out+o.Errors, says) {
			t.Fatalf("n3 joins by a batch: %+v", o)
		}
	}
	join(1, "n3 waits for approval; its key is ")
	told("enrol", "pending", "--json")
	told("enrol", "approve", "n3")
	join(0, "this is now node n3")
	s.plant("the key of n3", scalar(t, nodeKey(t, u.StateDir("n3"))))
	told("enrol", "batch", "list", "--json")
	told("enrol", "batch", "revoke", "line4")
}
