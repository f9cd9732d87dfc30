package item

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/desired"
	"tandem.internal/shared/items"
	"tandem.internal/shared/near"
	"tandem.internal/shared/strictjson"
	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
)

// mostFiles bounds the files of a directory.
const mostFiles = 100_000

// The names in a directory of a unit.
const (
	dirItems, dirSubjects, dirNodes = "items", "subjects", "nodes"
	fileUnit, fileCurrent, fileLoad = "unit.json", "current.json", "load.json"
)

// unit is what was read of a directory, with the files that it stands in.
type unit struct {
	desired.Input
	load     *items.Load // nil: nothing was measured
	files    map[desired.List][]string
	problems []*wire.Error
	sources  []command.Source // of problems
}

// readUnit reads a unit from a directory: items/*.json, subjects/*.json, nodes/*.json, and, if they are there,
// unit.json (the unit configuration), current.json and load.json (what was measured). Every problem of every file is in
// the failure.
func readUnit(a *command.App, dir string) (*unit, error) {
	u := &unit{files: map[desired.List][]string{}}
	if err := onlyKnown(dir); err != nil {
		return nil, err
	}
	var config *unitconfig.UnitConfig
	if err := one(a, u, filepath.Join(dir, fileUnit), func(c *unitconfig.UnitConfig) { config = c },
		unitconfig.Parse); err != nil {
		return nil, err
	}
	if err := one(a, u, filepath.Join(dir, fileCurrent), func(c *items.Current) { u.Current = *c },
		items.ParseCurrent); err != nil {
		return nil, err
	}
	if err := one(a, u, filepath.Join(dir, fileLoad), func(l *items.Load) { u.load = l },
		items.ParseLoad); err != nil {
		return nil, err
	}
	if err := all(a, u, desired.ListItems, filepath.Join(dir, dirItems), func(i *items.Item) {
		u.Items = append(u.Items, *i)
	}, items.ParseItem); err != nil {
		return nil, err
	}
	if err := all(a, u, desired.ListSubjects, filepath.Join(dir, dirSubjects), func(s *items.Subject) {
		u.Subjects = append(u.Subjects, *s)
	}, items.ParseSubject); err != nil {
		return nil, err
	}
	var nodes []*items.Node
	if err := all(a, u, desired.ListNodes, filepath.Join(dir, dirNodes), func(n *items.Node) {
		nodes = append(nodes, n)
	}, items.ParseNode); err != nil {
		return nil, err
	}
	for _, n := range nodes {
		var c *unitconfig.NodeConfig
		if config != nil {
			resolved, _ := unitconfig.Resolve(config, n.Node, n.Type)
			c = &resolved
		}
		u.Nodes = append(u.Nodes, desired.NodeOf(n, c))
	}
	return u, u.failure()
}

// failure is why a unit cannot be used: what is malformed, or what contradicts each other.
func (u *unit) failure() error {
	if u.problems != nil {
		f := command.Malformed(u.problems, u.sources[0])
		f.Sources = u.sources
		return f
	}
	for _, c := range desired.Check(&u.Input) {
		names := u.files[c.List]
		e := wire.New(c.Err.Code, c.Err.Path, c.Err.Message)
		if c.With != c.Index {
			e.Message += ", in " + names[c.With]
		}
		u.problems = append(u.problems, e)
		u.sources = append(u.sources, command.Source{File: names[c.Index]})
	}
	if u.problems == nil {
		return nil
	}
	f := command.Malformed(u.problems, u.sources[0])
	f.Exit, f.Sources = command.ExitRefused, u.sources
	return f
}

// onlyKnown refuses a directory with anything that is not of a unit: a name that is misspelt would be passed over.
func onlyKnown(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return command.Unreadable(dir, err)
	}
	known := []string{dirItems, dirSubjects, dirNodes, fileUnit, fileCurrent, fileLoad}
	for _, e := range entries {
		isDir := !strings.HasSuffix(e.Name(), ".json")
		switch {
		case strings.HasPrefix(e.Name(), "."):
		case !slices.Contains(known, e.Name()):
			return command.Usage("%s is not of a unit, which has %s%s", filepath.Join(dir, e.Name()),
				strings.Join(known, ", "), near.Hint(e.Name(), known))
		case isDir != e.IsDir():
			return command.Usage("%s is %s", filepath.Join(dir, e.Name()), map[bool]string{true: "no directory",
				false: "a directory"}[isDir])
		}
	}
	return nil
}

// one reads a file that may be absent.
func one[T any, P ~[]*wire.Error](a *command.App, u *unit, file string, take func(*T),
	parse func([]byte) (*T, P)) error {
	from, err := a.Read(file)
	if f, ok := errors.AsType[*command.Failure](err); ok && f.Err.Code == wire.CodeNotFound {
		return nil
	} else if err != nil {
		return err
	}
	v, problems := parse(from.Text)
	if len(problems) > 0 {
		u.problems = append(u.problems, problems...)
		for range problems {
			u.sources = append(u.sources, from)
		}
		return nil
	}
	take(v)
	return nil
}

// all reads the files of a directory, in the order of their names. It may be absent.
func all[T any](a *command.App, u *unit, list desired.List, dir string, take func(*T),
	parse func([]byte) (*T, strictjson.Problems)) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return command.Unreadable(dir, err)
	}
	if len(entries) > mostFiles {
		return command.Usage("%s has %d files; at most %d are read", dir, len(entries), mostFiles)
	}
	for _, e := range entries {
		file := filepath.Join(dir, e.Name())
		switch {
		case strings.HasPrefix(e.Name(), "."):
			continue
		case e.IsDir() || !strings.HasSuffix(e.Name(), ".json"):
			return command.Usage("%s is no file of JSON: names of files end in .json", file)
		}
		if err := one(a, u, file, func(v *T) {
			u.files[list] = append(u.files[list], file)
			take(v)
		}, parse); err != nil {
			return err
		}
	}
	return nil
}
