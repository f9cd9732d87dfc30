package record

import (
	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/shared/items"
	"tandem.internal/shared/wire"
)

// Sources of Settings records about update items.
const (
	KindItems    wire.Kind = "items"    // update items and their versions
	KindSubjects wire.Kind = "subjects" // what is desired for whom
)

// ItemData is the data of Settings records about an update item. With an ID it was created; with Meta and Content a
// version was released; with Version and State alone it came on; with Removed it is gone, or that version of it.
type ItemData struct {
	Type        items.Type     `json:"type"`                 // of the item
	Codename    string         `json:"codename"`             // of the item
	ID          string         `json:"id,omitzero"`          // UUID that it was given
	Description string         `json:"description,omitzero"` // of what was created, for people
	Owner       string         `json:"owner,omitzero"`       // of what was created
	Version     string         `json:"version,omitzero"`     // that came on or is gone; "": the item
	Meta        *items.Meta    `json:"meta,omitempty"`       // of what was released
	Content     *items.Content `json:"content,omitempty"`    // of what was released
	State       items.State    `json:"state,omitzero"`       // that the version has from now on
	Removed     bool           `json:"removed,omitzero"`     // it is gone
}

// Ref names the item.
func (d *ItemData) Ref() items.Ref { return items.Ref{Type: d.Type, Codename: d.Codename} }

// SubjectData is the data of Settings records about a subject: what it is from now on.
type SubjectData struct {
	Codename string         `json:"codename"`          // its name
	Subject  *items.Subject `json:"subject,omitempty"` // nil with Removed
	Removed  bool           `json:"removed,omitzero"`  // it is gone
	From     uint64         `json:"from,omitzero"`     // rev of the subject that this was made from; 0: of none
}

// KindWanted is the source of Settings records about the desired status of the cloud side. Submissions on inbox/desired
// are of it.
const KindWanted wire.Kind = "desired"

// WantedData is the data of Settings records about the desired status of the cloud side: what is wanted from now on.
type WantedData struct {
	Document      jsontext.Value `json:"document"`                // a canonical cloud.DesiredStatus
	CorrelationID string         `json:"correlationId,omitempty"` // of the message
	Inbox         *InboxData     `json:"inbox,omitempty"`         // of the submission
}
