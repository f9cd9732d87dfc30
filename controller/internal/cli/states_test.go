package cli

import (
	"cmp"
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/api"
	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/controller/internal/caller"
	"tandem.internal/controller/internal/enrol"
	"tandem.internal/controller/internal/kinds"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	entrywords "tandem.internal/controller/internal/words"
	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/wire"
)

// A change makes the unit of a test, and what stands before it. nil is the sample as it is.
type change func(t *testing.T) (*apitest.Rig, api.Core)

// bench serves what a change makes.
func (c change) bench(t *testing.T) *bench {
	t.Helper()
	if c == nil {
		c = played()
	}
	u, core := c(t)
	return benchOf(t, u, core)
}

// played is a sample in which something happens.
func played(all ...func(*apitest.Rig)) change {
	return func(t *testing.T) (*apitest.Rig, api.Core) {
		u := apitest.StartSample(t)
		for _, play := range all {
			play(u)
		}
		return u, u
	}
}

// answered is a sample with other operations in the place of the core's.
func answered(all ...api.Operation) change {
	return func(t *testing.T) (*apitest.Rig, api.Core) {
		u := apitest.StartSample(t)
		return u, apitest.Instead(u, all...)
	}
}

// amended is a sample whose status is told otherwise.
func amended(change func(*view.UnitStatus)) change {
	return func(t *testing.T) (*apitest.Rig, api.Core) {
		u := apitest.StartSample(t)
		st, err := u.Status(t.Context())
		must(err)
		change(&st)
		return u, apitest.Instead(u, apitest.Fixed(op.UnitStatus, st))
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func as(who string) context.Context { return caller.Named(context.Background(), who, "cli") }

// empty is a unit without nodes and documents.
func empty(t *testing.T) (*apitest.Rig, api.Core) {
	u := apitest.Start(t)
	return u, u
}

var (
	diskFull = wire.New(wire.CodeStorage, "", "the disk is full")

	refuses = played(func(u *apitest.Rig) {
		u.Refuse("node-2", wire.New(wire.CodeBadValue, "/priority", "at most 10 here"))
	})
	trial = played(try)
	tried = played(try, func(u *apitest.Rig) {
		u.Report("node-1", wire.KindConfig, wire.StateTrying, nil, nil)
	})
	// nobody has confirmed what was on trial, and node-1 has failed at it
	expired = played(func(u *apitest.Rig) {
		u.Submit(view.Submission{Document: apitest.Document("2.1.0"), Who: apitest.Alice, Via: "cli",
			Mode: wire.ModeTry, ConfirmWithin: 90 * time.Second})
		u.Report("node-1", wire.KindConfig, wire.StateFailed,
			wire.New(wire.CodeApplyFailed, "", "the on-apply command ended with exit status 3"), nil)
		u.Advance(2 * time.Minute)
	})
	confirmed = played(try, func(u *apitest.Rig) {
		if _, err := u.Confirm(as(apitest.Alice), wire.KindConfig); err != nil {
			panic(err)
		}
		u.Report("node-1", wire.KindConfig, wire.StateInstalled, nil, nil)
	})
	away   = played(func(u *apitest.Rig) { u.Disconnect("nothing listens there") })
	failed = played(func(u *apitest.Rig) {
		u.Submit(view.Submission{Document: apitest.Document("1.9.5"), Who: apitest.Alice, Via: "cli"})
		u.Damage()
	})
	hostile = played(func(u *apitest.Rig) {
		u.Report("node-2", wire.KindConfig, wire.StateRejected, wire.New(wire.CodeBadValue,
			"/alertRules/partitions/0/name", "\x1b[2J\x1b[31mowned\nnode-9  mainType\u202e"), nil)
	})
	inError = played(func(u *apitest.Rig) {
		info := wire.NodeInfo{Type: "mainType", OS: "linux", Arch: "arm64", CPUs: 4, RAM: 2 << 30,
			AgentVersion: "1.0.0", Error: wire.New(wire.CodeStorage, "", "the disk is full")}
		for _, node := range []string{"node-1", "node-2"} {
			u.Say(node, wire.KindInfo, wire.Reported{Detail: wire.Encode(&info)})
		}
	})
	unanswered = played((*apitest.Rig).Working, func(u *apitest.Rig) { u.Silence("node-1") })
	rotating   = played((*apitest.Rig).Rotating)

	// certified answers with a certificate that is none: a real one is another each time.
	certified = answered(apitest.Fixed(op.CertifyIdentity, view.Certificate{Identity: "cloud/eu",
		Certificate: certificate, CA: certificate, Expires: apitest.Now.AddDate(0, 3, 0)}))
)

// smallBackup is a sample whose journal's file has a size that depends on no machine.
var smallBackup = answered(api.File(op.BackupJournal, "journal.db", func(_ context.Context, w io.Writer) error {
	_, err := w.Write(make([]byte, 32<<10))
	return err
}))

const certificate = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"

const time10 = 10 * time.Minute

// plainTokens is a sample whose join tokens have a secret of zeros.
func plainTokens(t *testing.T) (*apitest.Rig, api.Core) { return plain(apitest.StartSample(t)) }

// plainJoined is plainTokens, and node-1 has joined.
func plainJoined(t *testing.T) (*apitest.Rig, api.Core) {
	u := apitest.StartSample(t)
	join(u, "node-1", apitest.Now.AddDate(0, 3, 0))
	return plain(u)
}

func plain(u *apitest.Rig) (*apitest.Rig, api.Core) {
	return u, apitest.Instead(u, api.Bind(op.EnrollNode,
		func(ctx context.Context, in op.EnrollIn) (view.Enrolment, error) {
			e, err := u.Core.Enroll(ctx, in)
			token := jointoken.Token{Node: in.Node}
			e.Token, e.CA = token.Text(), token.CA.String()
			return e, err
		}))
}

// unremarked is a sample whose journal takes no remarks.
func unremarked(t *testing.T) (*apitest.Rig, api.Core) {
	u := apitest.StartSample(t)
	return u, silentJournal{u}
}

type silentJournal struct{ *apitest.Rig }

func (silentJournal) Remark(context.Context, view.Remark) error { return diskFull }

// try has a document on trial.
func try(u *apitest.Rig) {
	u.Submit(view.Submission{Document: apitest.Document("2.1.0"), Who: apitest.Alice, Via: "cli",
		Mode: wire.ModeTry, ConfirmWithin: 90 * time.Second})
}

// arrive has node-4 come back, and nodes run the newest configuration.
func arrive(u *apitest.Rig, nodes ...string) {
	u.Connect("node-4", true)
	for _, node := range nodes {
		u.Report(node, wire.KindConfig, wire.StateInstalled, nil, nil)
	}
}

func enroll(u *apitest.Rig, node string) {
	must(u.Enrolment(as(apitest.Alice), enrol.Enrol{Subject: "node/" + node, Hash: node}))
}

func join(u *apitest.Rig, node string, expires time.Time) {
	enroll(u, node)
	must(u.Enrolment(context.Background(), enrol.Join{Subject: "node/" + node, Hash: node, Key: "k", Serial: "1",
		Expires: expires, CA: "sha256:00"}))
}

// identified gives node-1 an identity.
func identified(state string) change {
	return played(func(u *apitest.Rig) {
		if state == "expired" {
			join(u, "node-1", apitest.Now.Add(-time10))
			return
		}
		join(u, "node-1", apitest.Now.AddDate(0, 3, 0))
		if state == "revoked" {
			_, err := u.Revoke(as(apitest.Alice), op.RevokeIn{NodeIn: op.NodeIn{Node: "node-1"}})
			must(err)
		}
	})
}

// telling is a core whose journal has other entries.
type telling struct {
	*apitest.Rig
	entries []view.Entry
}

// tells is a sample whose journal has these entries.
func tells(entries []view.Entry) change {
	return func(t *testing.T) (*apitest.Rig, api.Core) {
		u, all := apitest.StartSample(t), slices.Clone(entries) // other tests have them, too
		for i := range all {
			entrywords.Tell(&all[i], kinds.All())
		}
		return u, telling{u, all}
	}
}

func (c telling) Entries(_ context.Context, f view.EntryFilter) (all []view.Entry, _ error) {
	for i := range c.entries {
		e := c.entries[i]
		if f.Reverse {
			e = c.entries[len(c.entries)-1-i]
		}
		if e.Seq >= f.From && (f.Node == "" || f.Node == e.Node) && (len(f.Types) == 0 ||
			slices.Contains(f.Types, e.Type) || e.Type == "event" && slices.Contains(f.Types, e.Kind)) {
			all = append(all, e)
		}
	}
	return all[:min(len(all), cmp.Or(f.Limit, 1000))], nil
}

// authorities are the CAs of a unit at a step of a rotation.
func authorities(step string) change {
	one := view.CA{ID: "34750f98bd59fcfc", Fingerprint: "sha256:34750f98bd59fcfc" + strings.Repeat("0a", 24),
		State: "signing", Expires: apitest.Now.AddDate(3, 0, 0), Nodes: 4}
	two := view.CA{ID: "5d41402abc4b2a76", Fingerprint: "sha256:5d41402abc4b2a76" + strings.Repeat("0b", 24),
		State: "announced", Since: apitest.Now, Who: "ann", Expires: apitest.Now.AddDate(10, 0, 0), Nodes: 3,
		Missing: []string{"node-3"}}
	v := view.CAs{Rev: 1795168800}
	switch step {
	case "":
		v = view.CAs{CAs: []view.CA{one}}
	case "announced":
		v.CAs = []view.CA{one, two}
	case "ready":
		two.Nodes, two.Missing = 4, nil
		v.CAs = []view.CA{one, two}
	case "leaving":
		one.State, one.Missing = "leaving", []string{"a token for node-9", "node-2"}
		two.State, two.Missing = "signing", nil
		v.CAs = []view.CA{one, two}
	case "rooted":
		v.CAs = []view.CA{one}
		v.Root = &view.Root{Number: 1795168800, Time: apitest.Now, By: "0101010101010101", Nodes: 3,
			Keys: []string{"0101010101010101", "0202020202020202"}, Behind: true}
	case "retired":
		two.State, two.Missing = "signing", nil
		v.CAs = []view.CA{two}
	}
	return answered(apitest.Fixed(op.ShowCAs, v), apitest.Fixed(op.RotateCAs, v), apitest.Fixed(op.RetireCAs, v))
}

// lookAt is a unit of which much is wrong.
var lookAt = view.Fleet{Unit: "u1", Epoch: 1, Rev: 4711, Nodes: 1000, Online: 299,
	Counts: view.FleetCounts{InStep: 297, Unwell: 1, Failed: 1, Offline: 700, Revoked: 1},
	Types:  map[string]int{"press": 900, "pump": 98, "": 1}, Versions: map[string]int{"2.0.0": 990, "": 9},
	Look: []view.Sentence{
		{Text: "700 nodes are offline, 640 of them since 02:08", Level: view.LevelError, Filter: "class:offline"},
		{Text: "press-7 did not take \x1b[2J 2.0.0", Level: view.LevelWarning},
	}}
