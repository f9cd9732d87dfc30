package enrol

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/wire"
)

// joinFile is the content of a file with which tandem-node join makes a machine a node. what says whose it is.
func joinFile(what, controller, token string, until time.Time) []byte {
	return fmt.Appendf(nil, "# Tandem: %s, until %s. Copy it to the boot partition as tandem-join.yaml.\n"+
		"controller: %s\ntoken: %s\n", what, until.UTC().Format(time.RFC3339), controller, token)
}

// folder is a directory that appears whole or not at all.
type folder struct{ path, temp string }

// newFolder prepares a directory that does not exist yet.
func newFolder(path string) (*folder, error) {
	path = filepath.Clean(path)
	if _, err := os.Lstat(path); err == nil {
		f := command.Refuse(command.ExitUsage, wire.CodeAlreadyExists,
			"it exists and was left alone; name a new directory")
		f.From.File = path
		return nil, f
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, command.Unreadable(path, err)
	}
	temp, err := os.MkdirTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // mode 0700
	if err != nil {
		return nil, command.Unreadable(path, err)
	}
	return &folder{path, temp}, nil
}

// drop removes what was not kept.
func (f *folder) drop() error { return os.RemoveAll(f.temp) }

// keep writes a file for each node, and has the directory appear.
func (f *folder) keep(v view.EnrolledList) error {
	for _, n := range v.Nodes {
		path := filepath.Join(f.temp, n.Node+".yaml")
		data := joinFile("node "+n.Node+" joins with this, once", v.Controller, n.Token, n.Expires)
		if err := durable.WriteFile(path, data, 0o600, nil); err != nil {
			return command.Unreadable(path, err)
		}
	}
	if err := os.Rename(f.temp, f.path); err != nil {
		return command.Unreadable(f.path, err)
	}
	return nil
}

// writeTokens writes tokens as CSV.
func writeTokens(w io.Writer, v view.EnrolledList) error {
	out := csv.NewWriter(w)
	rows := [][]string{{"node", "controller", "token", "expires"}}
	for _, n := range v.Nodes {
		rows = append(rows, []string{n.Node, v.Controller, n.Token, n.Expires.UTC().Format(time.RFC3339)})
	}
	return out.WriteAll(rows)
}
