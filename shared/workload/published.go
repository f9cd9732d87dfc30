package workload

import (
	"errors"
	"slices"

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
	if err := signedBy(a.Signer(), keys.IDs()); err != nil {
		return err
	}
	sig, err := publisher.Parse(a.Verification.Minisign)
	switch {
	case err != nil:
	case !holds(a.Verification.Checksum):
		err = errors.New(unheld)
	case digest == nil:
		err = keys.Check(sig)
	default:
		err = keys.Verify(sig, digest)
	}
	if err != nil {
		return unpublished(wire.CodeBadSignature, "its signature does not count: "+err.Error(), keys.IDs())
	}
	return nil
}

// signedBy says what is wrong with a signer where a key with one of these IDs is demanded.
func signedBy(signer publisher.ID, ids []publisher.ID) *wire.Error {
	switch {
	case signer == "":
		return unpublished(wire.CodeUnsigned, "it is not signed", ids)
	case !slices.Contains(ids, signer):
		return unpublished(wire.CodeUnknownKey, "it is signed with the key "+string(signer), ids)
	}
	return nil
}

func unpublished(code wire.Code, why string, ids []publisher.ID) *wire.Error {
	return wire.New(code, "", why+"; this node runs only what the owner of a publisher's key has signed: "+
		publisher.JoinIDs(ids, ", "))
}

// NotPublished is the error of a resource of a slot on a node that demands a publisher's key with one of these IDs, and
// of which no more is known; nil: its signer is one of them.
func NotPublished(s Slot, name string, signer publisher.ID, ids []publisher.ID) *wire.Error {
	return Unpublished(s, name, signedBy(signer, ids))
}

// Unpublished is what Published says, of a resource of a slot; nil for nil.
func Unpublished(s Slot, name string, err *wire.Error) *wire.Error {
	if err == nil {
		return nil
	}
	return wire.New(err.Code, strictjson.Member(atResources, name)+"/verification/minisign", About(s, "resource "+
		strictjson.Show(name)+": "+err.Message))
}
