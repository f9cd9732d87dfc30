// Command quick vets and tests what has changed, for the minute between an edit and a commit: the packages
// with changes that are not in the base commit, committed or not, and the packages of their modules that import
// them. It stops when its time is up, and prints what it left out. It is no substitute for make check.
//
//	go run ./testenv/cmd/quick [-base main] [-for 50s]
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	base := flag.String("base", "main", "a commit: changes are those since this and HEAD parted")
	limit := flag.Duration("for", 50*time.Second, "time for vet and tests; what is not done by then is left out")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, *limit)
	defer cancel()
	w := workspace{dir: ".", prefix: "tandem.internal/", house: "tandem.internal/testenv"}
	ok, err := quick(ctx, w, *base, os.Stdout)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "quick:", err)
		os.Exit(2)
	case !ok:
		os.Exit(1)
	}
}

// quick prints what it does and what it leaves out. It reports whether all that was done went well; what ctx
// cut short counts as left out.
func quick(ctx context.Context, w workspace, base string, out io.Writer) (bool, error) {
	since, files, err := w.changes(ctx, base)
	if err != nil {
		return false, err
	}
	if len(files) == 0 {
		fmt.Fprintf(out, "nothing has changed since %s\n", since)
		return true, nil
	}
	all, err := w.packages(ctx)
	if err != nil {
		return false, err
	}
	p := planFor(files, all, w.house)
	fmt.Fprintf(out, "%d files have changed since %s, in %d packages; %d more of their modules import these\n",
		len(files), since, len(p.Changed), len(p.Users))
	left := leftOut{{"in other modules", w.short(p.Others)}}
	ok, done := w.formatted(ctx, files, out)
	if !done {
		left = append(left, unmade{"not done in time", []string{"gofmt"}})
	}
	for _, step := range []struct {
		name     string
		packages []string
		do       func(context.Context, []string, io.Writer) (good bool, rest []string)
	}{
		{"vet", slices.Concat(p.Changed, p.Users), w.vet},
		{"tests", p.Changed, w.testChanged},
		{"rules", w.rules(p), w.testRules},
		{"tests", p.Users, w.test},
	} {
		if len(step.packages) == 0 {
			continue
		}
		good, rest := step.do(ctx, step.packages, out)
		ok = ok && good
		left = append(left, unmade{step.name + " not done in time", w.short(rest)})
	}
	left.print(out)
	return ok, nil
}

// leftOut says what was not done, and why.
type leftOut []unmade

type unmade struct {
	why  string
	what []string
}

func (l leftOut) print(out io.Writer) {
	for _, l := range l {
		if len(l.what) > 0 {
			fmt.Fprintf(out, "left out, %s: %s\n", l.why, strings.Join(l.what, " "))
		}
	}
	fmt.Fprintln(out, "left out, as always: "+
		"what -short skips, race, fuzz, staticcheck, packages further away")
}
