package testenv_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

var updateNotice = flag.Bool("update", false, "write shared/docs/notice.md anew")

const notice = docsDir + "/notice.md"

// linked is a module of others that is part of a program.
type linked struct {
	Path, Version, Dir string
	only               string // what alone has it: "full", the agent with BitTorrent, or tandem on a system; else ""
	packages           []string
}

// linkedModules are the modules of others in the shipped programs, by path. Every command outside testenv is shipped.
func linkedModules(t *testing.T) map[string]*linked {
	t.Helper()
	programs, err := filepath.Glob("../*/cmd/*")
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob("../*/*/cmd/*") // of modules below others
	if err != nil {
		t.Fatal(err)
	}
	programs = append(programs, more...)
	for i, p := range programs {
		programs[i] = root + filepath.ToSlash(strings.TrimPrefix(p, "../"))
	}
	programs = slices.DeleteFunc(programs, func(p string) bool { return module(p) == "testenv" || p == fullAgent })
	if len(programs) < 4 {
		t.Fatalf("only the programs %q were found", programs)
	}
	all := map[string]*linked{}
	for _, from := range []struct {
		programs     []string
		system, only string
	}{
		{programs, "linux", ""}, {[]string{fullAgent}, "linux", "full"}, {[]string{operators}, "windows", "Windows"},
		{[]string{operators}, "darwin", "macOS"}, {[]string{operators}, "freebsd", "FreeBSD"},
	} {
		for _, p := range dependencies(t, from.programs, from.system) {
			m := p.Module
			if m != nil && m.Replace != nil {
				m = m.Replace
			}
			if m == nil || m.Version == "" { // Go's own library, or of this workspace
				continue
			}
			if all[m.Path] == nil {
				all[m.Path] = &linked{Path: m.Path, Version: m.Version, Dir: m.Dir, only: from.only}
			}
			all[m.Path].packages = append(all[m.Path].packages, p.Dir)
		}
	}
	return all
}

type dependency struct {
	Dir    string
	Module *goModule
}

type goModule struct {
	Path, Version, Dir string
	Replace            *goModule // is linked in its place
}

// dependencies are the packages in programs for a system.
func dependencies(t *testing.T, programs []string, system string) (all []dependency) {
	t.Helper()
	args := []string{"list", "-deps", "-json=Dir,Module"}
	list := exec.Command("go", append(args, programs...)...)
	list.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system)
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p dependency
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// goItself is Go: its library and runtime are in every program.
func goItself(t *testing.T) *linked {
	t.Helper()
	dir, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatalf("go env: %v", err)
	}
	self := &linked{Path: "Go", Dir: strings.TrimSpace(string(dir))}
	if got := licence(self.texts(t)); got != "BSD-3-Clause" {
		t.Fatalf("the licence in %s is %q: this test needs Go with its LICENSE, as it comes from go.dev", self.Dir, got)
	}
	return self
}

var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents|e[dp]l)([.-].*)?$`)

// texts are the licences and notices that a module has at its top and above its linked packages, without spaces at
// the ends of lines.
func (m *linked) texts(t *testing.T) (texts []string) {
	t.Helper()
	dirs := map[string]bool{m.Dir: true}
	for _, dir := range m.packages {
		for ; dir != m.Dir; dir = filepath.Dir(dir) {
			dirs[dir] = true
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if !e.Type().IsRegular() || !licenceFile.MatchString(e.Name()) || path.Ext(e.Name()) == ".go" {
				continue
			}
			text, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			var b strings.Builder
			for line := range strings.Lines(string(text)) {
				b.WriteString(strings.TrimRightFunc(line, unicode.IsSpace) + "\n")
			}
			texts = append(texts, strings.Trim(b.String(), "\n"))
		}
	}
	return texts
}

// phrases tell licences apart: the words of a text without line ends, and the licence's name in SPDX.
var phrases = []struct{ words, name string }{
	{"Permission is hereby granted, free of charge, to any person obtaining", "MIT"},
	{"Permission to use, copy, modify, and", "ISC"},
	{"Eclipse Public License v2.0 and Eclipse Distribution License v1.0", "EPL-2.0 OR BSD-3-Clause"},
	{"Apache License, Version 2.0", "Apache-2.0"},
	{"Apache License Version 2.0", "Apache-2.0"},
	{"Mozilla Public License", "MPL-2.0"},
}

// licence names what texts grant. It is empty if they are not known.
func licence(texts []string) string {
	var names []string
	for _, text := range texts {
		words := strings.Join(strings.Fields(text), " ")
		found := ""
		for _, p := range phrases {
			if found == "" && strings.Contains(words, p.words) {
				found = p.name
			}
		}
		if bsd := "Redistribution and use in source and binary forms"; found == "" && strings.Contains(words, bsd) {
			found = "BSD-2-Clause"
			if strings.Contains(words, "the names of its contributors") || strings.Contains(words, "Neither the name") {
				found = "BSD-3-Clause"
			}
		}
		if strings.Contains(words, "covered by two different licenses: MIT and Apache") {
			found = "MIT AND Apache-2.0"
		}
		if found != "" && !slices.ContainsFunc(names, func(n string) bool { return strings.Contains(n, found) }) {
			names = append(names, found)
		}
	}
	return strings.Join(names, " AND ")
}

// noticeHead has ~ for `.
const noticeHead = `# Software of others in the programs

The programs are built with the modules below, unchanged, and with Go's library and runtime, which they name by
~--version~ and a [bill of materials](releases.md). The texts of all licences follow the table, those of Go first;
whoever hands on the programs hands on this document with them. The source of a module, also of those under the
MPL-2.0, is where Go gets it from: ~go mod download -json MODULE@VERSION~ fetches it, and says into which directory.
Of two licences with OR between them, the last one applies here. What is marked as *full* is only in the agent with
BitTorrent (~make agent-full~); with a system, only in ~tandem~ for it. The
[scripts of others](#scripts-in-the-dashboard) in the dashboard are listed apart.

~make notice~ writes this document; ~make release~ refuses a program that has a module which is not in it.

| module | version | licence | |
|---|---|---|---|
`

// noticeOf is the document about modules.
func noticeOf(t *testing.T, modules map[string]*linked) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(strings.ReplaceAll(noticeHead, "~", "`"))
	var texts []string
	of := map[string][]string{} // modules by text
	self := goItself(t)
	for _, text := range self.texts(t) {
		texts, of[text] = append(texts, text), []string{self.Path}
	}
	fmt.Fprintf(&b, "| `%s` | of the build | BSD-3-Clause |  |\n", self.Path)
	for _, name := range slices.Sorted(maps.Keys(modules)) {
		m := modules[name]
		own := m.texts(t)
		granted := licence(own)
		if granted == "" {
			t.Errorf("%s %s: no licence is known in its %d texts", name, m.Version, len(own))
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", name, m.Version, granted, m.only)
		for _, text := range own {
			if of[text] == nil {
				texts = append(texts, text)
			}
			if !slices.Contains(of[text], name) {
				of[text] = append(of[text], name)
			}
		}
	}
	b.WriteString("\n## Scripts in the dashboard\n\nThe controller sends them to browsers.\n\n" +
		"| script | of | version | licence | changed |\n|---|---|---|---|---|\n")
	for _, s := range scripts(t) {
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s | %s |\n", s.File, s.Name, s.Version, s.Licence,
			cmp.Or(s.Changed, "no"))
		text, err := os.ReadFile(filepath.Join(pageFiles, "vendor", s.Name+".LICENSE"))
		if err != nil {
			t.Fatal(err)
		}
		own := strings.TrimRight(string(text), "\n")
		if of[own] == nil {
			texts = append(texts, own)
		}
		if name := "the script " + s.Name; !slices.Contains(of[own], name) {
			of[own] = append(of[own], name)
		}
	}
	b.WriteString("\n## Texts\n")
	for _, text := range texts {
		fmt.Fprintf(&b, "\n`%s`:\n\n~~~text\n%s\n~~~\n", strings.Join(of[text], "`, `"), text)
	}
	return b.String()
}

// notice.md has every module in the shipped programs, with its version, its licence and the licence's text.
func TestNotice(t *testing.T) {
	want := noticeOf(t, linkedModules(t))
	if *updateNotice {
		if err := os.WriteFile(notice, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(notice)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	have, wanted := strings.Split(string(text), "\n"), strings.Split(want, "\n")
	for i := range max(len(have), len(wanted)) {
		if i < min(len(have), len(wanted)) && have[i] == wanted[i] {
			continue
		}
		t.Fatalf("line %d of notice.md is %q, not %q: run make notice", i+1, at(have, i), at(wanted, i))
	}
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "the end"
}

// pageFiles is the directory with the dashboard's files.
const pageFiles = "../controller/internal/dashboard/files"

// script is a file of others that the dashboard has.
type script struct {
	File    string `json:"file"`
	Name    string `json:"name"`
	Version string `json:"version"`
	Licence string `json:"licence"`
	Changed string `json:"changed"`
}

// scripts are those of others in the dashboard, as its list has them; its own test compares that with the files.
func scripts(t *testing.T) []script {
	t.Helper()
	var list struct {
		Files []script `json:"files"`
	}
	text, err := os.ReadFile("../controller/internal/dashboard/vendored.json")
	if err == nil {
		err = json.Unmarshal(text, &list)
	}
	if err != nil || len(list.Files) == 0 {
		t.Fatal(list, err)
	}
	return list.Files
}

// Scripts of others are in the notice: they lie in one folder, and the program has no others.
func TestProgramsHaveListedScripts(t *testing.T) {
	for _, module := range []string{"broker", "controller", "nodeagent", "shared"} {
		err := filepath.WalkDir("../"+module, func(path string, d fs.DirEntry, err error) error {
			if ext := filepath.Ext(path); (ext == ".js" || ext == ".mjs") &&
				!strings.HasPrefix(filepath.ToSlash(path), pageFiles+"/") {
				t.Errorf("%s: if it is of others, its licence belongs into the notice; if not, into this test", path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// What the document has for licences that are easily mistaken.
func TestNoticeKnowsLicences(t *testing.T) {
	for _, c := range []struct{ want, texts string }{
		{"", "All rights reserved."},
		{"MIT", "Permission is hereby granted, free of\ncharge, to any person obtaining a copy"},
		{"BSD-2-Clause", "Redistribution and use in source and binary forms, with"},
		{"BSD-3-Clause", "Redistribution and use in source and binary\nforms, with … Neither the name of"},
		{"MIT AND BSD-3-Clause", "Permission is hereby granted, free of charge, to any person obtaining\x00" +
			"Redistribution and use in source and binary forms, Neither the name"},
	} {
		if got := licence(strings.Split(c.texts, "\x00")); got != c.want {
			t.Errorf("%q is %q, want %q", c.texts, got, c.want)
		}
	}
}

// The README asks for the Go that go.work asks for.
func TestReadmeNamesTheGoThatIsNeeded(t *testing.T) {
	work, err1 := os.ReadFile("../go.work")
	readme, err2 := os.ReadFile("../README.md")
	if err := cmp.Or(err1, err2); err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(work)
	named := regexp.MustCompile(`\bGo (\d+\.\d+)\b`).FindAllSubmatch(readme, -1)
	if version == nil || len(named) != 1 || !bytes.Equal(named[0][1], version[1]) {
		t.Errorf("go.work needs Go %q, the README names %q", version, named)
	}
}
