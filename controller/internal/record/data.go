package record

import (
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/duration"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// What records carry as data. Report, Live and Event carry the node's message as it came: wire.Reported,
// wire.Live and wire.Event; Note carries a view.Remark. The data of enrolment is in enrolment.go, that of
// the signing keys in keys.go, that of artefacts in artefact.go.

// OpenedData is the data of Opened records.
type OpenedData struct {
	Version string `json:"version,omitempty"` // of the controller's program
	Epoch   uint64 `json:"epoch"`
	Reason  string `json:"reason,omitempty"` // why the epoch was raised
	Online  bool   `json:"online,omitempty"` // who was online still is
	Backups bool   `json:"backups,omitzero"` // the controller's settings want backups
	Lost    string `json:"lost,omitzero"`    // it is no start: why the session with the broker has ended
}

// LostByStop is OpenedData.Lost of a controller that is stopped: nobody has to do anything.
const LostByStop = "the controller stops"

// Verdict is the data of Accepted and Refused records.
type Verdict struct {
	ID       string            `json:"id"`
	Via      string            `json:"via,omitempty"`
	Version  string            `json:"version,omitempty"`
	Hash     string            `json:"hash,omitempty"`   // of the submitted document
	Lenient  bool              `json:"lenient,omitzero"` // of old journals: read it leniently
	Mode     wire.Mode         `json:"mode,omitempty"`
	Within   duration.Duration `json:"within,omitzero"`   // with wire.ModeTry
	Forced   bool              `json:"forced,omitzero"`   // although the same document had failed before
	Signed   time.Time         `json:"signed,omitzero"`   // when the submitter signed it
	Name     string            `json:"name,omitempty"`    // what it was to set, where a unit has several
	AllNodes bool              `json:"allNodes,omitzero"` // that it may hit every node was confirmed
	Rollout  string            `json:"rollout,omitempty"` // ID of the one that brings it to the nodes
	Plan     string            `json:"plan,omitempty"`    // hash of the plan that it came with
	Nothing  bool              `json:"nothing,omitzero"`  // it changed nothing: the document is not kept
	Error    *wire.Error       `json:"error,omitempty"`
	Problems []*wire.Error     `json:"problems,omitempty"`
	Checks   view.Checks       `json:"checks"`
}

// IssuedData is the data of Issued records.
type IssuedData struct {
	Epoch   uint64            `json:"epoch"`
	Version string            `json:"version"`
	Mode    wire.Mode         `json:"mode"`
	Within  duration.Duration `json:"within,omitzero"` // with wire.ModeTry
	Whole   bool              `json:"whole,omitempty"` // to every node, because of an accepted document
	Reason  string            `json:"reason"`
	Of      string            `json:"of,omitempty"` // hash of the source's document, if that is not the one in force
	Docs    []IssuedDoc       `json:"docs"`
}

// IssuedDoc is one body and the nodes that get it.
type IssuedDoc struct {
	Hash  string   `json:"hash"`
	Nodes []string `json:"nodes"`
}

// WithdrawnData is the data of Withdrawn records.
type WithdrawnData struct {
	Nodes []string `json:"nodes"`
}

// TrialOver is the data of Confirm and RolledBack records.
type TrialOver struct {
	Version string      `json:"version"`
	Rev     uint64      `json:"rev"`
	Error   *wire.Error `json:"error,omitempty"` // RolledBack: of a node that has failed at it
}

// StateChange is the data of State records: a document's state changed without a submission.
type StateChange struct {
	State  string      `json:"state"`
	Error  *wire.Error `json:"error,omitempty"`
	Reason string      `json:"reason,omitempty"`
}

// TroubleData is the data of Trouble records.
type TroubleData struct {
	Topic   string      `json:"topic"`
	Error   *wire.Error `json:"error"`
	Skipped int         `json:"skipped,omitzero"` // others like it since the last record
}

// RequestData is the data of Request records.
type RequestData struct {
	ID       string         `json:"id"`
	Method   wire.Method    `json:"method"`
	Params   jsontext.Value `json:"params,omitzero"`
	NotAfter time.Time      `json:"notAfter"` // the node refuses it later
	Until    time.Time      `json:"until"`    // the controller waits for the answer
}

// ReplyData is the data of Reply records.
type ReplyData struct {
	ID     string      `json:"id"`
	Method wire.Method `json:"method"`
	Error  *wire.Error `json:"error,omitempty"` // nil: the node does it
}

// SettingsData is the data of Settings records.
type SettingsData struct {
	view.Scope
	Settings *wire.HealthSettings `json:"settings,omitempty"` // nil: unset
}

// StopData is the data of Settings records about workload slots.
type StopData struct {
	Slot    workload.Slot `json:"slot"`
	Stopped bool          `json:"stopped"` // false: it may run again
}

// ForgottenData is the data of Forgotten records.
type ForgottenData struct {
	Reason string `json:"reason,omitempty"`
}

// BackupData is the data of Backup records.
type BackupData struct {
	Seq   uint64 `json:"seq"`   // newest record that is in it
	Bytes int64  `json:"bytes"` // of the file
	For   string `json:"for"`   // public keys, with commas
}

// MaintenanceData is the data of Maintenance records.
type MaintenanceData struct {
	Until  time.Time `json:"until,omitzero"` // zero: it is over
	Reason string    `json:"reason,omitempty"`
}

// Decode reads the data of a record of this type. The result is the type that is named for it in this
// package, by value; of a node's message it is a pointer to the checked wire type. It is nil for types
// that are not known.
func Decode(t Type, data []byte) (any, error) {
	switch t {
	case Opened:
		return parse[OpenedData](data)
	case Accepted, Refused:
		return parse[Verdict](data)
	case Issued:
		return parse[IssuedData](data)
	case Withdrawn:
		return parse[WithdrawnData](data)
	case Confirm, RolledBack:
		return parse[TrialOver](data)
	case State:
		return parse[StateChange](data)
	case Trouble:
		return parse[TroubleData](data)
	case Report:
		return wire.Decode[wire.Reported](data)
	case Live:
		message, _ := wire.SplitProof(data)
		return wire.Decode[wire.Live](message)
	case Event:
		return wire.Decode[wire.Event](data)
	case Request:
		return parse[RequestData](data)
	case Reply:
		return parse[ReplyData](data)
	case Note:
		return parse[view.Remark](data)
	case Enrol:
		return parse[EnrolData](data)
	case Joined:
		return parse[JoinedData](data)
	case Renewed:
		return parse[RenewedData](data)
	case Revoked:
		return parse[RevokedData](data)
	case JoinRefused:
		return parse[JoinRefusedData](data)
	case Keys:
		return parse[KeysData](data)
	case Settings:
		return parse[SettingsData](data)
	case Maintenance:
		return parse[MaintenanceData](data)
	case Proves:
		return parse[ProvesData](data)
	case Forgotten:
		return parse[ForgottenData](data)
	case TokenWithdrawn:
		return parse[TokenWithdrawnData](data)
	case ArtefactLeased:
		return parse[ArtefactLeasedData](data)
	case ArtefactAdded:
		return parse[ArtefactAddedData](data)
	case ArtefactRemoved:
		return parse[ArtefactRemovedData](data)
	case CA:
		return parse[CAData](data)
	case Root:
		return parse[RootData](data)
	case Rollout:
		return parse[RolloutData](data)
	case Batch:
		return parse[BatchData](data)
	case Backup:
		return parse[BackupData](data)
	case Trimmed:
		return parse[TrimmedData](data)
	}
	return nil, nil
}

func parse[T any](data []byte) (any, error) {
	var t T
	if err := json.Unmarshal(data, &t); err != nil {
		return nil, err
	}
	return t, nil
}

// ParseVerdict reads the data of an Accepted or Refused record.
func ParseVerdict(data []byte) (Verdict, error) {
	var v Verdict
	err := json.Unmarshal(data, &v)
	return v, err
}

// Submitted returns the verdict on what a record says was submitted; the zero Verdict: it was not.
func Submitted(r *Record) (v Verdict, err error) {
	if r.Type != Settings {
		return ParseVerdict(r.Data)
	}
	var d struct { // of each kind of which something is submitted so
		Name     string     `json:"name"`
		AllNodes bool       `json:"allNodes"`
		Inbox    *InboxData `json:"inbox"`
	}
	if err := json.Unmarshal(r.Data, &d); err != nil || d.Inbox == nil {
		return v, err
	}
	return Verdict{ID: d.Inbox.ID, Via: "inbox", Hash: d.Inbox.Hash, Mode: wire.ModeApply, Signed: d.Inbox.Signed,
		Version: strconv.FormatUint(r.Seq, 10), Name: d.Name, AllNodes: d.AllNodes}, nil
}

// Encode writes the data of a record. Equal data gives equal bytes.
func Encode(data any) []byte {
	b, err := json.Marshal(data, json.Deterministic(true))
	if err != nil {
		panic(fmt.Sprintf("record: cannot encode a %T: %v", data, err)) // only our own types come here
	}
	return b
}

// Sources of Settings records beside those that the wire names.
const (
	KindProperties wire.Kind = "node-properties" // of nodes, that operators set
	KindReleases   wire.Kind = "agent-releases"  // versions of the agent on offer
)

// PolicyData is the data of Settings records about a management policy: that it was applied, enabled, disabled or
// removed.
type PolicyData struct {
	Name     string         `json:"name"`              // of the policy
	Document jsontext.Value `json:"document,omitzero"` // applied; nil: it stays
	Enabled  *bool          `json:"enabled,omitempty"` // from now on; nil: it stays, or the document says so
	Removed  bool           `json:"removed,omitzero"`  // it is gone
	AllNodes bool           `json:"allNodes,omitzero"` // that it may hit every node was confirmed
	Back     uint64         `json:"back,omitzero"`     // Document is again that of this rev
	Inbox    *InboxData     `json:"inbox,omitempty"`   // of a submission over MQTT
	Rollout  string         `json:"rollout,omitempty"` // ID of the one that brings it to the nodes
}

// Element is the policy.
func (d PolicyData) Element() string { return d.Name }

// RolledOut is the ID of the rollout that brings the change to the nodes; "": they get it at once.
func (d PolicyData) RolledOut() string { return d.Rollout }

// ByRollout is the change, brought by a rollout.
func (d PolicyData) ByRollout(id string) any {
	d.Rollout = id
	return d
}

// InboxData is what is remembered of a submission over MQTT, so that it is judged once.
type InboxData struct {
	ID     string    `json:"id"`              // the submitter's own
	Hash   string    `json:"hash"`            // of the submitted document
	Signed time.Time `json:"signed,omitzero"` // when the submitter signed it
}

// PropertyData is the data of Settings records about a property of a node that operators set.
type PropertyData struct {
	Node  string         `json:"node"`           // its name
	Name  string         `json:"name"`           // of the property
	Value jsontext.Value `json:"value,omitzero"` // nil: what the node says counts again
	Type  string         `json:"type,omitempty"` // of the value
}

// ReleaseData is the data of Settings records about a version of the agent on offer.
type ReleaseData struct {
	Version string            `json:"version"`          // semantic
	Builds  []view.AgentBuild `json:"builds,omitempty"` // by architecture
	Removed bool              `json:"removed,omitzero"` // it is not on offer any more
}
