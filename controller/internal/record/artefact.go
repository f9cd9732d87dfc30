package record

import "time"

// Artefact is the data of a record about the store of artefacts. Type is the type of its record.
type Artefact interface {
	Type() Type
	artefact()
}

// ArtefactLeasedData says that an upload has its room until it expires; it takes the place of the one before.
type ArtefactLeasedData struct {
	Digest  string    `json:"digest"` // sha256: and 64 hexadecimal digits
	Size    int64     `json:"size"`   // bytes
	Name    string    `json:"name,omitempty"`
	Expires time.Time `json:"expires"`
}

// ArtefactAddedData says that what a lease was for is in the store: from now on it is visible.
type ArtefactAddedData struct {
	Digest string `json:"digest"`
	Size   int64  `json:"size"`
	Chunks string `json:"chunks"` // hash of the list of the SHA-256 of each MiB
}

// ArtefactRemovedData says that an artefact, or what is there of it, does not count any more.
type ArtefactRemovedData struct {
	Digest string `json:"digest"`
	Reason string `json:"reason,omitempty"`
	Upload bool   `json:"upload,omitzero"` // only an upload of it: an artefact that it was to replace stays
}

// Type implements Artefact.
func (ArtefactLeasedData) Type() Type { return ArtefactLeased }

// Type implements Artefact.
func (ArtefactAddedData) Type() Type { return ArtefactAdded }

// Type implements Artefact.
func (ArtefactRemovedData) Type() Type { return ArtefactRemoved }

func (ArtefactLeasedData) artefact()  {}
func (ArtefactAddedData) artefact()   {}
func (ArtefactRemovedData) artefact() {}
