package op

import (
	"cmp"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
)

// Subject is one source of documents, as the operations about it name it.
type Subject struct {
	Name      string // in the paths, and in the names of operations: "config"
	Title     string // "unit configuration"
	Trial     bool   // a document can be tried, and is then confirmed
	Versioned bool   // a version may be given beside the document
	Lenient   bool   // a document may be read as meant
	Copied    bool   // there is a readable copy, which can be restored
}

// Verbs are the operations that every source of documents has. Check is Apply with DryRun.
type Verbs struct {
	Apply    Op[Submit, view.Result]
	Show     Op[VersionIn, []byte]
	Status   Op[None, view.SourceStatus]
	Watch    Op[Watched, view.SourceStatus]
	History  Op[None, History]
	Diff     Op[DiffIn, view.Diff]
	RollBack Op[Rollback, view.Result]
	Retry    Op[None, view.Result]
	Confirm  Op[None, view.Result]       // if Subject.Trial
	Restore  Op[None, view.SourceStatus] // if Subject.Copied
}

// VerbsOf returns the operations of a source. Their paths are literal: a part that stands for any source would
// stand beside those of nodes, events and others.
func VerbsOf(s Subject) Verbs {
	path, title := "/v1/"+s.Name, s.Title
	return Verbs{
		Apply: Op[Submit, view.Result]{
			Name: s.Name + ".apply", Route: "POST " + path, Role: Operate, Form: Verdict, Without: s.without(),
			About: "Submits the whole " + title + ". It is judged by the controller and by the nodes that are " +
				"online; with dryRun that is all. The answer may say what it comes to.",
		},
		Show: Op[VersionIn, []byte]{
			Name: s.Name + ".show", Route: "GET " + path, Role: View, Form: Raw,
			About: "Shows the " + title + ", byte for byte as it was submitted" + s.strictly() + ".",
		},
		Status: Op[None, view.SourceStatus]{
			Name: s.Name + ".status", Route: "GET " + path + "/status", Role: View,
			About: "Shows the state of the " + title + ", and how far the nodes have come with it.",
		},
		Watch: Op[Watched, view.SourceStatus]{
			Name: s.Name + ".watch", Route: "GET " + path + "/status", Role: View, When: "watch", Form: Stream,
			About: "Follows the state of the " + title + ": a line now, and whenever it changes.",
		},
		History: Op[None, History]{
			Name: s.Name + ".history", Route: "GET " + path + "/history", Role: View,
			About: "Lists what became of every submitted " + title + ", oldest first.",
		},
		Diff: Op[DiffIn, view.Diff]{
			Name: s.Name + ".diff", Route: "GET " + path + "/diff", Role: View,
			About: "Shows what changes from one version of the " + title + " to another.",
		},
		RollBack: Op[Rollback, view.Result]{
			Name: s.Name + ".rollback", Route: "POST " + path + "/rollback", Role: Operate, Form: Verdict,
			About: "Submits the content of an earlier version again, under a new version.",
		},
		Retry: Op[None, view.Result]{
			Name: s.Name + ".retry", Route: "POST " + path + "/retry", Role: Operate, Form: Verdict,
			About: "Sends the " + title + " again to the nodes that have failed at it or have drifted. " +
				"The answer says how many.",
		},
		Confirm: Op[None, view.Result]{
			Name: s.Name + ".confirm", Route: "POST " + path + "/confirm", Role: Operate, Form: Verdict,
			About: "Keeps the " + title + " that is on trial.",
		},
		Restore: Op[None, view.SourceStatus]{
			Name: s.Name + ".restore", Route: "POST " + path + "/restore", Role: Operate,
			About: "Writes the readable copy of the " + title + " again, from the journal, and ends the failed state.",
		},
	}
}

// strictly says what is shown of a document that was read as meant.
func (s Subject) strictly() string {
	if !s.Lenient {
		return ""
	}
	return "; of one that was read leniently, the strict document"
}

// without are the parameters of a submission that a source has no use for.
func (s Subject) without() (names []string) {
	if !s.Trial {
		names = append(names, "mode", "confirmWithin")
	}
	if !s.Versioned {
		names = append(names, "version")
	}
	if !s.Lenient {
		names = append(names, "lenient")
	}
	return names
}

// Specs returns the verbs that a source has.
func (s Subject) Specs() []Spec {
	v := VerbsOf(s)
	all := []Spec{
		v.Apply.Spec(), v.Show.Spec(), v.Status.Spec(), v.Watch.Spec(), v.History.Spec(), v.Diff.Spec(),
		v.RollBack.Spec(), v.Retry.Spec(),
	}
	if s.Trial {
		all = append(all, v.Confirm.Spec())
	}
	if s.Copied {
		all = append(all, v.Restore.Spec())
	}
	return all
}

// Submit is a document, and how it is submitted. Each source has those of the parameters that it has a use for.
type Submit struct {
	Mode          wire.Mode     `query:"mode" json:"-"`          // "apply", which is the default, or "try"
	ConfirmWithin time.Duration `query:"confirmWithin" json:"-"` // how long a trial lasts; with mode=try only
	// it gets; default: the next
	Version string `query:"version" is:"version" empty:"leave it out to have one derived" json:"-"`
	Lenient bool   `query:"lenient" json:"-"` // take what is left out as meant
	DryRun  bool   `query:"dryRun" json:"-"`  // judge only
	// in waves, by this plan: its JSON, without superfluous white space
	Rollout  string `query:"rollout" is:"json" empty:"leave it out to send it to all nodes at once" json:"-"`
	Offline  bool   `query:"offline" json:"-"`         // do not ask the nodes: they still judge what they receive
	Force    bool   `query:"force" json:"-"`           // also if the same document has failed before
	ID       string `query:"id" json:"-"`              // the submitter's own; one is made if it is left out
	Document []byte `body:"application/json" json:"-"` // the document, whole
}

// Check sets the default of the mode, and judges what goes with it.
func (in *Submit) Check() *wire.Error {
	in.Mode = cmp.Or(in.Mode, wire.ModeApply)
	if in.Mode != wire.ModeApply && in.Mode != wire.ModeTry {
		return invalid("the parameter mode is apply or try")
	}
	if (in.Mode == wire.ModeTry) != (in.ConfirmWithin > 0) {
		return invalid("confirmWithin goes with mode=try, and only with it")
	}
	if in.Rollout != "" && in.Mode == wire.ModeTry {
		return invalid("a trial is on all nodes at once: mode=try and rollout exclude each other")
	}
	return nil
}

// Submission is what it is to the core, but for who submits it.
func (in *Submit) Submission(source wire.Kind) view.Submission {
	var plan jsontext.Value
	if in.Rollout != "" {
		plan = jsontext.Value(in.Rollout)
	}
	return view.Submission{
		Kind: source, Mode: in.Mode, ConfirmWithin: in.ConfirmWithin, Version: in.Version, Lenient: in.Lenient,
		Document: in.Document, DryRun: in.DryRun, Offline: in.Offline, Force: in.Force, ID: in.ID,
		Rollout: plan,
	}
}

// VersionIn names a version.
type VersionIn struct {
	Version string `query:"version" json:"-"` // the one to show; the installed one if it is left out
}

// DiffIn names two versions.
type DiffIn struct {
	From string `query:"from" need:"yes" json:"-"` // the older one
	To   string `query:"to" json:"-"`              // the newer one; the installed one if it is left out
}

// Check judges that there is one to begin with.
func (in *DiffIn) Check() *wire.Error {
	if in.From == "" {
		return invalid("the parameter from is missing: the version to compare with")
	}
	return nil
}

// Rollback says which content comes back, and as what.
type Rollback struct {
	Version string `json:"version"` // whose content comes back
	As      string `json:"as"`      // the version it gets, above the installed one
}

// Check judges that both versions are there, and that the new one is a version.
func (in *Rollback) Check() *wire.Error {
	switch {
	case len(in.Version) > 256:
		return wire.New(wire.CodeTooLarge, "/version", "longer than 256 bytes")
	case len(in.As) > 256:
		return wire.New(wire.CodeTooLarge, "/as", "longer than 256 bytes")
	case in.Version == "":
		return wire.New(wire.CodeMissing, "/version", "the version whose content comes back")
	case in.As == "":
		return wire.New(wire.CodeMissing, "/as", "the new version that it gets")
	}
	if _, err := unitconfig.Compare(in.As, in.As); err != nil {
		return wire.New(wire.CodeInvalidArgument, "/as", wire.AsError(err).Message)
	}
	return nil
}
