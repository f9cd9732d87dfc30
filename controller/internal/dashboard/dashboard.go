// Package dashboard has the dashboard's files, ready to be sent: compressed, with a type and a tag. They need no build:
// what is in the folder files is what a browser gets.
package dashboard

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"sync"
)

//go:embed files/index.html files/icon.svg files/app files/vendor
var embedded embed.FS

// A File is one that the browser asks for.
type File struct {
	Path string // as it is asked for: "/", "/app/main.mjs"
	Type string // content type
	Tag  string // ETag, in quotes: changes with the content
	Body []byte // as it is
	Gzip []byte // the same, compressed; nil: that is no smaller
}

// types are the content types by the end of the name. A name that ends otherwise is no file of the page.
var types = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".mjs": "text/javascript; charset=utf-8",
	".svg": "image/svg+xml",
}

// Files returns the files of the dashboard, each with its path. They are compressed once, and nobody changes them. It
// panics if one cannot be read, which is a fault of the build.
var Files = sync.OnceValue(files)

func files() []File {
	var all []File
	err := fs.WalkDir(embedded, "files", func(name string, d fs.DirEntry, err error) error {
		kind := types[path.Ext(name)]
		if err != nil || d.IsDir() || kind == "" {
			return err
		}
		body, err := embedded.ReadFile(name)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(body)
		f := File{
			Path: strings.TrimSuffix(strings.TrimPrefix(name, "files"), "index.html"), Type: kind,
			Tag: `"` + hex.EncodeToString(sum[:12]) + `"`, Body: body,
		}
		if packed, err := compress(body); err != nil {
			return err
		} else if len(packed) < len(body) {
			f.Gzip = packed
		}
		all = append(all, f)
		return nil
	})
	if err != nil {
		panic(fmt.Sprintf("dashboard: the page lacks a file: %v", err))
	}
	return all
}

func compress(body []byte) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(body); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
