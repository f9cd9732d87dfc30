package distribute

import (
	"crypto/rand"
	"io"
	"time"

	"go.uber.org/zap"

	"tandem.internal/controller/internal/artefact/store"
	"tandem.internal/controller/internal/backup"
	"tandem.internal/controller/internal/clock"
	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/journal"
	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/retain"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/flow"
	"tandem.internal/shared/runlog"
	"tandem.internal/shared/seal"
)

// Config is what a Core needs. Zero durations and counts mean their default.
type Config struct {
	Unit    string
	Version string // of the program
	Open    func() (*journal.Journal, error)
	Copy    string        // path of the readable copy of the unit configuration
	Revoked string        // path of the file of revocations; "": there is none
	Steps   durable.Steps // fault seam of the readable copy; nil in production
	Signer  *seal.Signer  // of the unit's first key; nil: that was retired, or lost
	Keyring Keyring       // of all keys; nil: there is only Signer
	NewKey  bool          // if the key that signs is lost, go on with another
	// Backup says what a backup of the unit is made of, but for the moment and what the caller chooses; nil: there is
	// none. BackupTo are the public keys of age for which it is if the caller names none.
	Backup   func() backup.Config
	BackupTo []string
	Origin   *backup.Origin // what the unit was restored from; nil: it was not
	Inbox    bool           // take submissions from MQTT
	// Desired: what runs is decided of items and subjects, and not submitted.
	Desired bool
	// Rebalance: with Desired, services leave nodes that are overloaded.
	Rebalance bool
	Relieve   time.Duration // how often it is looked for nodes that are; 15 s
	// Cloud: what runs is what the cloud side's desired status asks for.
	Cloud bool
	// Submitters says who has signed a submission. Nil: who submits at the embedded broker has not to sign, and nobody
	// can submit at another one.
	Submitters Submitters

	Now   func() time.Time // nil: Clock, or time.Now
	Clock *clock.Guard     // nil: jumps of the clock are not looked for
	// Random is where the IDs of update items come from; nil: the machine's
	Random io.Reader
	Log    *zap.Logger
	// LogLevel is what Log logs, which operators change for a while; nil: one that Log does not obey.
	LogLevel *runlog.Level
	Fleet    fleet.Options // Unit, Epoch and Kinds are filled in
	Kinds    kind.Set      // of documents that there are

	Artefacts store.Config // of the store of artefacts; Ledger, Now and Log are filled in. Without Dir there is none

	StopMaintenance time.Duration // a stop in good order announces a maintenance of so long; 0: none
	StatusWait      time.Duration // what changes within it is said to the cloud side together; 1 s
	StatusPace      flow.Rate     // of parts of what is said so; 16 at once, then one a second
	Beacon          time.Duration // how often the beacon is sent again; 1 min
	LiveEvery       time.Duration // least time between two looks at what has changed, for viewers; 50 ms
	Jitter          time.Duration // nodes spread repeated reports over this; 0: they do not
	ReopenEvery     time.Duration // how often a broken journal is tried again; 2 s
	CheckpointEvery uint64        // records between two checkpoints; 100,000
	KeepRecords     int           // newest records that are kept whatever they are; 100,000
	Keep            retain.Rules  // what is kept of older ones, nil: retain.Default
	KeepSuperseded  int           // newest records that it keeps of what machines submit, of each source; 100
	KeepDocuments   int64         // bytes of these records with their documents; 32 MiB
	TrimRecords     int           // that go by one record that says so, and to one export; 50,000
	MaxBatch        int           // events in one commit; 4096
	// KeepExport is the directory for what goes of the journal; "": it is not exported. Around is its fault seam.
	KeepExport string
	Around     durable.Around
	// Room is how many bytes the disk of the journal has left. Below DiskLow, and a quarter of it, that is told; nil,
	// or 0: it is not.
	Room    func() (int64, error)
	DiskLow int64
	// BackupEvery is how often backups for BackupTo are expected. After lateBackups times that without any it is told;
	// 0: never.
	BackupEvery time.Duration
	// Cut ends the session of a subject ("node/n1") at the broker. It must not wait for the core.
	// Nil: there is none that could be ended.
	Cut func(subject, why string)
	// CAsChanged is told that other CAs, or other brokers, count: sessions are to be judged anew. nil: nobody. It must
	// not wait for the core.
	CAsChanged func()
	// Trouble is what Status has to tell besides; nil: nothing.
	Trouble func() []string

	Meter Meter // nil: nobody is told

	Broker view.Broker // how Status describes the road; Up, Since and Error are filled in
}

// Meter is told what the loop does, for package metrics. It must not wait, nor keep what it is given.
type Meter interface {
	// Committed is told of records that are durable, what nodes have come to run by them, and how long the commit took.
	Committed(records []record.Record, arrived []fleet.Arrival, took time.Duration)
	// Asked is told of nodes that are asked to report once more.
	Asked(nodes int)
}

// deaf is the Meter of a Core without one.
type deaf struct{}

func (deaf) Committed([]record.Record, []fleet.Arrival, time.Duration) {}
func (deaf) Asked(int)                                                 {}

func (c Config) withDefaults() Config {
	if c.Meter == nil {
		c.Meter = deaf{}
	}
	if c.Now == nil {
		c.Now = time.Now
		if c.Clock != nil {
			c.Now = c.Clock.Now
		}
	}
	if c.Random == nil {
		c.Random = rand.Reader
	}
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	if c.LogLevel == nil {
		c.LogLevel = runlog.NewLevel(zap.InfoLevel, c.Now)
	}
	setDefault(&c.StatusWait, time.Second)
	setDefault(&c.Beacon, time.Minute)
	setDefault(&c.LiveEvery, 50*time.Millisecond)
	setDefault(&c.ReopenEvery, 2*time.Second)
	setDefault(&c.Relieve, 15*time.Second)
	setDefault(&c.CheckpointEvery, 100_000)
	setDefault(&c.KeepRecords, 100_000)
	setDefault(&c.StatusPace, pace)
	setDefault(&c.KeepSuperseded, 100)
	setDefault(&c.KeepDocuments, 32<<20)
	setDefault(&c.TrimRecords, 50_000)
	setDefault(&c.MaxBatch, 4096)
	if c.Keep == nil {
		c.Keep = retain.DefaultRules()
	}
	return c
}

func setDefault[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}
