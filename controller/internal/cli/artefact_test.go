package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-json-experiment/json"

	"tandem.internal/controller/internal/api"
	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// TestArtefactCommands adds, lists, shows and removes artefacts as a person does.
func TestArtefactCommands(t *testing.T) {
	u := apitest.StartSample(t)
	b := newBench(t, u)
	tiles := bytes.Repeat([]byte("tiles "), 2000)
	file, large := b.write("tiles.bin", string(tiles)), b.write("large.bin", strings.Repeat("x", 1<<20))
	digest := wire.Hash(tiles)
	begin := digest[len(wire.HashPrefix):][:12]
	open, err := b.unit.Artefacts().Begin(t.Context(), op.NewArtefact{Digest: wire.Hash([]byte("other")), Size: 5000,
		Name: "other.bin"})
	if err != nil || open.State != view.UploadOpen {
		t.Fatal(open, err)
	}
	for _, c := range []struct{ name, args string }{
		{"artefact-list-none-json", "artefact list --json"},
		{"artefact-add", "artefact add " + file},
		{"artefact-add-again", "artefact add " + file},
		{"artefact-add-json", "artefact add --json " + file},
		{"artefact-add-large", "artefact add " + large},
		{"artefact-add-large-json", "artefact add --json " + large},
		{"artefact-list", "artefact list"},
		{"artefact-list-json", "artefact list --json"},
		{"artefact-show", "artefact show " + begin},
		{"artefact-show-json", "artefact show --json " + digest},
		{"artefact-show-none", "artefact show 0123456789"},
		{"artefact-show-upload", "artefact show " + open.Digest},
		{"artefact-show-upload-json", "artefact show --json " + open.Digest},
		{"artefact-events", "events --type artefact-added --type artefact-leased"},
		{"artefact-remove", "artefact remove " + begin + " --reason old"},
		{"artefact-remove-upload", "artefact remove " + open.Digest},
		{"artefact-remove-again-json", "artefact remove --json " + digest},
		{"artefact-events-removed", "events --type artefact-removed"},
		{"artefact-list-none", "artefact list"},
	} {
		golden(t, c.name, b.transcript("", strings.Fields(c.args)...))
	}
}

// TestArtefactInUse: what a set of workloads names by its checksum is in use, and stays.
func TestArtefactInUse(t *testing.T) {
	b := newBench(t, apitest.StartSample(t))
	tiles := []byte("tiles")
	file := b.write("tiles.bin", string(tiles))
	sum := strings.TrimPrefix(wire.Hash(tiles), wire.HashPrefix)
	set := b.write("set.json", `[{"@class":"Instance","configurationId":"w1","slot":"web@node-9","resources":{`+
		`"iss_hook_start":{"@class":"Resource","urls":["https://gateway/artefacts/`+wire.Hash(tiles)+`"],"size":5,`+
		`"verification":{"checksum":"SHA256:`+strings.ToUpper(sum)+`","checkPeriod":"0d0h0m"}}}}]`)
	for _, args := range []string{"artefact add " + file, "workload apply " + set} {
		if out, errs, exit := b.run("", strings.Fields(args)...); exit != 0 {
			t.Fatalf("%s: %s%s", args, out, errs)
		}
	}
	golden(t, "artefact-show-used", b.transcript("", "artefact", "show", sum))
	golden(t, "artefact-remove-used", b.transcript("", "artefact", "remove", sum))
	blob := filepath.Join(b.dir, "artefacts", "sha256", sum[:2], sum)
	if err := os.WriteFile(blob, []byte("tilts"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := b.unit.Artefacts().Scrub(t.Context(), wire.Hash(tiles)); err != nil {
		t.Fatal(err)
	}
	golden(t, "artefact-show-damaged", b.transcript("", "artefact", "show", sum))
	golden(t, "artefact-list-damaged", b.transcript("", "artefact", "list"))
	golden(t, "artefact-add-damaged", b.transcript("", "artefact", "add", file))
	if err := os.Remove(blob); err != nil {
		t.Fatal(err)
	}
	golden(t, "artefact-show-gone", b.transcript("", "artefact", "show", sum))
	golden(t, "artefact-add-gone", b.transcript("", "artefact", "add", file))
}

// TestArtefactMistakes: what cannot be meant is refused before a controller is asked.
func TestArtefactMistakes(t *testing.T) {
	b := newBench(t, apitest.StartSample(t))
	for args, want := range map[string]string{
		"artefact":                    "needs a command",
		"artefact add":                "needs FILE",
		"artefact add " + b.dir:       "not a regular file",
		"artefact add " + b.dir + "x": "no such file",
		"artefact show 12":            "at least 6",
		"artefact show sha256:xyzxyz": "no digest",
		"artefact remove":             "needs DIGEST",
	} {
		out, errs, exit := b.run("", strings.Fields(args)...)
		if out != "" || exit != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("%s: %d %s%s", args, exit, out, errs)
		}
	}
}

// cutting is a body that breaks off.
type cutting struct {
	api.Body
	left int64
}

func (c *cutting) Read(b []byte) (int, error) {
	if c.left == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := c.Body.Read(b[:min(int64(len(b)), c.left)])
	c.left -= int64(n)
	return n, err
}

// TestArtefactGoesOn: an upload that breaks off says what to do, and the same command goes on where it was.
func TestArtefactGoesOn(t *testing.T) {
	u := apitest.StartSample(t)
	var offsets []uint64
	var sent atomic.Int64
	b := benchOf(t, u, apitest.Instead(u,
		api.Upload(op.WriteUpload, func(ctx context.Context, in op.UploadIn, body api.Body) (view.Upload, error) {
			offsets = append(offsets, in.Offset)
			most := int64(1 << 40)
			if len(offsets) == 1 {
				most = 30_000
			}
			v, err := u.Artefacts().Write(ctx, in.Digest, int64(in.Offset), &cutting{body, most})
			sent.Add(v.Offset - int64(in.Offset))
			return v, err
		})))
	file := b.write("tiles.bin", strings.Repeat("tiles ", 20_000))
	golden(t, "artefact-add-cut-off", b.transcript("", "artefact", "add", file))
	golden(t, "artefact-add-goes-on", b.transcript("", "artefact", "add", file))
	if len(offsets) != 2 || offsets[1] != 30_000 || sent.Load() != 120_000 {
		t.Errorf("sent from %v, %d bytes", offsets, sent.Load())
	}
	stop, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the person has had enough"))
	b.ctx = stop
	golden(t, "artefact-add-interrupted", b.transcript("", "artefact", "add", file))
}

// TestArtefactProgress: on a terminal one line says how far the file is, and is gone in the end.
func TestArtefactProgress(t *testing.T) {
	b := newBench(t, apitest.StartSample(t))
	b.io.ErrTerminal, b.io.Width = true, 80
	out, errs, exit := b.run("", "artefact", "add", "--json", b.write("f", strings.Repeat("x", 1000)))
	var v view.Artefact
	if err := json.Unmarshal([]byte(out), &v); err != nil || exit != 0 || v.Size != 1000 || v.Name != "f" {
		t.Errorf("%d %s %v", exit, out, err)
	}
	if errs != "" && !strings.HasSuffix(errs, "\r\x1b[K") {
		t.Errorf("%q stays on the terminal", errs)
	}
}
