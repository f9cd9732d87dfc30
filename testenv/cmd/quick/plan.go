package main

import (
	"path"
	"slices"
	"strings"
)

// pkg is one package of the workspace.
type pkg struct {
	Path  string   // import path
	Dir   string   // from the root of the workspace, with slashes
	Mod   string   // directory of its module, likewise
	Uses  []string // import paths, also those of its tests
	Tests string   // text of its test files: which files they name
}

// plan says which packages a change touches. All are import paths, sorted, and none stands in two lists.
type plan struct {
	Changed []string // have changed files, or tests that name a changed file outside of all packages
	Users   []string // in the same module, import a changed one
	Others  []string // in other modules, import a changed one
}

// planFor finds the packages that changed files belong to or are named in. Files are from the root of the
// workspace. house is the package that tests the documents.
func planFor(files []string, all []pkg, house string) plan {
	changed := map[string]bool{}
	for _, file := range files {
		for _, p := range owners(file, all, house) {
			changed[p] = true
		}
	}
	var made plan
	mods := map[string]bool{}
	for _, p := range all {
		if changed[p.Path] {
			made.Changed = append(made.Changed, p.Path)
		}
	}
	for _, p := range all {
		if changed[p.Path] {
			continue
		}
		clear(mods)
		for _, q := range all {
			if changed[q.Path] && slices.Contains(p.Uses, q.Path) {
				mods[q.Mod] = true
			}
		}
		switch {
		case mods[p.Mod]:
			made.Users = append(made.Users, p.Path)
		case len(mods) > 0:
			made.Others = append(made.Others, p.Path)
		}
	}
	for _, list := range [][]string{made.Changed, made.Users, made.Others} {
		slices.Sort(list)
	}
	return made
}

// owners are the packages that a changed file touches: the one in whose directory it lies, at any depth; for
// go.mod and go.sum, all of the module; for any other file, those whose tests name it.
func owners(file string, all []pkg, house string) (found []string) {
	dir, name := path.Split(file)
	dir = strings.TrimSuffix(dir, "/")
	if name == "go.mod" || name == "go.sum" {
		for _, p := range all {
			if p.Mod == dir {
				found = append(found, p.Path)
			}
		}
		return found
	}
	nearest := pkg{}
	for _, p := range all {
		if (dir == p.Dir || strings.HasPrefix(dir, p.Dir+"/")) && len(p.Dir) > len(nearest.Dir) {
			nearest = p
		}
	}
	if nearest.Path != "" && (dir == nearest.Dir || path.Ext(name) != ".go") {
		return []string{nearest.Path}
	}
	if path.Ext(name) == ".go" { // of a package that is gone
		return nil
	}
	for _, p := range all {
		if strings.Contains(p.Tests, name) || p.Path == house && path.Ext(name) == ".md" {
			found = append(found, p.Path)
		}
	}
	return found
}
