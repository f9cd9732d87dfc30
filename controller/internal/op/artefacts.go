package op

import (
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// Artefacts: files that nodes fetch from the controller.
var (
	ListArtefacts = define(Op[None, Artefacts]{
		Name: "artefacts.list", Route: "GET /v1/artefacts", Role: View,
		About: "Lists the artefacts in the controller's store, oldest first, and the uploads that are open.",
	})
	ShowArtefact = define(Op[ArtefactIn, view.Artefact]{
		Name: "artefact.show", Route: "GET /v1/artefacts/{digest}", Role: View,
		About: "Shows one artefact, and who refers to it. One that is being uploaded has upload, and no added until " +
			"it is there.",
	})
	BeginUpload = define(Op[NewArtefact, view.Upload]{
		Name: "artefact.begin", Route: "POST /v1/artefacts", Role: Operate,
		About: "Makes room for the upload of an artefact, or finds the upload that is open. One that is there " +
			"already is an upload that has ended. A storage says what does not fit, and what would free room.",
	})
	ShowUpload = define(Op[ArtefactIn, view.Upload]{
		Name: "artefact.upload", Route: "GET /v1/artefacts/{digest}/upload", Role: Operate,
		About: "Shows where an upload goes on. The header Upload-Offset says it, too, and Upload-Complete whether it " +
			"has ended: ?1 or ?0.",
	})
	WriteUpload = define(Op[UploadIn, view.Upload]{
		Name: "artefact.write", Route: "PATCH /v1/artefacts/{digest}/upload", Role: Operate,
		About: "Adds bytes to an upload, from the offset that the header Upload-Offset says. At another one than " +
			"comes next it is a wrong-state, with the right one in that header. Whatever arrives is kept, also of a " +
			"request that is cut off. The newest request takes the upload over from one that is still open.",
	})
	CompleteUpload = define(Op[CompleteIn, view.Upload]{
		Name: "artefact.complete", Route: "POST /v1/artefacts/{digest}/complete", Role: Operate,
		About: "Ends an upload: it is read again, and added if it has the digest; a bad-value throws it away. While " +
			"it is verifying the answer says how far it is, after a second; ask again for the end.",
	})
	RemoveArtefact = define(Op[RemoveArtefactIn, RemovedArtefact]{
		Name: "artefact.remove", Route: "POST /v1/artefacts/{digest}/remove", Role: Operate, Optional: true,
		About: "Removes an artefact, or ends an upload. One that something refers to is a wrong-state, which names it.",
	})
)

// Artefacts is what the store has.
type Artefacts struct {
	Artefacts []view.Artefact `json:"artefacts"` // oldest first
	Uploads   []view.Upload   `json:"uploads"`   // that have not ended, by digest
	Reserved  int64           `json:"reserved"`  // bytes of both
	Quota     int64           `json:"quota"`     // bytes that they may have
}

// ArtefactIn names an artefact.
type ArtefactIn struct {
	Digest string `path:"digest" json:"-"` // "sha256:" and 64 lower-case hexadecimal digits
}

// Check judges the digest.
func (in *ArtefactIn) Check() *wire.Error {
	if !wire.ValidHash(in.Digest) {
		return wire.New(wire.CodeInvalidArgument, "", "the digest is sha256: and 64 lower-case hexadecimal digits")
	}
	return nil
}

// NewArtefact says what is to be uploaded.
type NewArtefact struct {
	Digest string `json:"digest"`         // of the content: "sha256:" and 64 lower-case hexadecimal digits
	Size   int64  `json:"size"`           // bytes
	Name   string `json:"name,omitempty"` // for people; at most 128 bytes
}

// UploadIn is a piece of an upload.
type UploadIn struct {
	ArtefactIn
	Offset uint64 `header:"Upload-Offset" need:"yes" max:"1099511627776" json:"-"` // of the first byte of the body
	Bytes  []byte `body:"application/partial-upload" json:"-"`                     // the bytes that come next
}

// CompleteIn names an upload that is to end.
type CompleteIn struct{ ArtefactIn }

// RemoveArtefactIn names an artefact, and says why it goes.
type RemoveArtefactIn struct {
	ArtefactIn
	Revoke
}

// Check judges the digest, and the reason's length.
func (in *RemoveArtefactIn) Check() *wire.Error {
	if err := in.ArtefactIn.Check(); err != nil {
		return err
	}
	return in.Revoke.Check()
}

// RemovedArtefact names what was removed.
type RemovedArtefact struct {
	Digest string `json:"digest"` // of the artefact
}
