// Package submitter knows who may submit over MQTT: the submitters of a file, each with an Ed25519 public key. What
// they submit is signed (shared/docs/wire.md, Submission and answer).
package submitter

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"tandem.internal/shared/seal"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// Window is how far the time of a submission may be from the controller's, in both directions.
const Window = 5 * time.Minute

// maxFile is the largest file of submitters, in bytes.
const maxFile = 256 << 10

// Submitter is one line of the file.
type Submitter struct {
	Name  string
	Kinds []string // of documents that it may submit; empty: all
	Key   ed25519.PublicKey
}

// List is the file of submitters. It is read again for each submission, so that who is taken out of it counts no more.
type List struct {
	Path string
}

// Read reads the file: a line for each submitter, its name, its key in base64, and, if it is not to submit all kinds of
// documents, those that it may, with commas in between. Empty lines and those that begin with # say nothing. The error
// names the line.
func (l List) Read() ([]Submitter, error) {
	f, err := os.OpenFile(l.Path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO does not hold it up
	if err != nil {
		return nil, fmt.Errorf("submitters: %w", err)
	}
	data, err := read(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("submitters: %s: %w", l.Path, err)
	}
	all, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("submitters: %s: %w", l.Path, err)
	}
	return all, nil
}

func read(f *os.File) ([]byte, error) {
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("it is not a regular file")
	case info.Mode().Perm()&0o022 != 0:
		return nil, fmt.Errorf("its mode is %#o: others than its owner may write it; chmod go-w", info.Mode().Perm())
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if len(data) > maxFile {
		return nil, fmt.Errorf("it is larger than %d bytes", maxFile)
	}
	return data, err
}

// Check returns what is wrong with the content of a file of submitters; nil: nothing.
func Check(data []byte) error {
	_, err := parse(data)
	return err
}

func parse(data []byte) (all []Submitter, err error) {
	lines := bufio.NewScanner(bytes.NewReader(data))
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || text[0] == '#' {
			continue
		}
		s, err := parseLine(text)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		for _, o := range all {
			if o.Name == s.Name || o.Key.Equal(s.Key) {
				return nil, fmt.Errorf("line %d: %s and %s have the same name or key", n, o.Name, s.Name)
			}
		}
		all = append(all, s)
	}
	return all, lines.Err()
}

func parseLine(text string) (s Submitter, err error) {
	f := strings.Fields(text)
	if len(f) < 2 || len(f) > 3 {
		return s, errors.New("a line is NAME KEY or NAME KEY KIND,KIND")
	}
	key, err := base64.StdEncoding.DecodeString(f[1])
	switch {
	case !topic.ValidName(f[0]):
		return s, fmt.Errorf("%q is no name: letters, digits, and . _ - after the first, at most 63", f[0])
	case err != nil || len(key) != ed25519.PublicKeySize:
		return s, fmt.Errorf("the key of %s is not an Ed25519 public key, %d bytes in base64", f[0],
			ed25519.PublicKeySize)
	}
	s = Submitter{Name: f[0], Key: key}
	if len(f) == 3 {
		s.Kinds = strings.Split(f[2], ",")
	}
	return s, nil
}

// Verify returns who has signed a submission on inbox/{what}, at a time that is not far from now. The error has the
// code unsigned, unknown-key, bad-signature, expired or not-allowed; or storage, if the file cannot be read.
func (l List) Verify(unit, what string, m *wire.Submission, now time.Time) (name string, err *wire.Error) {
	if m.Sig == nil {
		return "", wire.New(wire.CodeUnsigned, "/sig", "this controller takes signed submissions only")
	}
	all, rerr := l.Read()
	if rerr != nil {
		return "", wire.New(wire.CodeStorage, "", rerr.Error())
	}
	trust := seal.Trust{}
	for _, s := range all {
		trust[seal.KeyID(s.Key)] = s.Key
	}
	if verr := trust.Verify(seal.SubmissionPreimage(unit, what, m), m.Sig); verr != nil {
		return "", wire.AsError(verr)
	}
	i := slices.IndexFunc(all, func(s Submitter) bool { return seal.KeyID(s.Key) == m.Sig.KeyID })
	s := all[i]
	switch off := m.Time.Sub(now); {
	case off < -Window || off > Window:
		return "", wire.New(wire.CodeExpired, "/time", fmt.Sprintf("it is more than %v from the controller's time, %s",
			Window, now.UTC().Format(time.RFC3339)))
	case len(s.Kinds) > 0 && !slices.Contains(s.Kinds, what):
		return "", wire.New(wire.CodeNotAllowed, "", fmt.Sprintf("%s may submit %s only", s.Name,
			strings.Join(s.Kinds, ", ")))
	}
	return "submitter/" + s.Name, nil
}
