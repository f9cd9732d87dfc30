package workloads

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"tandem.internal/nodeagent/internal/confine"
	"tandem.internal/nodeagent/internal/fetch"
	"tandem.internal/nodeagent/internal/inbox"
	"tandem.internal/nodeagent/internal/keep"
	"tandem.internal/nodeagent/internal/kind"
	"tandem.internal/nodeagent/internal/workloads"
	"tandem.internal/shared/limits"
	"tandem.internal/shared/publisher"
	"tandem.internal/shared/publisher/publishertest"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// memoryOnly are the control groups of a node that can limit memory, and nothing else.
type memoryOnly struct{ workloads.Groups }

var onlyMemory = limits.Capabilities{Version: limits.V2, Files: map[string][]string{"memory": {"memory.max"}}}

func (memoryOnly) Check(constraints map[string]string, at string) []*wire.Error {
	return limits.Check(constraints, onlyMemory, at)
}

func (memoryOnly) Limits() string { return onlyMemory.Text() }

// torrents stands for BitTorrent, which nothing here asks for anything.
type torrents struct{ fetch.Torrents }

func (torrents) Join(*fetch.Host) fetch.Swarm { return nil }

// newKind makes the kind without a keeper of processes and a store of resources.
func newKind(t *testing.T, cfg Config) kind.Kind {
	t.Helper()
	cfg.Dir, cfg.Node, cfg.Log, cfg.Now = t.TempDir(), "n1", zap.NewNop(), time.Now
	k, err := New(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// A node refuses what it could not do as it is written, and names the slot.
func TestWorkloadsAreChecked(t *testing.T) {
	const url = "https://h/start"
	for _, c := range []struct {
		name, constraint, value, url string
		off, unproved                bool
		torrents                     fetch.Torrents
		want                         wire.Code
		at                           string
	}{
		{name: "nothing is limited", url: url},
		{name: "a limit that is there", constraint: "memory.max", value: "64M", url: url},
		{name: "a limit that is not there", constraint: "pids.max", value: "9", url: url,
			want: wire.CodeNotSupported, at: "/container/constraints/pids.max"},
		{name: "no limit at all", constraint: "memory.limit", value: "64M", url: url,
			want: wire.CodeNotSupported, at: "/container/constraints/memory.limit"},
		{name: "a bad value", constraint: "memory.max", value: "64X", url: url,
			want: wire.CodeBadValue, at: "/container/constraints/memory.max"},
		{name: "no workloads here", url: url, off: true, want: wire.CodeNotAllowed},
		{name: "nothing proves it", url: "http://h/start", want: wire.CodeNotAllowed,
			at: "/resources/iss_hook_start/verification"},
		{name: "nothing proves it, and it may come", url: "http://h/start", unproved: true},
		{name: "BitTorrent alone", url: "rbtorrent:0123456789012345678901234567890123456789",
			want: wire.CodeNotSupported, at: "/resources/iss_hook_start/urls"},
		{name: "BitTorrent, which is there", url: "rbtorrent:0123456789012345678901234567890123456789", unproved: true,
			torrents: torrents{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := workload.Config{Class: workload.Instance, Slot: workload.Slot{Service: "web", Node: "n1"},
				Resources: map[string]workload.Artifact{
					workload.HookStart: {Class: workload.Resource, UUID: "u", URLs: []string{c.url}}}}
			if c.constraint != "" {
				config.Container = &workload.Container{Constraints: map[string]string{c.constraint: c.value}}
			}
			body, werr := workload.EncodeDocument([]workload.Config{config})
			if werr != nil {
				t.Fatal(werr)
			}
			k := newKind(t, Config{On: !c.off, Unproved: c.unproved, Groups: memoryOnly{},
				Fetch: fetch.Config{Torrents: c.torrents}})
			_, errs := k.Check(inbox.Doc{Version: "1.0.0", Body: body})
			if c.want == "" {
				if len(errs) > 0 {
					t.Errorf("%v", errs)
				}
				return
			}
			if len(errs) != 1 || errs[0].Code != c.want || errs[0].Path != c.at {
				t.Fatalf("%v, want %s at %s", errs, c.want, c.at)
			}
			if named := strings.HasPrefix(errs[0].Message, "slot web@n1: "); named != (c.at != "") {
				t.Errorf("%q: its slot is named: %v", errs[0].Message, named)
			}
			if what := `slot web@n1: resource "iss_hook_start": `; c.url != url &&
				!strings.HasPrefix(errs[0].Message, what) {
				t.Errorf("%q: its resource is not named", errs[0].Message)
			}
		})
	}
}

// The controller is told what the node lacks, and no more; which constraints it can enforce, only by a node that runs
// workloads and may look.
func TestAttributes(t *testing.T) {
	for _, on := range []bool{true, false} {
		all := newKind(t, Config{On: on, Unproved: !on, Groups: memoryOnly{}}).Attributes()
		if got := all[wire.AttributeUnproved] == wire.AttributeNone; got != on {
			t.Errorf("unproved resources %v: %v", !on, all)
		}
		if got, ok := all[wire.AttributeLimits]; ok != on || on && got != "v2 memory.max" {
			t.Errorf("workloads %v: %v", on, all)
		}
		if got := all[wire.AttributeWorkloads] == wire.AttributeNone; got == on {
			t.Errorf("workloads %v: %v", on, all)
		}
		if all[wire.AttributeBitTorrent] != wire.AttributeNone {
			t.Errorf("no BitTorrent: %v", all)
		}
	}
	full := newKind(t, Config{Groups: memoryOnly{}, Fetch: fetch.Config{Torrents: torrents{}}}).Attributes()
	if _, ok := full[wire.AttributeBitTorrent]; ok {
		t.Errorf("with BitTorrent: %v", full)
	}
}

// Looking for control groups may move the agent. So it is done for a report only in a group that was given for that,
// and told of elsewhere when it had to be done.
func TestLimitsAreLookedForWhereTheyMayBe(t *testing.T) {
	given := newControlGroups(Config{Dir: t.TempDir(), Group: "a/group/that/is/not/there"})
	if text := given.Limits(); text != "none" {
		t.Errorf("a group that is not there: %q", text)
	}
	own := newControlGroups(Config{Dir: t.TempDir(), Service: true})
	if text := own.Limits(); text != "" || own.tree != nil {
		t.Errorf("its own: %q", text)
	}
	own.cfg.Group = "another/group/that/is/not/there" // so that this test makes no groups
	own.Check(map[string]string{"memory.max": "64M"}, "")
	own.cfg.Group = ""
	if text := own.Limits(); text != "none" {
		t.Errorf("once it has looked: %q", text)
	}
}

// A set is refused where workloads cannot be confined as far as the node's settings demand; an empty one, with which
// they go, is not.
func TestConfinementIsDemanded(t *testing.T) {
	config := workload.Config{Class: workload.Instance, Slot: workload.Slot{Service: "web", Node: "n1"},
		Resources: map[string]workload.Artifact{
			workload.HookStart: {Class: workload.Resource, UUID: "u", URLs: []string{"https://h/start"}}}}
	for _, c := range []struct {
		least, possible confine.Level
		want            string
		configs         []workload.Config
	}{
		{"", confine.None, "", []workload.Config{config}},
		{confine.None, confine.None, "", []workload.Config{config}},
		{confine.Basic, confine.Landlock, "", []workload.Config{config}},
		{confine.Landlock, confine.Landlock, "", []workload.Config{config}},
		{confine.Landlock, confine.Files, `at least to "landlock" (--confine), and can do "files": why`,
			[]workload.Config{config, config}},
		{confine.Basic, confine.None, `can do "none"`, []workload.Config{config}},
		{confine.Basic, confine.None, "", nil},
		{"none+user", confine.Landlock, `at least to "none+user" (--confine), and can do "landlock": why`,
			[]workload.Config{config}},
	} {
		cfg := Config{On: true, Groups: memoryOnly{}, Confine: keep.Confine{Least: c.least},
			Possible: func() (confine.Level, error) { return c.possible, errors.New("why") }}
		errs := cfg.check(c.configs)
		if len(errs) > 1 || (len(errs) == 1) != (c.want != "") ||
			len(errs) == 1 && (errs[0].Code != wire.CodeNotSupported || !strings.Contains(errs[0].Message, c.want)) {
			t.Errorf("%+v: %v", c, errs)
		}
	}
	for loopback, want := range map[keep.Loopback]int{"": 0, "53": 0, "all": 1} {
		cfg := Config{On: true, Groups: memoryOnly{}, Confine: keep.Confine{Least: "basic+user+net"},
			Loopback: loopback, Users: keep.Users{First: 70000, Last: 70009},
			Possible: func() (confine.Level, error) { return confine.Landlock, nil }}
		if errs := cfg.check([]workload.Config{config}); len(errs) != want {
			t.Errorf("loopback %q: %v", loopback, errs)
		}
	}
}

// A node with publishers' keys takes only sets in which each resource has a signature of one of them, as far as that
// shows without the files, and tells the controller whose.
func TestPublishersAreDemanded(t *testing.T) {
	own, second, thief := publishertest.New(1), publishertest.New(2), publishertest.New(3)
	program := []byte("program")
	sum := sha256.Sum256(program)
	artifact := func(checksum, signature string) workload.Artifact {
		return workload.Artifact{Class: workload.Resource, UUID: "u", URLs: []string{"https://h/start"},
			Verification: workload.Verification{Checksum: checksum, Minisign: signature}}
	}
	checksum := "SHA256:" + hex.EncodeToString(sum[:])
	keys := slices.Concat(own.Keys(t), second.Keys(t))
	for _, c := range []struct {
		name    string
		keys    publisher.Keys
		hook, x string // signatures
		want    wire.Code
	}{
		{"nobody demands one", nil, "", "", ""},
		{"nobody reads one", nil, thief.Sign(program), "", ""},
		{"each is signed", keys, own.Sign(program), second.Sign(program), ""},
		{"of another content, which shows later", keys, own.Sign([]byte("other")), second.Sign(program), ""},
		{"data are not", keys, own.Sign(program), "", wire.CodeUnsigned},
		{"by a stranger", keys, own.Sign(program), thief.Sign(program), wire.CodeUnknownKey},
		{"in another's name", keys, own.Sign(program), thief.As(own).Sign(program), wire.CodeBadSignature},
		{"for containers alone", keys, own.Sign(program), own.SignAs(program, "x 1 for:container"),
			wire.CodeBadSignature},
		{"nearly that", keys, own.Sign(program), own.SignAs(program, "x 1 not-for:container for:containers"), ""},
		{"for containers, unasked", nil, "", own.SignAs(program, "x 1 for:container"), ""},
	} {
		config := workload.Config{Class: workload.Instance, Slot: workload.Slot{Service: "web", Node: "n1"},
			Resources: map[string]workload.Artifact{workload.HookStart: artifact(checksum, c.hook),
				"x": artifact(checksum, c.x)}}
		body, werr := workload.EncodeDocument([]workload.Config{config})
		if werr != nil {
			t.Fatal(werr)
		}
		k := newKind(t, Config{On: true, Groups: memoryOnly{}, Fetch: fetch.Config{Publishers: c.keys}})
		_, errs := k.Check(inbox.Doc{Version: "1.0.0", Body: body})
		if (len(errs) == 0) != (c.want == "") || len(errs) > 1 || len(errs) == 1 && (errs[0].Code != c.want ||
			errs[0].Path != "/resources/x/verification/minisign" ||
			!strings.HasPrefix(errs[0].Message, `slot web@n1: resource "x": `) ||
			!strings.HasSuffix(errs[0].Message, ": 0101010101010101, 0202020202020202") &&
				!strings.HasSuffix(errs[0].Message, "(for:container), and this is none")) {
			t.Errorf("%s: %v, want %s", c.name, errs, c.want)
		}
		want := map[bool]string{true: "0101010101010101 0202020202020202"}[c.keys != nil]
		if got := k.Attributes()[wire.AttributePublishers]; got != want {
			t.Errorf("%s: the controller is told of %q", c.name, got)
		}
	}
	part := artifact(checksum, own.SignAs(program, "sensor 1.4.0 for:container"))
	if err := (&workload.Config{Container: &workload.Container{Runtime: "crun"}}).Misplaced(part); err != nil {
		t.Errorf("in a container: %v", err)
	}
	weak := artifact("MD5:00112233445566778899aabbccddeeff", own.Sign(program))
	if err := weak.Published(keys, nil); err == nil || err.Code != wire.CodeBadSignature {
		t.Errorf("with a checksum that does not hold: %v", err)
	}
}
