package diag

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// mostFile is how many bytes a file of a bundle has at most; what is larger is left out.
const mostFile = 8 << 20

// file is one of a bundle.
type file struct {
	name, what string
	text       []byte
}

// manifestName is the file that says what the others are.
const manifestName = "MANIFEST.json"

// manifest says what is in a bundle, and what is not.
type manifest struct {
	Unit     string         `json:"unit"`     // ID of the unit
	Created  time.Time      `json:"created"`  // when, by the clock of tandem's machine
	Program  string         `json:"program"`  // version of tandem
	Asked    string         `json:"asked"`    // by which door the controller was asked
	Files    []listed       `json:"files"`    // of the bundle, but for this one
	Left     []left         `json:"left"`     // what is not in it
	Redacted map[string]int `json:"redacted"` // how often something was replaced by ***, by what it was
}

// listed is a file of a bundle.
type listed struct {
	Name  string `json:"name"`
	What  string `json:"what"` // is in it
	Bytes int    `json:"bytes"`
}

// left is something that is not in a bundle.
type left struct {
	What string `json:"what"` // it is
	Why  string `json:"why"`  // it is not there
}

// bundle is what was gathered so far.
type bundle struct {
	manifest
	scrub  *scrubber
	files  []file
	missed []left // of Left: what was asked for
}

// add puts a text into the bundle, without its secrets.
func (b *bundle) add(name, what, text string) { b.keep(file{name, what, []byte(b.scrub.text(text))}) }

// addJSON puts a value into the bundle, without its secrets.
func (b *bundle) addJSON(name, what string, v any) {
	doc, err := json.Marshal(v, json.Deterministic(true))
	if err == nil {
		doc, err = b.scrub.json(doc)
	}
	if err != nil {
		b.leave(what, err.Error())
		return
	}
	b.keep(file{name, what, doc})
}

func (b *bundle) keep(f file) {
	if len(f.text) > mostFile {
		b.leave(f.what, "it is larger than 8 MiB")
		return
	}
	b.files = append(b.files, f)
	b.Files = append(b.Files, listed{f.name, f.what, len(f.text)})
}

// leave notes what is not in the bundle.
func (b *bundle) leave(what, why string) {
	b.Left = append(b.Left, left{what, b.scrub.text(why)})
}

// miss notes that something is not in the bundle that was asked for.
func (b *bundle) miss(what, why string) {
	b.leave(what, why)
	b.missed = append(b.missed, b.Left[len(b.Left)-1])
}

// write writes the bundle as a compressed archive, below one directory. The manifest is the first file.
func (b *bundle) write(w io.Writer, dir string) error {
	b.Redacted = b.scrub.found
	doc, err := json.Marshal(&b.manifest, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		return err
	}
	zip := gzip.NewWriter(w)
	archive := tar.NewWriter(zip)
	for _, f := range append([]file{{name: manifestName, text: doc}}, b.files...) {
		head := &tar.Header{Typeflag: tar.TypeReg, Name: dir + "/" + f.name, Mode: 0o600, Size: int64(len(f.text)),
			ModTime: b.Created.Truncate(time.Second)}
		if err := archive.WriteHeader(head); err != nil {
			return err
		}
		if _, err := io.Copy(archive, bytes.NewReader(f.text)); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return zip.Close()
}
