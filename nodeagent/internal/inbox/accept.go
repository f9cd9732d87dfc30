package inbox

import (
	"fmt"
	"time"

	"tandem.internal/shared/duration"
	"tandem.internal/shared/seal"
	"tandem.internal/shared/wire"
)

// Identity is who a node is: what it takes messages for.
type Identity struct{ Unit, Node string }

// Document lets a desired document in (wire.md, Acceptance by a node): size, strict decoding, own
// unit, node and kind, signature, hash. kind is the topic's. The order among documents is
// Step's; the event has no At yet. The error has the code of the first rule that was broken.
func (id Identity) Document(trust seal.Trust, kind wire.Kind, payload []byte) (Desired, *wire.Error) {
	d, err := wire.Decode[wire.Desired](payload)
	if err != nil {
		return Desired{}, wire.AsError(err)
	}
	if err := id.target(d.Unit, d.Node); err != nil {
		return Desired{}, err
	}
	if d.Kind != kind {
		return Desired{}, wire.New(wire.CodeWrongTarget, "/kind",
			fmt.Sprintf("kind %.64q on the topic of kind %.64q", d.Kind, kind))
	}
	if err := trust.Verify(seal.DesiredPreimage(d), d.Sig); err != nil {
		return Desired{}, wire.AsError(err)
	}
	hash := d.Hash
	if len(d.Body) > 0 {
		hash = wire.Hash(d.Body)
	} else if d.Ref != nil {
		hash = d.Ref.Hash
	}
	if hash != d.Hash {
		return Desired{}, wire.New(wire.CodeHashMismatch, "/hash", "the body's hash is "+hash)
	}
	doc := Doc{Stamp: d.Stamp(), Version: d.Version, Hash: d.Hash, Mode: d.Mode, Body: d.Body}
	if d.Mode == wire.ModeTry {
		if within, err := duration.Parse(d.ConfirmWithin); err == nil {
			doc.ConfirmWithin = duration.Duration(within) // Step refuses zero
		}
	}
	return Desired{Doc: doc, Seal: wire.Encode(d.Shown())}, nil
}

// Request lets a request in: size, strict decoding, own unit and node, signature. A sound request
// that came too late is returned with the error CodeExpired, so that it can be answered. wall is
// the controller's clock as the node knows it.
func (id Identity) Request(trust seal.Trust, wall time.Time, payload []byte) (*wire.Request, *wire.Error) {
	r, err := wire.Decode[wire.Request](payload)
	if err != nil {
		return nil, wire.AsError(err)
	}
	if err := id.target(r.Unit, r.Node); err != nil {
		return nil, err
	}
	if err := trust.Verify(seal.RequestPreimage(r), r.Sig); err != nil {
		return nil, wire.AsError(err)
	}
	if len(r.ID) > 256 {
		return nil, wire.New(wire.CodeTooLarge, "/id", "longer than 256 bytes")
	}
	if wall.After(r.NotAfter) {
		return r, wire.New(wire.CodeExpired, "/notAfter", fmt.Sprintf("it was valid until %s; it is %s",
			r.NotAfter.UTC().Format(time.RFC3339), wall.UTC().Format(time.RFC3339)))
	}
	return r, nil
}

func (id Identity) target(unit, node string) *wire.Error {
	if unit != id.Unit {
		return wire.New(wire.CodeWrongTarget, "/unit", fmt.Sprintf("for unit %.64q; this is unit %q", unit, id.Unit))
	}
	if node != id.Node {
		return wire.New(wire.CodeWrongTarget, "/node", fmt.Sprintf("for node %.64q; this is node %q", node, id.Node))
	}
	return nil
}
