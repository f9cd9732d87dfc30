package op

import (
	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/items"
	"tandem.internal/shared/wire"
)

// Update items, and the subjects for which they are desired (seed 001).
var (
	ListItems = define(Op[ItemsIn, view.Items]{
		Name: "items.list", Route: "GET /v1/items", Role: View,
		About: "Lists the update items with their versions, by type and codename.",
	})
	ShowItem = define(Op[ItemIn, view.Item]{
		Name: "item.show", Route: "GET /v1/items/{type}/{item}", Role: View,
		About: "Shows an update item: its versions with their metadata and what they consist of.",
	})
	HistoryOfItem = define(Op[ItemIn, view.ItemHistory]{
		Name: "item.history", Route: "GET /v1/items/{type}/{item}/history", Role: View,
		About: "Lists what happened to the items of a name, also to those that were removed.",
	})
	CreateItem = define(Op[CreateItemIn, view.ItemChange]{
		Name: "item.create", Route: "POST /v1/items", Role: Operate,
		About: "Creates an update item, from metadata, and gives it an ID and a URN. A codename that an item of this " +
			"type has is an already-exists. With dryRun nothing is changed: it says whether the codename is free.",
	})
	ReleaseItem = define(Op[ReleaseItemIn, view.ItemChange]{
		Name: "item.release", Route: "POST /v1/items/{type}/{item}/versions", Role: Operate,
		About: "Releases a version of an item, whose files are in the controller's store. The same release again is " +
			"unchanged; another content or other metadata of a version that is there are an already-exists. With " +
			"dryRun nothing is changed, and files that are not in the store yet are not missed.",
	})
	ReadyItem = define(Op[ItemVersionIn, view.ItemChange]{
		Name: "item.ready", Route: "POST /v1/items/{type}/{item}/versions/{version}/ready", Role: Operate,
		About: "Makes a version that is in preparation ready: it may be deployed.",
	})
	DeprecateItem = define(Op[ItemVersionIn, view.ItemChange]{
		Name: "item.deprecate", Route: "POST /v1/items/{type}/{item}/versions/{version}/deprecate", Role: Operate,
		About: "Deprecates a version that is ready: it stays where it runs, and is not deployed anew. It does not " +
			"come back.",
	})
	RemoveItemVersion = define(Op[ItemVersionIn, view.ItemChange]{
		Name: "item.version.remove", Route: "DELETE /v1/items/{type}/{item}/versions/{version}", Role: Operate,
		About: "Removes a version that is in preparation or deprecated. Its files are not in use by it any more.",
	})
	RemoveItem = define(Op[ItemIn, view.ItemChange]{
		Name: "item.remove", Route: "DELETE /v1/items/{type}/{item}", Role: Operate,
		About: "Removes an update item that has no version.",
	})

	ListSubjects = define(Op[None, view.Subjects]{
		Name: "subjects.list", Route: "GET /v1/subjects", Role: View,
		About: "Lists the subjects, by codename.",
	})
	ShowSubject = define(Op[SubjectIn, view.Subject]{
		Name: "subject.show", Route: "GET /v1/subjects/{subject}", Role: View,
		About: "Shows a subject.",
	})
	HistoryOfSubject = define(Op[SubjectIn, view.ItemHistory]{
		Name: "subject.history", Route: "GET /v1/subjects/{subject}/history", Role: View,
		About: "Lists what happened to a subject, also to one that was removed.",
	})
	ApplySubject = define(Op[ApplySubjectIn, view.ItemChange]{
		Name: "subject.apply", Route: "POST /v1/subjects/{subject}", Role: Operate,
		About: "Sets a subject, in place of the one of that name. Items that it names need not be there.",
	})
	RemoveSubject = define(Op[SubjectIn, view.ItemChange]{
		Name: "subject.remove", Route: "DELETE /v1/subjects/{subject}", Role: Operate,
		About: "Removes a subject.",
	})
)

// ItemsIn says which items.
type ItemsIn struct {
	Type  string `query:"type" json:"-"`  // of this type: component, service or layer; "": of any
	State string `query:"state" json:"-"` // with a version in this state, and these versions of them; "": all
}

// Check judges both.
func (in *ItemsIn) Check() *wire.Error {
	if in.Type != "" {
		if err := checkType(in.Type); err != nil {
			return err
		}
	}
	switch items.State(in.State) {
	case "", items.Preparation, items.Ready, items.Deprecated:
		return nil
	}
	return invalid("the state is preparation, ready or deprecated, not %.80q", in.State)
}

func checkType(t string) *wire.Error {
	switch items.Type(t) {
	case items.Component, items.Service, items.Layer:
		return nil
	}
	return invalid("the type is component, service or layer, not %.80q", t)
}

// ItemIn names an item.
type ItemIn struct {
	Type string `path:"type" json:"-"`           // what it is: component, service or layer
	Item string `path:"item" is:"name" json:"-"` // its codename
}

// Check judges the type.
func (in *ItemIn) Check() *wire.Error { return checkType(in.Type) }

// Ref names the item.
func (in *ItemIn) Ref() items.Ref { return items.Ref{Type: items.Type(in.Type), Codename: in.Item} }

// ItemVersionIn names a version of an item.
type ItemVersionIn struct {
	ItemIn
	Version string `path:"version" is:"version" json:"-"` // semantic
}

// CreateItemIn is an item that is created.
type CreateItemIn struct {
	DryRun   bool   `query:"dryRun" json:"-"`          // only say whether it would be
	Document []byte `body:"application/json" json:"-"` // metadata: codename and type, description and owner count
}

// ReleaseItemIn is a version that is released.
type ReleaseItemIn struct {
	ItemIn
	DryRun bool `query:"dryRun" json:"-"` // only say whether it would be
	ItemRelease
}

// ItemRelease is a version of an item.
type ItemRelease struct {
	Meta    jsontext.Value `json:"meta"`            // its metadata, with the version
	Content jsontext.Value `json:"content"`         // what it consists of
	State   items.State    `json:"state,omitempty"` // preparation or ready; "": preparation
}

// Check judges the type, and that there is something.
func (in *ReleaseItemIn) Check() *wire.Error {
	switch {
	case len(in.Meta) == 0:
		return wire.New(wire.CodeMissing, "/meta", "required")
	case len(in.Content) == 0:
		return wire.New(wire.CodeMissing, "/content", "required")
	}
	return in.ItemIn.Check()
}

// SubjectIn names a subject.
type SubjectIn struct {
	Subject string `path:"subject" is:"name" json:"-"` // its codename
}

// ApplySubjectIn is a subject that is set.
type ApplySubjectIn struct {
	SubjectIn
	From     uint64 `query:"from" json:"-"`            // rev of the subject that it was made from; 0: any
	Document []byte `body:"application/json" json:"-"` // the subject
}
