package view

import (
	"strconv"
	"time"

	"tandem.internal/shared/wire"
)

// Artefact is a file in the controller's store.
type Artefact struct {
	Digest string    `json:"digest"`         // SHA-256 of its content: "sha256:" and 64 hexadecimal digits
	Size   int64     `json:"size"`           // bytes
	Name   string    `json:"name,omitempty"` // for people
	Who    string    `json:"who,omitempty"`  // has added it
	Added  time.Time `json:"added,omitzero"` // when; absent: it is not there yet
	// why it is not sent to anybody; absent: it is whole, as far as is known
	Damaged *wire.Error `json:"damaged,omitempty"`
	UsedBy  []string    `json:"usedBy,omitempty"` // who refers to it, in words, at most 20
	Omitted int         `json:"omitted,omitzero"` // how many others do
	// at which nodes that refer to it fetch it; absent: there is no door for them, or it is not there yet
	URL    string  `json:"url,omitempty"`
	Upload *Upload `json:"upload,omitempty"` // that has not ended; left out in lists, which have their own
}

// States of an upload.
const (
	UploadOpen      = "open"      // bytes are to come
	UploadVerifying = "verifying" // all have come and are being read again
	UploadAdded     = "added"     // it has ended: the artefact is there
)

// Upload is how far an artefact has come into the store.
type Upload struct {
	Digest   string    `json:"digest"`            // of the whole, as in an artefact
	Size     int64     `json:"size"`              // of the whole, in bytes
	Name     string    `json:"name,omitempty"`    // for people
	Who      string    `json:"who,omitempty"`     // has begun it
	State    string    `json:"state"`             // "open", "verifying" or "added"
	Offset   int64     `json:"offset"`            // of the byte that comes next
	Verified int64     `json:"verified,omitzero"` // bytes that were read again
	Begun    time.Time `json:"begun,omitzero"`    // when
	Expires  time.Time `json:"expires,omitzero"`  // when it ends unless it goes on before
}

// Headers are what the answer has besides, named as in the IETF's draft of resumable uploads.
func (u Upload) Headers() map[string]string {
	complete := "?0"
	if u.State == UploadAdded {
		complete = "?1"
	}
	return map[string]string{"Upload-Offset": strconv.FormatInt(u.Offset, 10), "Upload-Complete": complete}
}
