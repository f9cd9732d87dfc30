package dashboard

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/go-json-experiment/json"

	"tandem.internal/controller/internal/op"
)

// maxGzip is how many bytes the whole page may take on its way to a browser.
const maxGzip = 80_000

// TestFiles: each file has a type and a tag of its own, unpacks to what it is, and all of them are small.
func TestFiles(t *testing.T) {
	seen, total := map[string]bool{}, 0
	for _, f := range Files() {
		if seen[f.Path] || !strings.HasPrefix(f.Path, "/") || f.Type == "" || len(f.Tag) < 10 || len(f.Body) == 0 {
			t.Errorf("%s: type %q, tag %q, %d bytes", f.Path, f.Type, f.Tag, len(f.Body))
		}
		seen[f.Path] = true
		size := len(f.Body)
		if f.Gzip != nil {
			z, err := gzip.NewReader(bytes.NewReader(f.Gzip))
			if err != nil {
				t.Fatal(f.Path, err)
			}
			if body, err := io.ReadAll(z); err != nil || !bytes.Equal(body, f.Body) {
				t.Errorf("%s: it does not unpack to itself: %v", f.Path, err)
			}
			size = len(f.Gzip)
		}
		total += size
	}
	if !seen["/"] || !seen["/app/main.mjs"] || !seen["/vendor/preact.mjs"] {
		t.Errorf("%v", seen)
	}
	t.Logf("%d bytes in all", total)
	if total > maxGzip {
		t.Errorf("%d bytes: more than %d", total, maxGzip)
	}
}

// TestPaintsWhenNeeded: what paints curves is not loaded with the first page, nor is how they look.
func TestPaintsWhenNeeded(t *testing.T) {
	for name, text := range own() {
		if name != "/app/curves.mjs" && regexp.MustCompile(`(from|rel="[a-z]+" href=) ?"/(vendor/uplot|app/curves)`).
			MatchString(text) {
			t.Errorf("%s loads it at once", name)
		}
	}
}

// TestVendored: what is of others is on the list, unchanged since it was put there, with its licence beside it.
func TestVendored(t *testing.T) {
	var list struct {
		Files []struct {
			File      string `json:"file"`
			Name      string `json:"name"`
			Version   string `json:"version"`
			From      string `json:"from"`
			Licence   string `json:"licence"`
			Changed   string `json:"changed"`
			Published string `json:"published"`
			Here      string `json:"here"`
		} `json:"files"`
	}
	text, err := os.ReadFile("vendored.json")
	if err == nil {
		err = json.Unmarshal(text, &list)
	}
	if err != nil {
		t.Fatal(err)
	}
	listed := []string{}
	for _, v := range list.Files {
		body, err := embedded.ReadFile("files/" + v.File)
		if err != nil {
			t.Error(err)
			continue
		}
		listed = append(listed, path.Base(v.File))
		sum := sha256.Sum256(body)
		if here := "sha256:" + hex.EncodeToString(sum[:]); here != v.Here {
			t.Errorf("%s is %s, the list has %s", v.File, here, v.Here)
		}
		if (v.Changed == "") != (v.Here == v.Published) || len(v.Published) != len(v.Here) {
			t.Errorf("%s: changed %q, published %s", v.File, v.Changed, v.Published)
		}
		if _, err := os.Stat("files/vendor/" + v.Name + ".LICENSE"); err != nil || v.Licence == "" || v.Version == "" {
			t.Errorf("%s: its licence, or version: %+v %v", v.File, v, err)
		}
	}
	entries, err := fs.ReadDir(embedded, "files/vendor")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".LICENSE") && !slices.Contains(listed, e.Name()) {
			t.Errorf("%s is not on the list", e.Name())
		}
	}
}

// own returns the page's own files, by path.
func own() map[string]string {
	all := map[string]string{}
	for _, f := range Files() {
		if !strings.HasPrefix(f.Path, "/vendor/") {
			all[f.Path] = string(f.Body)
		}
	}
	return all
}

// TestNothingBecomesMarkup: no way that turns text into markup, a program or an address is used. The browser's own
// rules (Trusted Types, the content security policy) forbid most of them once more.
func TestNothingBecomesMarkup(t *testing.T) {
	for name, text := range own() {
		switch path.Ext(name) {
		case ".mjs":
			for _, bad := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "DOMParser",
				"setHTML", "createContextualFragment", "eval(", "Function(", "setAttribute", "localStorage",
				"indexedDB", "cookie",
				"toLocale", // dates have one form, that of when in ui.mjs
				"importScripts", "console.", "window.open", "srcdoc", "dangerously", "XMLHttpRequest",
				"WebSocket"} {
				if strings.Contains(text, bad) {
					t.Errorf("%s has %s", name, bad)
				}
			}
			if regexp.MustCompile(`setTimeout\(["'` + "`" + `]`).MatchString(text) {
				t.Errorf("%s runs text", name)
			}
			// What is loaded later is a file of the page's own, by a name that stands here.
			for _, m := range regexp.MustCompile(`import\((.{0,30})`).FindAllStringSubmatch(text, -1) {
				if !regexp.MustCompile(`^"/app/[a-z]+\.mjs"\)`).MatchString(m[1]) {
					t.Errorf("%s loads %q", name, m[1])
				}
			}
			// What is linked to is made by link, which begins with #: no text of strangers becomes an address.
			for _, m := range regexp.MustCompile(`href=(.{0,12})`).FindAllStringSubmatch(text, -1) {
				if !strings.HasPrefix(m[1], "${link(") && !strings.HasPrefix(m[1], `"#main"`) {
					t.Errorf("%s has the address %q", name, m[1])
				}
			}
			for _, m := range regexp.MustCompile(`\bstyle=(.{0,3})`).FindAllStringSubmatch(text, -1) {
				if m[1] != "${{" {
					t.Errorf("%s has a style as text: %q", name, m[1])
				}
			}
		case ".css":
			if regexp.MustCompile(`url\(|@import|expression`).MatchString(text) {
				t.Errorf("%s: the looks come from elsewhere", name)
			}
		default:
			for _, bad := range []string{`(?i)<script(?:>|\s+[^ts])`, `(?i)<style`, `(?i)\son[a-z]+\s*=`,
				`(?i)javascript:`,
				`(?i)\sstyle\s*=`, `(?i)(src|href)="(https?:)?//`, `(?i)<(iframe|object|embed|base)`} {
				if m := regexp.MustCompile(bad).FindString(text); m != "" {
					t.Errorf("%s has %q", name, m)
				}
			}
		}
	}
}

// TestWhatTurnsText: all characters that turn the direction of text are replaced, as they are and as JSON writes them.
func TestWhatTurnsText(t *testing.T) {
	text := own()["/app/api.mjs"]
	list := regexp.MustCompile(`const turns = /\[([^]]*)\]\|\\\\u\(\?:([^)]*)\)/gi;`).FindStringSubmatch(text)
	if list == nil {
		t.Fatal("the page does not say which characters turn text")
	}
	raw := regexp.MustCompile("[" + regexp.MustCompile(`\\u([0-9a-f]{4})`).ReplaceAllString(list[1], `\x{$1}`) + "]")
	written := regexp.MustCompile(`^(?i:` + list[2] + `)$`)
	for r := rune(0); r <= unicode.MaxRune; r++ {
		is := unicode.Is(unicode.Bidi_Control, r)
		if is != raw.MatchString(string(r)) {
			t.Errorf("%U turns text: %v, and the page says the contrary", r, is)
		}
		if r < 0x10000 && is != written.MatchString(strings.ToLower(string("0123456789abcdef"[r>>12])+
			string("0123456789abcdef"[r>>8&15])+string("0123456789abcdef"[r>>4&15])+string("0123456789abcdef"[r&15]))) {
			t.Errorf("%U turns text: %v, and the page says the contrary of how JSON writes it", r, is)
		}
	}
}

// TestSilence: the page takes a stream for cut after three of the controller's blank lines, which it would have had.
func TestSilence(t *testing.T) {
	want := fmt.Sprintf("silence: %d_000 ", (3*op.KeepAlive).Milliseconds()/1000)
	if !strings.Contains(own()["/app/api.mjs"], want) {
		t.Errorf("the page does not have %q", want)
	}
}
