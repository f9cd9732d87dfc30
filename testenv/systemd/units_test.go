package systemd

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"tandem.internal/testenv/proc"
)

func TestMain(m *testing.M) { os.Exit(proc.Main(m)) }

var programs = []string{"tandem-controller", "tandem-node", "tandem-key", "tandem-broker"}

// exposure is the highest grade of `systemd-analyze security` that passes, in tenths: 1.5 of 10.
const exposure = "15"

// keeperExposure is that of the keeper of slots with users, which root starts.
const keeperExposure = "31"

// joinExposure is that of the first join, which begins as root.
const joinExposure = "22"

// known are the settings that these units may use, by section; another one is a typing error or
// asks for a word here.
var known = map[string][]string{
	"Unit": {"Description", "After", "Before", "Requires", "Wants", "StartLimitIntervalSec",
		"ConditionPathExists"},
	"Install": {"WantedBy"},
	"Path":    {"PathExists", "PathChanged"},
	"Timer":   {"OnCalendar", "RandomizedDelaySec", "Persistent"},
	"Service": {
		"User", "Group", "DynamicUser", "LoadCredential", "ExecStartPre", "ExecStart", "ExecStop", "GuessMainPID",
		"Slice", "StateDirectory", "StateDirectoryMode", "RuntimeDirectory", "RuntimeDirectoryMode",
		"RuntimeDirectoryPreserve", "Environment", "Type", "NotifyAccess", "WatchdogSec", "Restart", "RestartSec",
		"TimeoutStartSec", "TimeoutStopSec", "KillMode", "Delegate", "OOMPolicy", "LimitNOFILE", "LimitCORE",
		"TasksMax", "MemoryHigh", "OOMScoreAdjust", "RestartPreventExitStatus",
		"CapabilityBoundingSet", "AmbientCapabilities", "NoNewPrivileges", "RestrictSUIDSGID", "RestrictNamespaces",
		"ProtectSystem", "ProtectHome", "ReadWritePaths",
		"PrivateTmp", "PrivateDevices", "PrivateMounts", "PrivateNetwork", "UMask",
		"ProtectKernelTunables", "ProtectKernelModules",
		"ProtectKernelLogs", "ProtectControlGroups",
		"ProtectClock", "ProtectHostname", "LockPersonality", "RestrictRealtime", "ProtectProc", "RemoveIPC",
		"KeyringMode", "ProcSubset", "PrivateUsers",
		"MemoryDenyWriteExecute", "RestrictAddressFamilies", "SystemCallArchitectures", "SystemCallFilter",
		"SystemCallErrorNumber",
	},
}

// demanded are settings that every unit must have, with these values.
var demanded = map[string]string{
	"StartLimitIntervalSec": "0", "Restart": "always", "NoNewPrivileges": "yes", "ProtectSystem": "strict",
	"ProtectHome":           "yes",
	"CapabilityBoundingSet": "", "MemoryDenyWriteExecute": "yes", "RestrictAddressFamilies": "AF_INET AF_INET6 AF_UNIX",
	"SystemCallArchitectures": "native", "SystemCallErrorNumber": "EPERM", "RestrictNamespaces": "yes",
	"PrivateDevices":  "yes",
	"LockPersonality": "yes", "UMask": "0077", "LimitCORE": "0", "PrivateTmp": "yes",
}

func source(t *testing.T, name string) (path, text string) {
	t.Helper()
	path = filepath.Join(proc.Root(t), "deploy", "systemd", name)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, string(data)
}

// settings are those of a unit, each with its values in order.
func settings(t *testing.T, text string) map[string][]string {
	t.Helper()
	all, section, explained := map[string][]string{}, "", false
	for i, line := range strings.Split(text, "\n") {
		switch {
		case line == "":
			explained = false
		case strings.HasPrefix(line, "#"):
			explained = true
		case strings.HasPrefix(line, "["):
			section = strings.Trim(line, "[]")
			if known[section] == nil {
				t.Errorf("line %d: section %q is not known", i+1, section)
			}
		default:
			key, value, ok := strings.Cut(line, "=")
			if !ok || !slices.Contains(known[section], key) {
				t.Errorf("line %d: %q is no setting of section %q", i+1, line, section)
			}
			if (section == "Service" || section == "Path" || section == "Timer") && !explained {
				t.Errorf("line %d: no comment explains %s", i+1, key)
			}
			if all[key] != nil && key != "SystemCallFilter" && key != "LoadCredential" && key != "After" &&
				key != "ConditionPathExists" &&
				(key != "ExecStart" || !slices.Contains(all["Type"], "oneshot")) {
				t.Errorf("line %d: %s is set twice", i+1, key)
			}
			all[key] = append(all[key], value)
		}
	}
	return all
}

func TestUnits(t *testing.T) {
	for _, name := range programs {
		t.Run(name, func(t *testing.T) {
			_, text := source(t, name+".service")
			s := settings(t, text)
			for key, want := range demanded {
				if name == "tandem-key" && key == "RestrictAddressFamilies" {
					want = "AF_UNIX"
				}
				if got := s[key]; len(got) != 1 || got[0] != want {
					t.Errorf("%s is %q, want %q", key, got, want)
				}
			}
			if at, section := strings.Index(text, "StartLimitIntervalSec="),
				strings.Index(text, "[Service]"); at > section {
				t.Error("StartLimitIntervalSec counts in [Unit] only")
			}
			if (s["User"] == nil) == (s["DynamicUser"] == nil) || slices.Contains(s["User"], "root") {
				t.Errorf("User %q, DynamicUser %q: a user of its own is needed", s["User"], s["DynamicUser"])
			}
			var users string // each program brings its own
			if s["User"] != nil {
				_, users = source(t, name+".sysusers")
			}
			for _, u := range s["User"] {
				if !strings.Contains(users, "\nu "+u+" ") {
					t.Errorf("user %s is not in %s.sysusers", u, name)
				}
			}
			for _, g := range s["Group"] {
				if !strings.Contains(users, "\ng "+g+" ") && !strings.Contains(users, "\nu "+g+" ") {
					t.Errorf("group %s is not in %s.sysusers", g, name)
				}
			}
			allowed := "@system-service; ~@privileged @resources @obsolete"
			if name == "tandem-node" { // which takes rights from workloads
				allowed += "; landlock_create_ruleset landlock_add_rule landlock_restrict_self"
			}
			if filter := strings.Join(s["SystemCallFilter"], "; "); filter != allowed {
				t.Errorf("SystemCallFilter: %s", filter)
			}
		})
	}
}

// TestAgent: what the agent's own care for the node needs of its unit.
func TestAgent(t *testing.T) {
	_, text := source(t, "tandem-node.service")
	s := settings(t, text)
	for key, want := range map[string]string{
		"Type": "notify", "NotifyAccess": "main", "WatchdogSec": "60", // the launcher becomes the agent: one process
		"ProcSubset": "all", // why it was started

		"RuntimeDirectoryPreserve": "restart", "RuntimeDirectoryMode": "0700", // the wish to reboot
		"KillMode": "process", "OOMPolicy": "continue", // workloads outlive the agent, and it them
		"Requires": "tandem-workloads.service", "ProtectControlGroups": "no", // their constraints
	} {
		if got := s[key]; len(got) != 1 || got[0] != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	_, text = source(t, "tandem-workloads.service")
	w := settings(t, text)
	for key, want := range map[string]string{
		// the agent may make groups, and the keeper put processes there
		"Delegate": "cpu io memory pids", "User": s["User"][0], "Slice": s["Slice"][0],
		"Type": "forking", "GuessMainPID": "no", "Restart": "always", "ExecStop": "/usr/bin/tandem-node keep --dir " +
			"/var/lib/" + s["StateDirectory"][0] + "/keeper --quit",
		"ExecStartPre": "-+/usr/bin/chown " + s["User"][0] + " /sys/fs/cgroup/" + s["Slice"][0] + "/cgroup.procs",
		"OOMPolicy":    "continue", "StartLimitIntervalSec": "0",
	} {
		if got := w[key]; len(got) != 1 || got[0] != want {
			t.Errorf("%s of tandem-workloads.service is %q, want %q", key, got, want)
		}
	}
	if start := w["ExecStart"]; len(start) != 1 || !strings.Contains(start[0], "cd /sys/fs/cgroup/"+s["Slice"][0]+
		"/tandem-workloads.service && ") {
		t.Errorf("the process that keeps the group is started by %q", start)
	}
	// systemd could not start the agent again in a group with limited workloads below it (EBUSY, 219/CGROUP).
	if s["Delegate"] != nil || !slices.Contains(s["After"], "tandem-workloads.service") {
		t.Errorf("Delegate is %q, After %q", s["Delegate"], s["After"])
	}
	if want := "TANDEM_KERNEL_BOOT_ID=%b TANDEM_WORKLOAD_GROUP=/" + s["Slice"][0] +
		"/tandem-workloads.service"; len(s["Environment"]) != 1 || s["Environment"][0] != want {
		t.Errorf("Environment is %q, want %q", s["Environment"], want)
	}
	// A node has no name, and its agent does not start, before it has joined; then it starts unasked.
	joined := "/var/lib/" + s["StateDirectory"][0] + "/identity/identity.json"
	_, text = source(t, "tandem-node.path")
	if p := settings(t, text)["PathChanged"]; !reflect.DeepEqual(p, []string{joined}) ||
		!reflect.DeepEqual(s["ConditionPathExists"], p) {
		t.Errorf("the agent starts if there is %q, and when %q changes", s["ConditionPathExists"], p)
	}
	// The wish to reboot is left where the path unit looks, and where nobody else may.
	_, example := source(t, "node.yaml")
	for _, who := range []string{"unit", "node"} {
		if value, ok := effective(example, who); ok {
			t.Errorf("without a join it is %s %s", who, value)
		}
	}
	command, ok := effective(example, "reboot-command")
	command, _, _ = strings.Cut(command, " #")
	argv := strings.Fields(command)
	_, text = source(t, "tandem-reboot.path")
	exists := settings(t, text)["PathExists"]
	if !ok || len(argv) != 2 || len(exists) != 1 || argv[1] != exists[0] {
		t.Errorf("the agent runs %q, and what is waited for is %q", argv, exists)
	}
	if dir := filepath.Dir(exists[0]); dir != "/run/"+s["RuntimeDirectory"][0] {
		t.Errorf("%s is not the agent's own directory", dir)
	}
	// The wish is taken before it is fulfilled, or the machine reboots again and again.
	_, text = source(t, "tandem-reboot.service")
	if start := settings(t, text)["ExecStart"]; len(start) != 2 || start[0] != "/usr/bin/rm -f "+exists[0] ||
		!strings.HasSuffix(start[1], " reboot") {
		t.Errorf("ExecStart is %q", start)
	}
	// Programs to be watched have a directory that belongs to root.
	watch, _ := effective(example, "watch-dir")
	watch = strings.TrimSpace(watch)
	_, tmpfiles := source(t, "tandem-node.tmpfiles")
	if !strings.Contains(tmpfiles, "\nd "+watch+" 1775 root tandem-watch -\n") {
		t.Errorf("watch-dir %s is not made:\n%s", watch, tmpfiles)
	}
}

// TestKeyUnit: the key program is another user than the agent, knows users and processes by their own numbers, and
// refuses the control group of workloads.
func TestKeyUnit(t *testing.T) {
	_, text := source(t, "tandem-key.service")
	s := settings(t, text)
	_, text = source(t, "tandem-node.service")
	agent := settings(t, text)
	_, text = source(t, "tandem-workloads.service")
	w := settings(t, text)
	for _, who := range []string{"User", "Group"} {
		if s[who] == nil || s[who][0] == agent[who][0] {
			t.Errorf("%s is %q, as the agent's", who, s[who])
		}
	}
	if s["PrivateUsers"] != nil || s["ProtectProc"][0] != "default" || s["StateDirectoryMode"][0] != "0700" {
		t.Errorf("PrivateUsers %q, ProtectProc %q, StateDirectoryMode %q", s["PrivateUsers"], s["ProtectProc"],
			s["StateDirectoryMode"])
	}
	want := "--refuse-group /" + w["Slice"][0] + "/tandem-workloads.service"
	if start := s["ExecStart"][0]; !strings.HasSuffix(start, want) {
		t.Errorf("ExecStart is %q, want %q", start, want)
	}
	o := proc.Run(t, t.TempDir(), nil, proc.Binary(t, "tandem-key"), "--print-config")
	if got, _ := effective(o.Out, "agent"); got != agent["User"][0] {
		t.Errorf("it answers user %q, and the agent's is %q", got, agent["User"])
	}
}

// TestKeeperUnit: the keeper of slots with users is started by root, and has no more of root's than that takes; the
// agent is given the same users, and lets them pass.
func TestKeeperUnit(t *testing.T) {
	_, text := source(t, "tandem-keeper.service")
	s := settings(t, text)
	_, text = source(t, "tandem-node.service")
	agent := settings(t, text)
	_, text = source(t, "tandem-node-users.conf")
	drop := settings(t, text)
	for key, want := range demanded {
		switch key {
		case "CapabilityBoundingSet":
			want = "CAP_SETUID CAP_SETGID CAP_KILL CAP_BPF CAP_NET_ADMIN"
		case "RestrictNamespaces":
			want = "user"
		}
		if got := s[key]; len(got) != 1 || got[0] != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	if s["User"] != nil || s["StateDirectory"] != nil || s["PrivateUsers"] != nil { // the directory stays the agent's
		t.Errorf("User %q, StateDirectory %q, PrivateUsers %q", s["User"], s["StateDirectory"], s["PrivateUsers"])
	}
	allowed := "@system-service; ~@resources @obsolete; landlock_create_ruleset landlock_add_rule " +
		"landlock_restrict_self bpf"
	if filter := strings.Join(s["SystemCallFilter"], "; "); filter != allowed {
		t.Errorf("SystemCallFilter: %s", filter)
	}
	for _, key := range []string{"Slice", "OOMPolicy", "Requires", "ProtectControlGroups", "TasksMax", "UMask",
		"OOMScoreAdjust", "ProtectSystem"} {
		if s[key] == nil || s[key][0] != agent[key][0] {
			t.Errorf("%s is %q, the agent's %q", key, s[key], agent[key])
		}
	}
	_, users, ok := strings.Cut(drop["Environment"][0], "TANDEM_WORKLOAD_USERS=")
	state := "/var/lib/" + agent["StateDirectory"][0]
	want := "/usr/bin/tandem-node keep --dir " + state + "/keeper --user " + agent["User"][0] + " --users " + users
	if !ok || s["ExecStart"][0] != want || s["ReadWritePaths"][0] != state {
		t.Errorf("ExecStart is %q, ReadWritePaths %q; want %q", s["ExecStart"], s["ReadWritePaths"], want)
	}
	if !strings.HasSuffix(agent["Environment"][0], s["Environment"][0]) {
		t.Errorf("Environment is %q, the agent's %q", s["Environment"], agent["Environment"])
	}
	if drop["StateDirectoryMode"][0] != "0711" || !slices.Contains(drop["Wants"], "tandem-keeper.service") ||
		!slices.Contains(drop["After"], "tandem-keeper.service") {
		t.Errorf("the drop-in has %q", drop)
	}
}

// TestContainersDropIn: it opens what a container takes without root, and nothing else.
func TestContainersDropIn(t *testing.T) {
	_, text := source(t, "tandem-node-oci.conf")
	want := map[string][]string{
		"RestrictNamespaces": {"no"}, "SystemCallFilter": {"@mount seccomp capset setresuid"},
		"ProtectProc": {"default"}, "ProtectKernelTunables": {"no"}, "ProtectKernelLogs": {"no"},
	}
	if got := settings(t, text); !reflect.DeepEqual(got, want) {
		t.Errorf("it has %q", got)
	}
}

// TestPrograms: each program takes the command line of its unit together with the example
// configuration, and then keeps its files where the unit lets it write.
func TestPrograms(t *testing.T) {
	for _, name := range programs {
		t.Run(name, func(t *testing.T) {
			_, text := source(t, name+".service")
			s := settings(t, text)
			argv := strings.Fields(s["ExecStart"][0])
			if argv[0] != "/usr/bin/"+name {
				t.Fatalf("ExecStart runs %s", argv[0])
			}
			credentials, slots := t.TempDir(), ""
			if name == "tandem-node" { // through the launcher, whose state directory is the agent's
				if i := slices.Index(argv, "--state-dir"); len(argv) < 5 || argv[1] != "launch" || i != 2 ||
					argv[4] != "--" {
					t.Fatalf("ExecStart is %q", argv)
				}
				slots, argv[3] = argv[3], t.TempDir()
			}
			for _, c := range s["LoadCredential"] {
				id, from, _ := strings.Cut(c, ":")
				if from != "/etc/tandem/"+id {
					t.Errorf("LoadCredential=%s", c)
				}
				_, example := source(t, id)
				if err := os.WriteFile(filepath.Join(credentials, id), []byte(example), 0o400); err != nil {
					t.Fatal(err)
				}
			}
			argv[0] = proc.Binary(t, name)
			for i := range argv {
				argv[i] = strings.ReplaceAll(argv[i], "%d", credentials)
			}
			o := proc.Run(t, credentials, nil, append(argv, "--print-config")...)
			if o.Status != 0 {
				t.Fatalf("status %d: %s", o.Status, o.Errors)
			}
			if dir, _ := effective(o.Out, "state-dir"); slots != "" && (dir != slots || o.Errors != "") {
				t.Errorf("the launcher's state directory is %s, the agent's %s; it says %q", slots, dir, o.Errors)
			}
			if strings.Contains(o.Out, "change-me") {
				t.Error("--print-config shows a secret")
			}
			for setting, under := range map[string][]string{
				"state-dir": prefixed("/var/lib/", s["StateDirectory"]),
				"dir":       prefixed("/var/lib/", s["StateDirectory"]),
				"socket":    prefixed("/run/", s["RuntimeDirectory"]),
			} {
				if value, ok := effective(o.Out, setting); ok &&
					!slices.ContainsFunc(under, func(dir string) bool {
						return value == dir ||
							strings.HasPrefix(value, dir+"/")
					}) {
					t.Errorf("%s is %s; the unit lets it write only in %q", setting, value, under)
				}
			}
		})
	}
}

func prefixed(prefix string, names []string) []string {
	out := make([]string, 0, len(names))
	for _, n := range names {
		out = append(out, prefix+n)
	}
	return out
}

// effective finds a setting in what --print-config says.
func effective(out, setting string) (string, bool) {
	for line := range strings.Lines(out) {
		if rest, ok := strings.CutPrefix(line, setting+": "); ok {
			value, _, _ := strings.Cut(strings.TrimPrefix(rest, `"`), `"`)
			return value, true
		}
	}
	return "", false
}
