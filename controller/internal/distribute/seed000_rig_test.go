package distribute_test

import (
	"context"
	"crypto/ed25519"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"

	"tandem.internal/controller/internal/artefact/store"
	"tandem.internal/controller/internal/backup"
	"tandem.internal/controller/internal/distribute"
	"tandem.internal/controller/internal/journal"
	"tandem.internal/controller/internal/kinds"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/link/linktest"
	"tandem.internal/shared/seal"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// seedUnit is a controller's core on a broker in memory, over a directory that outlives it, with nodes
// played by the test. Everything happens in a synctest bubble.
type seedUnit struct {
	*testing.T
	dir string
	// the cloud side says what runs, from the next start on
	steers   bool
	clock    func() time.Time // of the next start; nil: the bubble's
	origin   *backup.Origin   // of the next start
	backupTo []string         // of the next start
	hub      *linktest.Hub
	core     *distribute.Core
	stop     func() // ends the controller in order

	nodes []*seedNode
}

const seedName = "u1"

// inSeedUnit runs f with a unit whose controller has not started yet.
func inSeedUnit(t *testing.T, f func(t *testing.T, u *seedUnit)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		u := &seedUnit{T: t, dir: dir, hub: linktest.New(), stop: func() {}}
		defer func() {
			for _, n := range u.nodes {
				n.stop()
			}
			u.stop()
		}()
		f(t, u)
	})
}

func (u *seedUnit) copyPath() string { return filepath.Join(u.dir, "unit-config.json") }

// start brings the controller up on what the directory holds.
func (u *seedUnit) start() {
	u.Helper()
	core, err := distribute.New(distribute.Config{
		Kinds: kinds.All(), Now: u.clock, Origin: u.origin,
		BackupTo: u.backupTo, BackupEvery: 24 * time.Hour,
		Backup: func() backup.Config { return backup.Config{Dir: u.dir} },
		Unit:   seedName, Inbox: true, Cloud: u.steers, Broker: view.Broker{Embedded: true}, Copy: u.copyPath(),
		Revoked: filepath.Join(u.dir, "revoked.txt"), Artefacts: store.Config{Dir: filepath.Join(u.dir, "artefacts"),
			Quota: 1 << 20, Free: func(string) (int64, error) { return 1 << 30, nil }},
		Signer: seal.NewSigner(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))),
		Open: func() (*journal.Journal, error) {
			return journal.Open(filepath.Join(u.dir, "journal.db"), journal.Options{MapSize: 1 << 24})
		},
	})
	if err != nil {
		u.Fatal(err)
	}
	filters := []string{topic.ForController(seedName), topic.ForInbox(seedName, "+")}
	for _, shard := range topic.Shards() {
		filters = append(filters, topic.ShardFilters(seedName, shard)...)
	}
	l := u.hub.Link(linktest.Options{ID: "controller", Filters: filters, Will: core.Will, Goodbye: core.Goodbye,
		Window: 1024}, core.Handler())
	core.Attach(l)
	endLink, endCore := u.run(l.Run), u.run(core.Run)
	u.core = core
	u.stop = func() {
		endLink()
		endCore()
		u.stop = func() {}
	}
	synctest.Wait()
}

// run runs a part until the returned function is called.
func (u *seedUnit) run(part func(context.Context) error) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- part(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			u.Error(err)
		}
	}
}

func (u *seedUnit) restart() {
	u.stop()
	u.start()
}

// submit gives a document to the controller as an operator does.
func (u *seedUnit) submit(doc string) view.Result {
	return u.submission(view.Submission{Kind: "config", Document: []byte(doc)})
}

func (u *seedUnit) submission(s view.Submission) view.Result {
	u.Helper()
	s.Who, s.Via = "tester", "http"
	r, err := u.core.Submit(u.Context(), s)
	if err != nil {
		u.Fatal(err)
	}
	synctest.Wait()
	return r
}

// install submits a document that must be accepted.
func (u *seedUnit) install(doc string) {
	u.Helper()
	if r := u.submit(doc); r.State != "accepted" {
		u.Fatalf("refused: %v", r.Error)
	}
}

func (u *seedUnit) status() view.SourceStatus {
	u.Helper()
	s, err := u.core.SourceStatus(u.Context(), wire.KindConfig)
	if err != nil {
		u.Fatal(err)
	}
	return s
}

// wantState checks the state of the unit configuration, told as "state version error-code".
func (u *seedUnit) wantState(want string) {
	u.Helper()
	s := u.status()
	got := strings.TrimRight(s.State+" "+s.Version, " ")
	if s.Error != nil {
		got += " " + string(s.Error.Code)
	}
	if got != want {
		u.Errorf("the unit configuration is %q, want %q", got, want)
	}
}

// cloud returns what is retained on outbox/status, as "state version error-code".
func (u *seedUnit) cloud() string {
	u.Helper()
	payload, ok := u.hub.Retained(topic.ForOutbox(seedName, "status"))
	if !ok {
		return "nothing"
	}
	var s struct {
		State   string      `json:"state"`
		Version string      `json:"version"`
		Error   *wire.Error `json:"error"`
	}
	if err := json.Unmarshal(payload, &s); err != nil {
		u.Fatalf("%v in %s", err, payload)
	}
	got := strings.TrimRight(s.State+" "+s.Version, " ")
	if s.Error != nil {
		got += " " + string(s.Error.Code)
	}
	return got
}

func (u *seedUnit) write(doc string) {
	u.Helper()
	if err := os.WriteFile(u.copyPath(), []byte(doc), 0o600); err != nil {
		u.Fatal(err)
	}
}

func (u *seedUnit) file() string {
	u.Helper()
	data, err := os.ReadFile(u.copyPath())
	if err != nil {
		u.Fatal(err)
	}
	return string(data)
}

// entries counts the journal's records of a type.
func (u *seedUnit) entries(typ string) int {
	u.Helper()
	all, err := u.core.Entries(u.Context(), view.EntryFilter{Types: []string{typ}})
	if err != nil {
		u.Fatal(err)
	}
	return len(all)
}
