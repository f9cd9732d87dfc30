package app

import (
	"fmt"
	"testing"

	"tandem.internal/broker/server"
)

func TestMisconduct(t *testing.T) {
	for _, c := range []struct {
		ev   server.Event
		want string
	}{
		{server.Event{Kind: server.DeniedPublish, ClientID: "cloud/eu", Topic: "t/1"},
			"cloud/eu t/1 not-allowed: denied-publish at the broker"},
		{server.Event{Kind: server.DeniedSubscribe, ClientID: "node/n1", Topic: "#", Detail: "not permitted"},
			"n1 # not-allowed: denied-subscribe at the broker: not permitted"},
		{server.Event{Kind: server.TooLarge, ClientID: "cloud/eu", Detail: "it sent a packet of 9 bytes"},
			"cloud/eu  too-large: too-large at the broker: it sent a packet of 9 bytes"},
		{server.Event{Kind: server.Disconnected, ClientID: "cloud/eu"}, "  <nil>"},
	} {
		node, topic, err := misconduct(c.ev)
		if got := fmt.Sprint(node, " ", topic, " ", err); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
