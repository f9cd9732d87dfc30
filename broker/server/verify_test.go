package server

import (
	"errors"
	"testing"

	"github.com/mochi-mqtt/server/v2/packets"
)

// TestVerify: a client whose certificate proves an identity may claim no other, and needs no password. For a client
// whose certificate proves none, Auth is called.
func TestVerify(t *testing.T) {
	who, refuse := "", error(nil)
	s := serve(t, Config{Passwords: passwords, Verify: func(ConnectInfo) (string, error) { return who, refuse }}, nil)
	for _, c := range []struct {
		name, proved string
		err          error
		user, id     string
		ok           bool
	}{
		{"proved", "node/n1", nil, "node/n1", "node/n1", true},
		{"proved, another user name", "node/n1", nil, "node/n2", "node/n2", false},
		{"proved, another client ID", "node/n1", nil, "node/n1", "node/n2", false},
		{"proved, another role", "node/n1", nil, "controller", "controller", false},
		{"the controller without a password", "controller", nil, "controller", "controller", true},
		{"the cloud without a password", "cloud/eu", nil, "cloud/eu", "cloud/eu", true},
		{"revoked", "", errors.New("revoked"), "node/n1", "node/n1", false},
		{"nothing proved", "", nil, "node/n1", "node/n1", true},
		{"nothing proved, a role with a password", "", nil, "controller", "controller", false},
		{"nonsense proved", "root", nil, "root", "root", false},
	} {
		who, refuse = c.proved, c.err
		ack := s.dial(t).connect(c.user, func(pk *packets.Packet) { pk.Connect.ClientIdentifier = c.id })
		if ok := ack.ReasonCode == 0; ok != c.ok {
			t.Errorf("%s: CONNACK %d, want success %v", c.name, ack.ReasonCode, c.ok)
		}
	}
}
