package systemd

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tandem.internal/testenv/proc"
)

// TestJoinUnit: it starts while one of the files is there that its program knows, and may do what that takes.
func TestJoinUnit(t *testing.T) {
	_, text := source(t, "tandem-join.service")
	s := settings(t, text)
	_, script := source(t, "tandem-join")
	for key, want := range demanded {
		switch key {
		case "CapabilityBoundingSet":
			want = "CAP_SETUID CAP_SETGID CAP_DAC_READ_SEARCH"
		case "Restart":
			want = "on-failure"
		}
		if got := s[key]; len(got) != 1 || got[0] != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	var files []string
	for _, c := range s["ConditionPathExists"] {
		file, any := strings.CutPrefix(c, "|")
		if !any || !strings.Contains(script, `"$root`+file+`"`) {
			t.Errorf("ConditionPathExists=%s: the program does not know it, or all of them have to be there", c)
		}
		files = append(files, file)
	}
	if strings.Count(script, `"$root/`) != len(files) {
		t.Errorf("the unit waits for %q, and the program knows others", files)
	}
	allowed := "@system-service; ~@privileged @resources @obsolete; @setuid"
	if filter := strings.Join(s["SystemCallFilter"], "; "); filter != allowed {
		t.Errorf("SystemCallFilter: %s", filter)
	}
	if got := s["ReadWritePaths"]; len(got) != 1 || got[0] != "/var/lib/tandem-node -/boot -/etc/tandem" {
		t.Errorf("ReadWritePaths is %q", got)
	}
}

// TestFirstBoot runs tandem-join with a tandem-node that tells how it was called.
func TestFirstBoot(t *testing.T) {
	script, _ := source(t, "tandem-join")
	const joins = "mkdir -p \"$6/identity\"\n: >\"$6/identity/identity.json\"\n" // --state-dir is the sixth word
	for _, c := range []struct {
		name   string
		files  []string // below ROOT
		joined bool
		link   bool   // the first file is a link
		node   string // what tandem-node does
		tools  string // what shred and rm do; "": what they do
		shred  string // what shred does; "": what it does
		status int
		calls  int
		left   []string
		sleeps string // what it waits, in seconds
		says   string // part of its output
	}{
		{name: "no file", node: joins},
		{name: "joins", files: []string{"boot/tandem-join.yaml"}, node: joins, calls: 1},
		{name: "the controller says wait", files: []string{"etc/tandem/join.yaml"}, node: "exit 1\n", calls: 1,
			status: 1, left: []string{"etc/tandem/join.yaml"}},
		{name: "refused for a while", files: []string{"etc/tandem/join.yaml"}, calls: 9,
			node: "case $(wc -l <$0.calls) in\n" +
				"1) echo 'tandem-node: wrong-state: somebody else waits' >&2; exit 1 ;;\n" +
				"[2356]) echo 'tandem-node: not-allowed: refused' >&2; exit 1 ;;\n" +
				"4) echo 'tandem-node: unavailable: too many attempts' >&2; exit 1 ;;\n" +
				"7) echo 'tandem-node: expired: over' >&2; exit 1 ;;\n" +
				"8) echo 'tandem-node: cannot reach the controller: x' >&2; exit 1 ;;\nesac\n" + joins,
			sleeps: "120 240 480 60 960 960 960 60 ", says: "the next try is in 16 minutes"},
		{name: "refused, and then the file is wrong", files: []string{"etc/tandem/join.yaml"}, calls: 2, status: 2,
			node:   "[ $(wc -l <$0.calls) = 1 ] || exit 2\necho 'tandem-node: wrong-target: x' >&2; exit 1\n",
			sleeps: "120 ", left: []string{"etc/tandem/join.yaml"}, says: "tandem-node: wrong-target: x"},
		{name: "cannot be overwritten", files: []string{"boot/tandem-join.yaml"}, node: joins, calls: 1,
			shred: "exit 1\n", says: "boot/tandem-join.yaml has a secret and cannot be overwritten; it is only " +
				"removed"},
		{name: "a wrong file", files: []string{"etc/tandem/join.yaml"}, node: "exit 2\n", calls: 1, status: 2,
			left: []string{"etc/tandem/join.yaml"}},
		{name: "two files", files: []string{"boot/firmware/tandem-join.yaml", "etc/tandem/join.yaml"}, node: joins,
			calls: 1},
		{name: "killed before the file was removed", files: []string{"boot/tandem-join.yaml"}, joined: true,
			node: joins},
		{name: "a link", files: []string{"boot/tandem-join.yaml"}, link: true, node: joins,
			left: []string{"boot/tandem-join.yaml"}},
		{name: "read-only", files: []string{"boot/tandem-join.yaml"}, node: joins, tools: "exit 1\n", calls: 1,
			status: 3, left: []string{"boot/tandem-join.yaml"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			root, bin := t.TempDir(), t.TempDir()
			calls, slept := filepath.Join(bin, "tandem-node.calls"), filepath.Join(bin, "slept")
			write(t, filepath.Join(bin, "sleep"), "#!/bin/sh\nprintf '%s ' \"$1\" >>"+slept+"\n", 0o755)
			write(t, filepath.Join(bin, "tandem-node"), "#!/bin/sh\necho \"$@\" >>"+calls+"\n"+
				"[ \"$1 $2 $4 $5\" = \"join --config --state-dir "+root+"/var/lib/tandem-node\" ] || exit 9\n"+
				"set -- \"$1\" \"$@\"\n"+c.node, 0o755)
			if c.tools != "" {
				write(t, filepath.Join(bin, "shred"), "#!/bin/sh\n"+c.tools, 0o755)
				write(t, filepath.Join(bin, "rm"), "#!/bin/sh\n"+c.tools, 0o755)
			}
			if c.shred != "" {
				write(t, filepath.Join(bin, "shred"), "#!/bin/sh\n"+c.shred, 0o755)
			}
			for i, f := range c.files {
				path := filepath.Join(root, f)
				if c.link && i == 0 {
					write(t, path+".real", "x", 0o600)
					if err := os.Symlink(path+".real", path); err != nil {
						t.Fatal(err)
					}
					continue
				}
				write(t, path, "token: "+f+"\n", 0o600)
			}
			if c.joined {
				write(t, filepath.Join(root, "var/lib/tandem-node/identity/identity.json"), "{}", 0o600)
			}
			o := proc.Run(t, root, []string{"PATH=" + bin + ":/usr/bin:/bin"}, "/bin/sh", script, root)
			if o.Status != c.status {
				t.Errorf("status %d, want %d: %s%s", o.Status, c.status, o.Out, o.Errors)
			}
			told, err := os.ReadFile(calls)
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			if got := strings.Count(string(told), "\n"); got != c.calls {
				t.Errorf("tandem-node was called %d times: %s", got, told)
			}
			waited, err := os.ReadFile(slept)
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			if string(waited) != c.sleeps {
				t.Errorf("it waited %s, want %s", waited, c.sleeps)
			}
			if !strings.Contains(string(o.Out)+string(o.Errors), c.says) {
				t.Errorf("it says %s%s, without %q", o.Out, o.Errors, c.says)
			}
			var left []string
			for _, f := range c.files {
				if _, err := os.Lstat(filepath.Join(root, f)); err == nil {
					left = append(left, f)
				}
			}
			if !slices.Equal(left, c.left) {
				t.Errorf("left are %q, want %q", left, c.left)
			}
		})
	}
}

// TestJoinFileIsOverwritten: also one that only its owner may read, by somebody who may write what its mode lets him.
func TestJoinFileIsOverwritten(t *testing.T) {
	script, _ := source(t, "tandem-join")
	root, bin := t.TempDir(), t.TempDir()
	path, kept := filepath.Join(root, "etc/tandem/join.yaml"), filepath.Join(root, "kept")
	write(t, path, "token: tdm1.AAAA\n", 0o400)
	if err := os.Link(path, kept); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(bin, "tandem-node"), "#!/bin/sh\n", 0o755)
	args := []string{"/bin/sh", script, root}
	if os.Getuid() == 0 { // as the unit's CapabilityBoundingSet
		args = append([]string{"setpriv", "--bounding-set", "-all,+setuid,+setgid,+dac_read_search"}, args...)
	}
	o := proc.Run(t, root, []string{"PATH=" + bin + ":/usr/bin:/bin"}, args...)
	if _, err := os.Lstat(path); o.Status != 0 || !os.IsNotExist(err) {
		t.Fatalf("status %d, %v: %s%s", o.Status, err, o.Out, o.Errors)
	}
	text, err := os.ReadFile(kept)
	if err != nil || strings.Contains(string(text), "tdm1") {
		t.Errorf("what was in the file is there: %q %v", text, err)
	}
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// TestJoinFile: the program takes a file as tandem enrol writes it, and shows no secret of it.
func TestJoinFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "join.yaml")
	write(t, path, "# Tandem: node press-1 joins with this, once.\r\ncontroller: https://gateway:8884\r\n"+
		"token: tdm1.AAAA\r\nnode: press-1\r\n", 0o600)
	o := proc.Run(t, dir, nil, proc.Binary(t, "tandem-node"), "join", "--config", path, "--print-config")
	if url, _ := effective(o.Out, "controller"); o.Status != 0 || url != "https://gateway:8884" ||
		strings.Contains(o.Out, "tdm1.AAAA") {
		t.Errorf("status %d: %s%s", o.Status, o.Out, o.Errors)
	}
	if name, _ := effective(o.Out, "node"); name != "press-1" {
		t.Errorf("%s", o.Out)
	}
}
