package api

import (
	"os"
	"testing"

	"tandem.internal/controller/internal/tokens"
)

// TestOwnsFiles: of those who reach the socket, root and the controller's own user may say whom a backup is for.
func TestOwnsFiles(t *testing.T) {
	own := uint32(os.Geteuid())
	for _, c := range []struct {
		name string
		who  requester
		want bool
	}{
		{"root", requester{peer: peer{uid: 0, known: true}}, true},
		{"the controller's user", requester{peer: peer{uid: own, known: true}}, true},
		{"a member of the group", requester{peer: peer{uid: own + 1000, known: true}}, false},
		{"nobody knows", requester{}, false},
		{"a token", requester{peer: peer{uid: 0, known: true}, bearer: &tokens.Bearer{}}, false},
	} {
		if got := c.who.OwnsFiles(); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
