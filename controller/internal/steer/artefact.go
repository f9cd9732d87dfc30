package steer

import (
	"cmp"
	"strings"

	"tandem.internal/shared/items"
	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// artefact is a file of the controller's store as a resource.
func artefact(b *items.Blob, uuid string) workload.Artifact {
	stored, _ := b.Stored()
	sum := strings.TrimPrefix(b.Digest, wire.HashPrefix)
	return workload.Artifact{Class: workload.Resource, UUID: uuid, URLs: []string{jointoken.ArtefactURL(stored)},
		Size: b.Size, Encrypted: b.Encrypted,
		Verification: workload.Verification{Checksum: workload.SHA256 + ":" + sum, Minisign: b.Minisign}}
}

// unpacked is a packed directory of the controller's store as a resource, or a file at its top.
func unpacked(b *items.Blob, uuid, file string) workload.Artifact {
	a := artefact(b, uuid)
	a.Unpack = &workload.Unpack{DiffID: b.DiffID, Size: cmp.Or(b.Unpacked, workload.MaxUnpacked), Path: file}
	return a
}
