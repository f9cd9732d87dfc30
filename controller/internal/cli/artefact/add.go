package artefact

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

func add(a *command.App) *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use: "add FILE", Short: "Add a file to the controller's store; an upload that was interrupted goes on",
		Example: "  tandem artefact add tandem-node-1.4.0\n" +
			"  tandem artefact add out.bin --name \"map tiles, May\" --json",
		Args: command.Args("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if name == "" {
				name = wire.Plain(filepath.Base(args[0]), maxName)
			}
			return addFile(cmd.Context(), a, args[0], name)
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "`what` it is, for people (default the file's name)")
	return cmd
}

// maxName bounds the name that a file gives.
const maxName = 128

func addFile(ctx context.Context, a *command.App, path, name string) error {
	how := "is added"
	return command.Gather(ctx, a, func(ctx context.Context, c *client.Client) (view.Artefact, error) {
		v, there, err := Put(ctx, a, c, path, name)
		if there {
			how = "is there already"
		}
		return v, err
	}, func(a *command.App, v view.Artefact) {
		a.Print("%s (%s) %s as\n%s\n", term.Clean(v.Name), command.Size(v.Size), how, term.Clean(v.Digest))
		if v.URL != "" {
			a.Print("Nodes whose documents name that checksum fetch it at\n%s\n", term.Clean(v.URL))
		}
	})
}

// Put brings a file into the controller's store, with its progress on the terminal; there: it was in it before. What an
// interrupted one has brought is not sent again. Digest and size are also those of a file that was not taken.
func Put(ctx context.Context, a *command.App, c *client.Client, path, name string) (
	v view.Artefact, there bool, err error) {

	f, err := os.Open(path)
	if err != nil {
		return v, false, command.Unreadable(path, err)
	}
	defer func() {
		if cerr := f.Close(); !errors.Is(cerr, os.ErrClosed) {
			err = errors.Join(err, cerr)
		}
	}()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return v, false, command.Unreadable(path, errors.Join(err, errors.New("this is not a regular file")))
	}
	u := &upload{a: a, file: f, progress: a.Progress(false), name: name}
	defer u.progress.End()
	if u.digest, err = u.hash(ctx); err != nil && ctx.Err() == nil {
		return v, false, command.Unreadable(path, err)
	} else if err != nil {
		return v, false, err
	}
	if err := u.run(ctx, c); err != nil {
		return view.Artefact{Digest: u.digest, Size: u.size}, false, u.explained(path, err)
	}
	v, err = client.Call(ctx, c, op.ShowArtefact, op.ArtefactIn{Digest: u.digest})
	return v, u.there, err
}

// upload is one file on its way.
type upload struct {
	a        *command.App
	file     *os.File
	name     string
	digest   string
	size     int64
	progress *term.Progress
	begun    bool // the controller has room for it
	there    bool // all of it was there before
}

// show shows how far something has come.
func (u *upload) show(what string, done int64) {
	u.progress.Update(fmt.Sprintf("%s %s of %s", what, command.Size(done), command.Size(u.size)),
		int(done>>10), int(u.size>>10))
}

// hash reads the file once, for its digest and size.
func (u *upload) hash(ctx context.Context) (string, error) {
	info, err := u.file.Stat()
	if err != nil {
		return "", err
	}
	u.size = info.Size()
	sum := sha256.New()
	from := &counted{r: u.file}
	err = u.watch(ctx, "reading", from, func() error {
		_, err := io.Copy(sum, from)
		return err
	})
	u.size = from.n.Load()
	return wire.HashPrefix + hex.EncodeToString(sum.Sum(nil)), err
}

// counted counts what is read. It may be read by one goroutine and looked at by another.
type counted struct {
	r io.Reader
	n atomic.Int64
}

// Read implements io.Reader.
func (c *counted) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n.Add(int64(n))
	return n, err
}

// watchEvery is how often the line about the progress is written anew.
const watchEvery = 100 * time.Millisecond

// watch shows how far something is read while do reads it. When ctx ends it is closed, so that do ends, too.
func (u *upload) watch(ctx context.Context, what string, from *counted, do func() error) error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	beat := time.NewTicker(watchEvery)
	defer beat.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-beat.C:
			u.show(what, from.n.Load())
		case <-ctx.Done():
			err := u.file.Close()
			<-done
			return cmp.Or(ctx.Err(), err)
		}
	}
}

// maxAgain bounds how often the controller says that the upload goes on elsewhere.
const maxAgain = 3

// run brings what the controller does not have yet, and ends the upload.
func (u *upload) run(ctx context.Context, c *client.Client) error {
	for again := 0; ; again++ {
		v, err := client.Call(ctx, c, op.BeginUpload, op.NewArtefact{Digest: u.digest, Size: u.size, Name: u.name})
		if err != nil {
			return err
		}
		if u.begun = true; v.State == view.UploadAdded {
			u.there = again == 0
			return nil
		}
		if v.Offset < u.size {
			err = u.send(ctx, c, v.Offset)
		}
		if e, ok := errors.AsType[*wire.Error](err); ok && e.Code == wire.CodeWrongState && again < maxAgain {
			continue // it asks where to go on
		}
		if err != nil {
			return err
		}
		return u.end(ctx, c)
	}
}

// send sends the file from an offset.
func (u *upload) send(ctx context.Context, c *client.Client, from int64) error {
	in := op.UploadIn{ArtefactIn: op.ArtefactIn{Digest: u.digest}, Offset: uint64(from)}
	rest := &counted{r: io.NewSectionReader(u.file, from, u.size-from)}
	rest.n.Store(from)
	return u.watch(ctx, "sending", rest, func() error {
		_, err := client.Upload(ctx, c, op.WriteUpload, in, rest, u.size-from)
		return err
	})
}

// end has the controller verify the file, and follows how far that is.
func (u *upload) end(ctx context.Context, c *client.Client) error {
	for {
		v, err := client.Call(ctx, c, op.CompleteUpload, op.CompleteIn{ArtefactIn: op.ArtefactIn{Digest: u.digest}})
		if err != nil || v.State == view.UploadAdded {
			return err
		}
		u.show("verifying", v.Verified)
	}
}

// explained says what to do about an upload that was interrupted.
func (u *upload) explained(path string, err error) error {
	u.progress.End()
	f := command.AsFailure(err)
	switch f.Err.Code {
	case wire.CodeUnavailable, wire.CodeInterrupted, wire.CodeTimeout, wire.CodeStorage:
	default:
		return err
	}
	if !u.begun {
		return err
	}
	better := *f.Err
	better.Message += fmt.Sprintf(". What the controller has of %s stays for a day: run the same command again, it "+
		"goes on where it was", path)
	out := *f
	out.Exit, out.Err = command.ExitUnreachable, &better
	return &out
}
