package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/api"
	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/controller/internal/distribute"
	"tandem.internal/controller/internal/enrol"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/wire"
)

// plainBatches is a sample whose batches have a secret of zeros.
func plainBatches(t *testing.T) (*apitest.Rig, api.Core) {
	u := apitest.StartSample(t)
	return u, apitest.Instead(u, api.Bind(op.CreateBatch,
		func(ctx context.Context, in op.NewBatch) (view.BatchGrant, error) {
			g, err := u.CreateBatch(ctx, in)
			plain := jointoken.Token{Batch: in.Name}
			g.Token, g.CA = plain.Text(), plain.CA.String()
			return g, err
		}))
}

var key1, key2, key3 = strings.Repeat("1a", 32), strings.Repeat("2b", 32), strings.Repeat("3c", 32)

// asks has a node ask to join by line4.
func asks(u *apitest.Rig, node, key string) error {
	return u.Enrolment(context.Background(), enrol.Join{Subject: "node/" + node, Hash: "secret", Key: key,
		Serial: key[:8], Expires: u.Now().AddDate(0, 3, 0), CA: "sha256:00", From: "10.0.0.9"})
}

func waitFor(err error) {
	if wire.AsError(err).Code != wire.CodeUnavailable {
		panic(err)
	}
}

// line4 makes a batch that two nodes wait to join by, and one has joined.
func line4(u *apitest.Rig) {
	must(u.Enrolment(as(apitest.Alice), enrol.NewBatch{Name: "line4", Hash: "secret", Count: 20,
		From: []string{"10.0.0.0/16", "2001:db8::/32"}, Names: []string{"press-*"}}))
	waitFor(asks(u, "press-1", key1))
	waitFor(asks(u, "press-2", key2))
	waitFor(asks(u, "press-3", key3))
	_, err := u.ApproveJoin(as(apitest.Alice), op.JoinOrder{Nodes: []op.NodeKey{{Node: "press-3"}}})
	must(err)
	must(asks(u, "press-3", key3))
}

// pressing adds a rival, and an approval that was not used yet.
func pressing(u *apitest.Rig) {
	u.Advance(5 * time.Minute)
	if wire.AsError(asks(u, "press-1", key3[:62]+"ff")).Code != wire.CodeWrongState {
		panic("two wait under one name")
	}
	_, err := u.ApproveJoin(as(apitest.Alice), op.JoinOrder{Nodes: []op.NodeKey{{Node: "press-2", Key: key2[:16]}}})
	must(err)
}

const (
	goodList = "node,type,expires,property.line\n# press 2 comes later\npress-1,mainType,7d,4\n\"press-3\",,,\n"
	badList  = "node,expires\npress-1,7d\npress 2,soon\npress-1,\npress-4\n"
	knownCSV = "node\npress-1\nnode-1\nnode-2\n"
	yamlList = "- press-1\n- node: press-2\n  type: mainType\n  properties:\n    line: 4\n    tags: [a, b]\n"
	badYAML  = "- press-1\n- node: press-1\n- node: [x]\n- type: a\n- node: press-2\n" +
		"  properties: {line: {a: 1}}\n  colour: red\n"
)

func TestEnrolCommands(t *testing.T) {
	waiting, rivals := played(line4), played(line4, pressing)
	full := answered(apitest.Failing(op.CreateBatch, diskFull))
	for _, c := range []struct {
		name  string
		args  string
		state change
	}{
		{"enrol-list", "enrol list GOOD --dir DIR/tokens", nil},
		{"enrol-list-out", "enrol list YAML --out DIR/tokens.csv", nil},
		{"enrol-list-bad", "enrol list BAD --dir DIR/tokens", nil},
		{"enrol-list-bad-yaml", "enrol list BYML --dir DIR/tokens", nil},
		{"enrol-list-known", "enrol list KNOWN --dir DIR/tokens", nil},
		{"enrol-list-skip", "enrol list KNOWN --dir DIR/tokens --known skip", nil},
		{"enrol-list-replace", "enrol list KNOWN --dir DIR/tokens --known replace", nil},
		{"enrol-list-occupied", "enrol list GOOD --dir DIR", nil},
		{"enrol-list-nowhere", "enrol list GOOD", nil},
		{"enrol-list-nobody", "enrol list EMPTY --dir DIR/tokens", nil},
		{"enrol-list-no-door", "enrol list GOOD --dir DIR/tokens", played(func(u *apitest.Rig) {
			u.SetAuthority(distribute.Authority{})
		})},
		{"enrol-batch-create", "enrol batch create line5 --count 100 --for 7d --from 10.0.0.0/16 --names press-*",
			plainBatches},
		{"enrol-batch-create-out", "enrol batch create line5 --count 5 --from 10.0.0.0/16 --approve on-sight " +
			"--out DIR/j.yaml", plainBatches},
		{"enrol-batch-create-twice", "enrol batch create line4 --count 5 --from 10.0.0.0/16", waiting},
		{"enrol-batch-create-network", "enrol batch create line5 --count 5 --from 10.0.0.1/16", nil},
		{"enrol-batch-create-anywhere", "enrol batch create line5 --count 5", nil},
		{"enrol-batch-create-full", "enrol batch create line5 --count 5 --from 10.0.0.0/16", full},
		{"enrol-batch-list", "enrol batch list", rivals},
		{"enrol-batch-list-none", "enrol batch list", nil},
		{"enrol-batch-revoke", "enrol batch revoke line4 --reason lost", waiting},
		{"enrol-batch-revoke-unknown", "enrol batch revoke line9", waiting},
		{"enrol-pending", "enrol pending", rivals},
		{"enrol-pending-none", "enrol pending", nil},
		{"enrol-approve", "enrol approve press-1 press-2=2b2b2b2b2b2b2b2b", waiting},
		{"enrol-approve-rival", "enrol approve press-1=3c3c3c3c3c3c3c3c", rivals},
		{"enrol-approve-unseen", "enrol approve press-1=2b2b2b2b2b2b2b2b", waiting},
		{"enrol-approve-which", "enrol approve press-1", rivals},
		{"enrol-approve-again", "enrol approve press-2=3c3c3c3c3c3c3c3c", rivals},
		{"enrol-approve-nobody", "enrol approve press-1 press-7", waiting},
		{"enrol-approve-short", "enrol approve press-1=2b2b2b2b2b2b2b2", waiting},
		{"enrol-refuse", "enrol refuse press-1 --reason stranger", waiting},
		{"enrol-refuse-approved", "enrol refuse press-2", rivals},
		{"enrol-events", "events --type batch --type joined", played(line4, pressing, func(u *apitest.Rig) {
			_, err := u.RefuseJoin(as(apitest.Alice), op.JoinRefusal{
				JoinOrder: op.JoinOrder{Nodes: []op.NodeKey{{Node: "press-1"}}}, Revoke: op.Revoke{Reason: "stranger"}})
			must(err)
			_, err = u.RevokeBatch(as(apitest.Alice), op.RevokeBatchIn{Batch: "line4",
				Revoke: op.Revoke{Reason: "lost"}})
			must(err)
		})},
	} {
		for _, suffix := range []string{"", "-json"} {
			t.Run(c.name+suffix, func(t *testing.T) {
				t.Parallel()
				b := c.state.bench(t)
				files := strings.NewReplacer("GOOD", b.write("nodes.csv", goodList), "BAD", b.write("bad.csv", badList),
					"BYML", b.write("bad.yaml", badYAML), "YAML", b.write("nodes.yaml", yamlList),
					"KNOWN", b.write("known.csv", knownCSV), "EMPTY", b.write("empty.csv", "node\n"), "DIR", b.dir)
				b.golden(t, c.name, suffix, strings.Fields(files.Replace(c.args)))
			})
		}
	}
}

// What list writes is what the agent reads, and nobody else may read it.
func TestEnrolListFiles(t *testing.T) {
	b := newBench(t, apitest.StartSample(t))
	dir := filepath.Join(b.dir, "tokens")
	if _, errs, exit := b.run("", "enrol", "list", b.write("nodes.csv", goodList), "--dir", dir); exit != 0 {
		t.Fatal(errs)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Fatal(entries, err)
	}
	for _, node := range []string{"press-1", "press-3"} {
		path := filepath.Join(dir, node+".yaml")
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(text), "\ntoken: ")
		tok, err := jointoken.Parse(rest)
		if err != nil || tok.Node != node || !strings.Contains(string(text), "\ncontroller: https://") {
			t.Errorf("%s: %v", text, err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v %v", info, err)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v %v", info, err)
	}
	if left, err := filepath.Glob(filepath.Join(b.dir, ".tokens*")); err != nil || len(left) > 0 {
		t.Errorf("left over: %q, %v", left, err)
	}
	// A list that is refused leaves nothing, and a directory that is there stays as it is.
	before := len(entries)
	more := filepath.Join(b.dir, "more")
	if _, _, exit := b.run("", "enrol", "list", b.write("known.csv", knownCSV), "--dir", more); exit == 0 {
		t.Error("known nodes were taken")
	}
	if left, err := filepath.Glob(filepath.Join(b.dir, "*more*")); err != nil || len(left) > 0 {
		t.Errorf("left over: %q, %v", left, err)
	}
	if _, _, exit := b.run("", "enrol", "list", b.write("more.csv", "node\npress-7\n"), "--dir", dir); exit == 0 {
		t.Error("a directory was written over")
	}
	if entries, err = os.ReadDir(dir); err != nil || len(entries) != before {
		t.Error(entries, err)
	}
	stdout, errs, exit := b.run("- press-8\n- node: press-9\n", "enrol", "list", "-", "--out",
		filepath.Join(b.dir, "t.csv"))
	if exit != 0 {
		t.Fatal(stdout, errs)
	}
	text, err := os.ReadFile(filepath.Join(b.dir, "t.csv"))
	if err != nil || !strings.HasPrefix(string(text), "node,controller,token,expires\npress-8,https://") ||
		strings.Count(string(text), "tdm1.") != 2 {
		t.Errorf("%s %v", text, err)
	}
	if info, err := os.Stat(filepath.Join(b.dir, "t.csv")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
}
