package join

import (
	"bytes"
	"errors"
	"net/http"
	"strings"

	"tandem.internal/controller/internal/ca"
	"tandem.internal/shared/wire"
)

// renewing returns who renews. In a unit with a root key it may be a node whose CA does not count any more, by its key:
// package enrol looks whether that is the one that was certified under the serial number.
func (d *Door) renewing(r *http.Request) (ca.Peer, error) {
	peer, err := d.cfg.CA.PeerOf(r.TLS)
	if err == nil || d.cfg.Core.DoorRoot() == nil {
		return peer, err
	}
	if peer, err = d.cfg.CA.KeyedPeer(r.TLS); err == nil && !strings.HasPrefix(peer.Subject, "node/") {
		err = errors.New("only nodes follow a root key")
	}
	return peer, err
}

// root sends what a root key has signed, to whoever asks: nobody has to vouch for it.
func (d *Door) root(_ *http.Request, body []byte, _ string) ([]byte, error) {
	if err := empty(body); err != nil {
		return nil, err
	}
	chain := d.cfg.Core.DoorRoot()
	if chain == nil {
		return nil, wire.New(wire.CodeNotFound, "", "this unit has no root key")
	}
	return chain, nil
}

func empty(body []byte) error {
	if string(bytes.TrimSpace(body)) != "{}" {
		return wire.New(wire.CodeMalformed, "", "an empty object is expected")
	}
	return nil
}
