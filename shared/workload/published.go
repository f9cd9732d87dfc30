package workload

import (
	"tandem.internal/shared/publisher"
	"tandem.internal/shared/strictjson"
	"tandem.internal/shared/wire"
)

// Signer is the ID of the publisher's key with which the artifact says that it is signed; "": it has no signature.
func (a Artifact) Signer() publisher.ID {
	s, err := publisher.Parse(a.Verification.Minisign)
	if err != nil {
		return ""
	}
	return s.ID()
}

// Published says why an artifact is not one that the owner of a key has signed; nil: it is. digest is that of its
// content, of publisher.NewHash; nil: it is judged as far as can be without. The error's path is "".
func (a Artifact) Published(keys publisher.Keys, digest []byte) *wire.Error {
	err := keys.Judge(a.Verification.Minisign, digest)
	if err == nil && !holds(a.Verification.Checksum) {
		return wire.New(wire.CodeBadSignature, "", "its signature does not count: "+unheld)
	}
	return err
}

// Misplaced says why a publisher's signature of one of its artifacts does not count in a configuration: it is of a part
// of an image, and nothing of that runs outside of a container; nil: it may count. The error's path is "".
func (c *Config) Misplaced(a Artifact) *wire.Error {
	s, err := publisher.Parse(a.Verification.Minisign)
	if c.Contained() || err != nil || !s.ForContainers() {
		return nil
	}
	return wire.New(wire.CodeBadSignature, "", "its signature does not count: it is for containers alone ("+
		publisher.ContainerWord+"), and this is none")
}

// NotPublished is the error of a resource of a slot on a node that demands a publisher's key with one of these IDs, and
// of which no more is known; nil: its signer is one of them.
func NotPublished(s Slot, name string, signer publisher.ID, ids []publisher.ID) *wire.Error {
	return Unpublished(s, name, publisher.SignedBy(signer, ids))
}

// Unpublished is what Published says, of a resource of a slot; nil for nil.
func Unpublished(s Slot, name string, err *wire.Error) *wire.Error {
	if err == nil {
		return nil
	}
	return wire.New(err.Code, strictjson.Member(atResources, name)+"/verification/minisign", About(s, "resource "+
		strictjson.Show(name)+": "+err.Message))
}
