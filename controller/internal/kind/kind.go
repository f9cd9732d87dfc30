// Package kind is what the engine and the kinds of documents agree on. The engine, package fleet, knows how
// a document is judged, journaled, issued, tried, rolled back and compared with what nodes report; a kind
// knows what its documents mean. A Source is what operators submit, a Kind is what nodes get and report.
// Packages below kinds import this one, and never fleet.
//
//tandem:pure
package kind

import (
	"cmp"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/rollout"
	"tandem.internal/controller/internal/rollout/plan"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/items"
	"tandem.internal/shared/wire"
)

// Kind is one kind of documents: what nodes get and report. A nil function has the meaning that its
// comment gives. A Kind without any source is only reported.
type Kind struct {
	Name wire.Kind
	From []wire.Kind // the sources that it is made from; nil: the one of its name, if there is one

	// Build makes the content from those of its sources that have one, by the source's name. Nil: the
	// content of its one source. It is called again only when one of them has changed.
	Build    func(map[wire.Kind]Content) Content
	Everyone bool  // For never returns nil: issued to all at an acceptance, and counted where it is missing
	Looks    Looks // which Facts For reads
	Empty    *Body // for a node that has, or should have, a document and gets none now; nil: it keeps what it has

	// TooOld says what an agent does that does not know the kind, and what to do about it: it comes after "the agent
	// there, version 1.2.0,". "": such a node's check counts as silent.
	TooOld string
	// Known says what is known to be against a node's document of a content that it cannot be asked about, since it is
	// offline, the main thing first. Nil: nothing is.
	Known func(c Content, f Facts) []*wire.Error
	// Detail reads and checks the detail of a report of this node; an empty one may be nil. Nil: the kind
	// has none.
	Detail func(node string, raw jsontext.Value) (any, *wire.Error)
	// Blank returns an empty detail, into which one that was kept is read. Nil: the kind has none.
	Blank func() any
	// Same reports whether two details differ in progress only. Nil: they never do.
	Same func(a, b any) bool

	// Against says what is known against an order to a node; known are that node and those who prove what they say.
	// Nil: nothing is.
	Against func(n Node, known []Node, m wire.Method, params []byte) *wire.Error

	// Troubles are those of the node that a detail tells of, and Quiet for how long there was no change; nil: it does
	// not say. Nil functions: the kind tells nothing of either.
	Troubles func(detail any) []rollout.Trouble
	Quiet    func(detail any) *wire.HealthQuiet

	// Words says in a few words what is in the detail of a report, in the journal, and what error it tells of. It has
	// to bear a detail that this program would refuse. Nil: nothing.
	Words func(raw jsontext.Value) (string, *wire.Error)

	// Standing says what a node has made of an element of a collection that is rolled out; c is what its document is
	// made of, detail that of its report. Only kinds have it that are made from a collection with Waves.
	Standing func(c Content, f Facts, detail any, element string) Standing

	// Artefacts lists the digests of the artefacts that a node's document names. Nil: such documents name none.
	Artefacts func(node string, body []byte) []string
	Alike     bool // what Artefacts lists of a document does not depend on the node

	Brief   func(n Node, v *view.Node)         // adds to what a list shows of a node; nil: nothing
	Show    func(u Unit, n Node, v *view.Node) // adds to what is shown of one node; nil: nothing
	Trouble func(u Unit) []string              // what operators should look at, in words; nil: nothing
	// Tally counts what is known of one node, and reports whether something is wrong with it; nil: nothing.
	Tally func(u Unit, n Node, t *view.Tally) (unwell bool)
}

// Source is one kind of submissions: what operators submit, or change piece by piece. It has Parse or Fold.
type Source struct {
	Name  wire.Kind // also of the submissions, of the records about them, and of the paths of its operations
	Title string    // "unit configuration", "set of workloads"
	Noun  string    // "configuration", "workload"

	Parse func(Reading) Parsed // of documents that are submitted whole
	Fold  *Fold                // of a collection that is changed piece by piece

	NoTrial *wire.Error                          // why a document is not tried unit-wide; nil: it can be
	Next    func(version string) string          // version of a document that came without; nil: it has its own
	Rename  Rename                               // nil: a document has no version of its own
	Compare func(u Unit, c Content) *view.Placed // what a document comes to beside the one before; nil: no more
	// Diff lists the values that differ between two documents that were accepted. Nil: those of their JSON.
	// It gives up when Stop of the first has an error.
	Diff func(from, to Reading) (Changed, error)
	Show func(u Unit, v *view.SourceStatus) // adds to what is shown of its state; nil: nothing
	// Bodies calls each for every node that a content, which may be nil, names, also for those never heard of. Nil: it
	// names none.
	Bodies func(c Content, each func(node string, b *Body))
	// Artefacts calls each for every artefact that a content, which may be nil, keeps in use, and by what, in words.
	// Nil: it keeps none but those that documents of nodes name.
	Artefacts func(c Content, each func(digest, by string))
	// Hide returns a document without what those may not see who only view the unit, and Secret says which members
	// these are; nil: nothing is hidden.
	Hide   func(document []byte) ([]byte, error)
	Secret func(member string) bool

	Lenience bool   // a document may be submitted to be read as meant
	Heavy    bool   // parsing takes so much memory that one is done at a time
	None     string // what is said while nothing is installed; "": that
	Nothing  string // what an empty body could have meant: "[] stops everything"
	// Copied: it is the unit's own document (seed 000). It has a readable copy, and is failed while that is damaged;
	// its state is part of the unit's, and is published on outbox/status. One source at most is so.
	Copied bool
}

// Subject names a source of documents for its operations.
func (s *Source) Subject() op.Subject {
	return op.Subject{
		Name: string(s.Name), Title: s.Title, Trial: s.NoTrial == nil, Versioned: s.Next != nil, Lenient: s.Lenience,
		Copied: s.Copied,
	}
}

// Missing says that nothing is installed.
func (s *Source) Missing() string { return cmp.Or(s.None, "no "+s.Title+" is installed") }

// Changes lists the values that differ between two documents that were accepted.
func (s *Source) Changes(from, to Reading) (Changed, error) {
	if s.Diff != nil {
		return s.Diff(from, to)
	}
	return Changes(map[string]jsontext.Value{"": from.Document}, map[string]jsontext.Value{"": to.Document}, from.Stop)
}

// Rename returns a document under another version.
type Rename func(document []byte, version string) ([]byte, error)

// Reading is a document to be parsed.
type Reading struct {
	Document []byte
	Version  string // that was given beside it
	Lenient  bool   // read what people leave out as meant, see Parsed.Strict
	Stored   bool   // it was accepted before: a rule that is newer does not refuse it
	// Stop is called now and then while a heavy document is parsed. An error gives up: the result has problems, and
	// nobody wants it any more. Nil: nothing stops it.
	Stop func() error
}

// Parsed is what became of it.
type Parsed struct {
	Version  string  // "" when it cannot be read, or is to be derived
	Content  Content // nil with Problems
	Problems []*wire.Error
	Warnings []view.Warning
	Strict   []byte // what a document that was submitted leniently is journaled as; nil: as it is
}

// Fold keeps a collection that records change. Its content is kept in checkpoints.
type Fold struct {
	// Reason is that of the documents that follow from a change: "settings changed".
	Reason string
	Decode func(data jsontext.Value) (any, error)  // the data of a Settings record
	Judge  func(c Content, change any) *wire.Error // why a change is refused; c is nil while there is none
	// Weigh is asked when Judge has nothing against a change: why it is refused, seen on the whole unit. Nil: it is
	// not.
	Weigh func(u Unit, c Content, change any) *wire.Error
	// Same reports whether a change that Judge has nothing against changes nothing: it is answered, and not journaled;
	// of a submission the verdict is. Nil: every change is one.
	Same func(c Content, change any) bool
	// Submit makes a change of what was submitted over MQTT, or says why it cannot be one. Nil: nothing of the
	// collection is submitted so.
	Submit func(m *wire.Submission, from record.InboxData) (change any, err *wire.Error)
	Apply  func(c Content, at Change, data any) Content // what there is after a change; c is not used any more
	// Waves says how a change that Judge has nothing against comes to the nodes. Nil: at once. With it, changes are
	// ElementChanges, and Apply leaves c as it was.
	Waves func(c Content, change any) Waves
	Save  func(c Content) any // for a checkpoint
	Load  func(saved jsontext.Value) (Content, error)
}

// Waves is how a change of an element of a collection comes to the nodes.
type Waves struct {
	Plan  *plan.Plan    // of the rollout that brings it; nil: they get it at once
	Start time.Time     // before which they do nothing about it; zero: they begin at once
	Over  time.Duration // time, after that or after they got it, in which they begin
	Ends  bool          // nothing acts on the element any more: a rollout of it that goes on ends with that
}

// ElementChange is a change of one element of a collection. It may be brought to the nodes by a rollout.
type ElementChange interface {
	Element() string         // its name
	RolledOut() string       // ID of the rollout that brings it; "": the nodes get it at once
	ByRollout(id string) any // the change with that ID
}

// Standing is what a node has made of an element of a collection.
type Standing struct {
	Done  bool        // it is at an end with it, and well
	Idle  bool        // nothing is under way because of it
	Error *wire.Error // it has failed at it; nil: it has not
}

// Change is a record that changes a collection.
type Change struct {
	Seq uint64
	At  time.Time
	Who string
}

// Content is an accepted document, or a collection, that can be asked what a node gets. It is a pointer, so
// that two can be compared, and safe for concurrent use.
type Content interface {
	// For returns what a node gets; nil: nothing. It depends on the facts that the kind looks at and on
	// nothing else. Equal bodies should be the same pointer.
	For(Facts) *Body
}

// Labelled is a content that gives nodes labels.
type Labelled interface {
	// Labels are those of a node.
	Labels(Facts) []string
}

// ItemUser is a content that has versions of update items run.
type ItemUser interface {
	// Uses returns a node that is to have a version of an item; "": none is.
	Uses(ref items.Ref, version string) string
}

// Body is a document as a node gets it. It is never changed.
type Body struct {
	Bytes []byte
	Hash  string
}

// NewBody returns bytes with their hash.
func NewBody(b []byte) *Body { return &Body{Bytes: b, Hash: wire.Hash(b)} }

// Facts are what is known of a node. What they point to never changes.
type Facts struct {
	Node    string
	Type    string            // "" while it is not known
	Info    *wire.NodeInfo    // nil while it is not known
	Details map[wire.Kind]any // the newest details of reports, of the kinds in Looks
}

// Looks says which facts a kind reads, beside the node's name: a document is made anew when one of them
// changes.
type Looks struct {
	Type    bool
	Info    bool
	Details []wire.Kind
}

// Set is a list of kinds and their sources, in the order in which nodes get their documents.
type Set struct {
	Sources []*Source
	Kinds   []*Kind
}

// Join puts sets together. It panics if a name is there twice, or if a kind names a source that is not.
func Join(sets ...Set) Set {
	var all Set
	for _, s := range sets {
		all.Sources, all.Kinds = append(all.Sources, s.Sources...), append(all.Kinds, s.Kinds...)
	}
	for i, s := range all.Sources {
		if all.Source(s.Name) != all.Sources[i] || (s.Parse == nil) == (s.Fold == nil) {
			panic(fmt.Sprintf("kind: the source %s is there twice, or has not one of Parse and Fold", s.Name))
		}
	}
	for i, k := range all.Kinds {
		whole := (len(k.From) <= 1 || k.Build != nil) && (k.Detail == nil) == (k.Blank == nil)
		if all.Kind(k.Name) != all.Kinds[i] || !whole {
			panic(fmt.Sprintf("kind: the kind %s is there twice, or incomplete", k.Name))
		}
		for _, name := range k.From {
			if all.Source(name) == nil {
				panic(fmt.Sprintf("kind: the kind %s is made from %s, which is no source", k.Name, name))
			}
		}
	}
	return all
}

// Documents are the sources of what is submitted whole.
func (s Set) Documents() (all []*Source) {
	for _, src := range s.Sources {
		if src.Parse != nil {
			all = append(all, src)
		}
	}
	return all
}

// Specs returns the operations about the sources.
func (s Set) Specs() (all []op.Spec) {
	for _, src := range s.Documents() {
		all = append(all, src.Subject().Specs()...)
	}
	return all
}

// Kind returns the kind of this name, nil if there is none.
func (s Set) Kind(name wire.Kind) *Kind {
	for _, k := range s.Kinds {
		if k.Name == name {
			return k
		}
	}
	return nil
}

// Source returns the source of this name, nil if there is none.
func (s Set) Source(name wire.Kind) *Source {
	for _, src := range s.Sources {
		if src.Name == name {
			return src
		}
	}
	return nil
}

// Reportable reports whether a node may report this kind: it is in the set, or the wire names it.
func (s Set) Reportable(name wire.Kind) bool { return s.Kind(name) != nil || name.Known() }

// Copied returns the source that has a readable copy, nil if none has.
func (s Set) Copied() *Source {
	for _, src := range s.Sources {
		if src.Copied {
			return src
		}
	}
	return nil
}
