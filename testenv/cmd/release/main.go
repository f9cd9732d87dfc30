// Command release makes a release's folder of built programs: archives of tandem, the agents as nodes get them, a
// bill of materials for each program, the version's notes, and the checksums of all:
//
//	release -version V -time UNIX-SECONDS -programs DIR -out DIR [-with DIR]...
//	release images -version V -time UNIX-SECONDS -programs DIR -out DIR [-tar]
//	release apt -time UNIX-SECONDS DIR
//
// DIR has a folder for each system, such as linux_arm64, and the programs in it. What lies in the folders that -with
// names is part of the release, too. "images" makes container images of the programs for Linux; "apt" makes a
// repository of a folder with .deb files. The same input gives the same bytes. It signs nothing: deploy/ship/release
// does.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// release is what is made.
type release struct {
	version  string
	at       time.Time
	out      string
	docs     string
	licences map[string]licence // by module
}

// program is a built program.
type program struct {
	name, system, file string // system: linux_arm64
}

func (p *program) windows() bool { return strings.HasPrefix(p.system, "windows_") }

func run(args []string, to io.Writer) error {
	verb := ""
	if len(args) > 0 {
		verb = args[0]
	}
	switch verb {
	case "images":
		return makeImages(args[1:], to)
	case "apt":
		return makeApt(args[1:], to)
	}
	return makeRelease(args, to)
}

// options are what all are told.
type options struct {
	*flag.FlagSet
	release
	seconds  int64
	programs string
}

func newOptions(name string) *options {
	o := &options{FlagSet: flag.NewFlagSet(name, flag.ContinueOnError)}
	o.StringVar(&o.version, "version", "", "version of the programs")
	o.Int64Var(&o.seconds, "time", 0, "when what is built was changed last, in seconds since 1970")
	o.StringVar(&o.programs, "programs", "", "folder with a folder of programs for each system")
	o.StringVar(&o.out, "out", "", "folder that is made")
	o.StringVar(&o.docs, "docs", "shared/docs", "folder with the documents")
	return o
}

// read reads the command line, and what stands in the folders that it names.
func (o *options) read(args []string) (all []program, err error) {
	if err := o.Parse(args); err != nil {
		return nil, err
	}
	if o.NArg() > 0 || o.version == "" || o.programs == "" || o.out == "" {
		return nil, errors.New("-version, -programs and -out are required, and nothing else stands there")
	}
	o.at = time.Unix(o.seconds, 0).UTC()
	if o.licences, err = readNotice(filepath.Join(o.docs, "notice.md")); err != nil {
		return nil, err
	}
	return found(o.programs)
}

func makeRelease(args []string, to io.Writer) error {
	o := newOptions("release")
	var with []string
	o.Func("with", "folder that is part of the release", func(s string) error {
		with = append(with, s)
		return nil
	})
	all, err := o.read(args)
	if err != nil {
		return err
	}
	r := &o.release
	if err := os.Mkdir(r.out, 0o755); err != nil { // one that is there may have another version's files
		return err
	}
	for _, p := range all {
		if err := r.add(&p); err != nil {
			return fmt.Errorf("%s: %w", p.file, err)
		}
	}
	for _, dir := range with {
		if err := os.CopyFS(filepath.Join(r.out, filepath.Base(dir)), os.DirFS(dir)); err != nil {
			return err
		}
	}
	if err := cmp.Or(r.notes(), r.copy("notice.md")); err != nil {
		return err
	}
	n, err := r.sums()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(to, "%s: version %s, %d files\n", r.out, r.version, n)
	return err
}

// found lists the programs in dir, sorted.
func found(dir string) (all []program, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*_*", "*"))
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".exe")
		all = append(all, program{name: name, system: filepath.Base(filepath.Dir(f)), file: f})
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("there are no programs in %s", dir)
	}
	return all, nil
}

// add makes what the release has of a program.
func (r *release) add(p *program) error {
	if err := r.sbom(p); err != nil {
		return err
	}
	name := p.name + "_" + r.version + "_" + p.system
	switch {
	case p.name == "tandem":
		return r.archive(p, name)
	case strings.HasPrefix(p.name, "tandem-node"): // as tandem agent release takes it
		data, err := os.ReadFile(p.file)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(r.out, name), data, 0o755)
	}
	return nil // of the others there are packages
}

// notes writes what the changelog says of the version; before a release, of what is to be it.
func (r *release) notes() error {
	text, err := os.ReadFile(filepath.Join(r.docs, "changelog.md"))
	if err != nil {
		return err
	}
	number, _, _ := strings.Cut(r.version, "-")
	for section := range strings.SplitSeq(string(text), "\n## ") {
		if head, _, _ := strings.Cut(section, "\n"); strings.HasPrefix(head, "["+number+"]") {
			return os.WriteFile(filepath.Join(r.out, "notes.md"), []byte("# "+section), 0o644)
		}
	}
	return fmt.Errorf("the changelog has nothing about %s: it needs a heading ## [%s]", number, number)
}

func (r *release) copy(doc string) error {
	data, err := os.ReadFile(filepath.Join(r.docs, doc))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, doc), data, 0o644)
}

// sums writes SHA256SUMS, as sha256sum reads it, and says of how many files. Signatures are not in it: they are made
// afterwards, and vouch for themselves.
func (r *release) sums() (int, error) {
	var lines []string
	err := filepath.WalkDir(r.out, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		sum, err := hashOf(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(r.out, path)
		lines = append(lines, sum+"  "+filepath.ToSlash(name)+"\n")
		return err
	})
	if err != nil {
		return 0, err
	}
	slices.SortFunc(lines, func(a, b string) int { return cmp.Compare(a[64:], b[64:]) })
	return len(lines), os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(strings.Join(lines, "")), 0o644)
}
