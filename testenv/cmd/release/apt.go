package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// makeApt makes a flat repository for apt of a folder with .deb files: Packages says which there are, Release vouches
// for Packages. Who signs Release makes InRelease of it: deploy/ship/apt-sign.
func makeApt(args []string, to io.Writer) error {
	flags := flag.NewFlagSet("release apt", flag.ContinueOnError)
	seconds := flags.Int64("time", 0, "when what is built was changed last, in seconds since 1970")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return errors.New("it takes one folder, with .deb files")
	}
	dir := flags.Arg(0)
	files, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("there are no .deb files in %s", dir)
	}
	var packages bytes.Buffer
	var architectures []string
	for _, file := range files {
		fields, err := control(file)
		if err != nil {
			return err
		}
		packages.WriteString(fields)
		for line := range strings.Lines(fields) {
			if arch, ok := strings.CutPrefix(line, "Architecture: "); ok {
				architectures = append(architectures, strings.TrimSpace(arch))
			}
		}
	}
	slices.Sort(architectures)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed) // without a name and time of its own
	if _, err := z.Write(packages.Bytes()); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	var release strings.Builder
	fmt.Fprintf(&release, "Origin: Tandem\nLabel: Tandem\nArchitectures: %s\nDate: %s\nSHA256:\n",
		strings.Join(slices.Compact(architectures), " "),
		time.Unix(*seconds, 0).UTC().Format("Mon, 02 Jan 2006 15:04:05 UTC"))
	for _, f := range []struct {
		name string
		data []byte
	}{{"Packages", packages.Bytes()}, {"Packages.gz", packed.Bytes()}} {
		if err := os.WriteFile(filepath.Join(dir, f.name), f.data, 0o644); err != nil {
			return err
		}
		fmt.Fprintf(&release, " %x %d %s\n", sha256.Sum256(f.data), len(f.data), f.name)
	}
	if err := os.WriteFile(filepath.Join(dir, "Release"), []byte(release.String()), 0o644); err != nil {
		return err
	}
	_, err = fmt.Fprintf(to, "%s: a repository for apt, %d packages\n", dir, len(files))
	return err
}

// control is what Packages says of a .deb file: its own fields, and how it is found and verified.
func control(file string) (string, error) {
	fields, err := exec.Command("dpkg-deb", "--field", file).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
		}
		return "", fmt.Errorf("%s: dpkg-deb, which has to be installed: %w", file, err)
	}
	sum, err := hashOf(file)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(file)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s\nFilename: ./%s\nSize: %d\nSHA256: %s\n\n", bytes.TrimSpace(fields), filepath.Base(file),
		info.Size(), sum), nil
}
