package oci_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"

	"tandem.internal/controller/internal/oci"
	"tandem.internal/controller/internal/oci/ocitest"
)

// of is an image with one layer of this archive.
func of(t testing.TB, archive string) *ocitest.Layout {
	t.Helper()
	l := ocitest.New(t)
	l.Index(l.Manifest(ocitest.Image(none), []ocitest.Layer{l.Layer(archive)}, nil))
	return l
}

// list is what Go's own reader finds in a layer.
func list(t testing.TB, text string) string {
	t.Helper()
	var b strings.Builder
	for r := tar.NewReader(strings.NewReader(text)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return b.String()
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Format != tar.FormatUSTAR && isASCII(h.Name) || h.Uname != "" || h.Gname != "" || len(h.PAXRecords) > 0 {
			t.Errorf("%q is more than ustar: %+v", h.Name, h)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%c %04o %d:%d %d %s", h.Typeflag, h.Mode, h.Uid, h.Gid, h.ModTime.Unix(), h.Name)
		if h.Linkname != "" {
			b.WriteString(" -> " + h.Linkname)
		}
		if len(content) > 0 {
			fmt.Fprintf(&b, " %q", content)
		}
		b.WriteByte('\n')
	}
}

// isASCII reports whether a name is one that Go's writer would take for ustar.
func isASCII(name string) bool {
	return !strings.ContainsFunc(name, func(r rune) bool { return r >= 0x80 })
}

// with changes the header of an entry.
func with(e ocitest.Entry, change func(*tar.Header)) ocitest.Entry {
	change(&e.Header)
	return e
}

func mode(m int64) func(*tar.Header) { return func(h *tar.Header) { h.Mode = m } }

func kind(k byte) func(*tar.Header) { return func(h *tar.Header) { h.Typeflag = k } }

func at(m time.Time) func(*tar.Header) {
	return func(h *tar.Header) { h.Format, h.ModTime = tar.FormatPAX, m }
}

func pax(k, v string) func(*tar.Header) {
	return func(h *tar.Header) { h.PAXRecords = map[string]string{k: v} }
}

// TestRewrite: what becomes of entries, and what is said of it.
func TestRewrite(t *testing.T) {
	long := strings.Repeat("p", 77) + "/" + strings.Repeat("q", 77)
	for _, c := range []struct {
		name, want, remarks string
		entries             []ocitest.Entry
	}{
		{"names", "5 0755 0:0 0 a/\n0 0644 0:0 0 a/b \"1\"\n0 0644 0:0 0 c\n", "", []ocitest.Entry{
			ocitest.Dir("."), ocitest.Dir("/"), ocitest.Dir("./a"), ocitest.File("/a//b", "1"),
			ocitest.File("./././c", "")}},
		{"long names", "0 0644 0:0 0 " + long + "/" + strings.Repeat("r", 100) + "\n5 0755 0:0 0 " +
			long + "/" + strings.Repeat("s", 99) + "/\n", "", []ocitest.Entry{
			ocitest.File(long+"/"+strings.Repeat("r", 100), ""), ocitest.Dir(long + "/" + strings.Repeat("s", 99))}},
		{"bytes that are no text", "0 0644 0:0 0 a\xff\n", "", []ocitest.Entry{ocitest.File("a\xff", "")}},
		{"modes", "0 0755 0:0 0 s\n5 1777 0:0 0 t/\n0 0000 0:0 0 u\n",
			`set-uid and set-gid bits, removed: "s" and 1 more`, []ocitest.Entry{
				with(ocitest.File("s", ""), mode(0o4755)), with(ocitest.Dir("t"), mode(0o3777)),
				with(ocitest.File("u", ""), mode(0o1000))}},
		{"owners", "0 0644 2097151:2097151 0 a\n", "", []ocitest.Entry{with(ocitest.File("a", ""), func(h *tar.Header) {
			h.Uid, h.Gid, h.Uname, h.Gname = 0o7777777, 0o7777777, "root", "wheel"
		})}},
		{"times", "0 0644 0:0 1700000000 a\n0 0644 0:0 0 b\n0 0644 0:0 8589934591 c\n", "", []ocitest.Entry{
			with(ocitest.File("a", ""), at(time.Unix(1700000000, 99))),
			with(ocitest.File("b", ""), at(time.Unix(-5, 0))),
			with(ocitest.File("c", ""), at(time.Unix(1<<40, 0)))}},
		{"attributes", "0 0644 0:0 0 a\n0 0644 0:0 0 b\n0 0644 0:0 0 c\n",
			"capabilities of files, removed: \"a\"\nextended attributes, removed: \"b\" and 1 more", []ocitest.Entry{
				with(ocitest.File("a", ""), pax("SCHILY.xattr.security.capability", "x")),
				with(ocitest.File("b", ""), pax("SCHILY.xattr.trusted.overlay.opaque", "y")),
				with(ocitest.File("c", ""), pax("SCHILY.acl.access", "z"))}},
		{"devices", "0 0644 0:0 0 z\n", `devices and pipes, left out: "c" and 2 more`, []ocitest.Entry{
			with(ocitest.File("c", ""), kind(tar.TypeChar)), with(ocitest.File("b", ""), kind(tar.TypeBlock)),
			with(ocitest.File("f", ""), kind(tar.TypeFifo)), ocitest.File("z", "")}},
		{"whiteouts", "0 0000 0:0 0 a/.wh.b\n0 0000 0:0 0 .wh..wh..opq\n0 0000 0:0 0 .wh.c\n0 0000 0:0 0 .wh....\n", "",
			[]ocitest.Entry{with(ocitest.File("a/.wh.b", ""), func(h *tar.Header) {
				h.Uid, h.Gid, h.Mode, h.ModTime = 7, 7, 0o777, time.Unix(7, 0)
			}),
				ocitest.File(".wh..wh..opq", ""), ocitest.Hard(".wh.c", "gone"), ocitest.File(".wh....", "")}},
		{"aufs", "0 0644 0:0 0 a\n", `of aufs, left out: ".wh..wh.aufs" and 2 more`, []ocitest.Entry{
			ocitest.File(".wh..wh.aufs", ""), ocitest.Dir(".wh..wh.plnk"), ocitest.File(".wh..wh.plnk/1.2", "x"),
			ocitest.File("a", "")}},
		{"links", "0 0644 0:0 0 a \"1\"\n1 0644 0:0 0 b -> a\n1 0644 0:0 0 c -> b\n2 0777 0:0 0 d -> ../../etc\n", "",
			[]ocitest.Entry{ocitest.File("a", "1"), ocitest.Hard("b", "/a"), ocitest.Hard("c", "./b"),
				ocitest.Symlink("d", "../../etc")}},
		{"a directory twice", "5 0755 0:0 0 a/\n0 0644 0:0 0 a/b\n",
			`directories that are there twice, taken once: "a"`, []ocitest.Entry{
				ocitest.Dir("a"), ocitest.File("a/b", ""), with(ocitest.Dir("a"), mode(0))}},
		{"a directory after what is in it", "0 0644 0:0 0 a/b\n5 0755 0:0 0 a/\n", "",
			[]ocitest.Entry{ocitest.File("a/b", ""), ocitest.Dir("a")}},
		{"nothing", "", "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			img := open(t, of(t, ocitest.Tar(t, c.entries...)).Dir, oci.Options{})
			y := img.Platforms[0].Layers[0]
			if got := list(t, unpacked(t, y)); got != c.want {
				t.Errorf("it became\n%swant\n%s", got, c.want)
			}
			var remarks []string
			for _, r := range y.Remarks {
				remarks = append(remarks, r.String())
			}
			if got := strings.Join(remarks, "\n"); got != c.remarks {
				t.Errorf("remarks\n%s\nwant\n%s", got, c.remarks)
			}
			// What it became is taken as it is.
			again := open(t, of(t, unpacked(t, y)).Dir, oci.Options{}).Platforms[0].Layers[0]
			if again.Digest != y.Digest || again.DiffID != y.DiffID {
				t.Errorf("rewritten again it is %s, not %s", again.DiffID, y.DiffID)
			}
		})
	}
}

// TestAttacks: entries that lead out of a layer, through a link, or that a node could take for something else.
func TestAttacks(t *testing.T) {
	f, d, s, h := ocitest.File, ocitest.Dir, ocitest.Symlink, ocitest.Hard
	name := strings.Repeat("n", 101)
	for _, c := range []struct {
		name, want string
		entries    []ocitest.Entry
	}{
		{"upwards", "../x: the name leads upwards", []ocitest.Entry{f("../x", "")}},
		{"upwards later", "a/../../x: the name leads upwards", []ocitest.Entry{f("a/../../x", "")}},
		{"upwards and back", "a/../b: the name leads upwards", []ocitest.Entry{f("a/../b", "")}},
		{"absolute and upwards", "leads upwards", []ocitest.Entry{f("/../x", "")}},
		{"root as a link", "is the root, and no directory", []ocitest.Entry{s(".", "/etc")}},
		{"root as a file", "is the root, and no directory", []ocitest.Entry{f("./.", "")}},
		{"below a link", `a/passwd: is below "a", which is no directory in this layer`, []ocitest.Entry{
			s("a", "/etc"), f("a/passwd", "x")}},
		{"far below a link", `a/b/c: is below "a"`, []ocitest.Entry{s("a", "/etc"), f("a/b/c", "x")}},
		{"whiteout below a link", `is below "a"`, []ocitest.Entry{s("a", "/etc"), f("a/.wh.passwd", "")}},
		{"link below a link", `is below "a"`, []ocitest.Entry{s("a", ".."), s("a/b", "..")}},
		{"below a file", `is below "a"`, []ocitest.Entry{f("a", ""), f("a/b", "")}},
		{"link, then the same name", "a: is there twice", []ocitest.Entry{s("a", "/etc/passwd"), f("a", "x")}},
		{"file, then a directory", "a: is there twice", []ocitest.Entry{f("a", ""), d("a")}},
		{"directory, then a link", "a: is there twice", []ocitest.Entry{d("a"), s("a", "/etc")}},
		{"what is above becomes a link", "a: is there twice", []ocitest.Entry{f("a/b", ""), s("a", "/etc")}},
		{"the same by another name", "a: is there twice", []ocitest.Entry{f("a", ""), f("./a", "")}},
		{"hard link outside", "leads upwards", []ocitest.Entry{h("a", "../../etc/shadow")}},
		{"hard link into a lower layer", `a: is a hard link to "etc/shadow", which is no file before it in this layer`,
			[]ocitest.Entry{h("a", "/etc/shadow")}},
		{"hard link to itself", `a: is a hard link to "a"`, []ocitest.Entry{h("a", "a")}},
		{"hard link to a link", `b: is a hard link to "a"`, []ocitest.Entry{s("a", "/etc/shadow"), h("b", "a")}},
		{"hard link to a directory", `b: is a hard link to "a"`, []ocitest.Entry{d("a"), h("b", "a")}},
		{"hard link to a device", `b: is a hard link to "a"`, []ocitest.Entry{with(f("a", ""), kind(tar.TypeChar)),
			h("b", "a")}},
		{"hard link to a whiteout", `is a hard link to`, []ocitest.Entry{f(".wh.a", ""), h("b", ".wh.a")}},
		{"whiteout of nothing", "is a whiteout of nothing", []ocitest.Entry{f(".wh.", "")}},
		{"whiteout of its directory", "is a whiteout of nothing", []ocitest.Entry{f("a/.wh..", "")}},
		{"whiteout of what is above", "is a whiteout of nothing", []ocitest.Entry{f("a/.wh...", "")}},
		{"below a whiteout", "has something below a whiteout", []ocitest.Entry{f(".wh.a/b", "")}},
		{"whiteout that is a directory", "and no empty file", []ocitest.Entry{d(".wh.a")}},
		{"whiteout that is a link", "and no empty file", []ocitest.Entry{s(".wh.a", "b")}},
		{"whiteout with content", "and no empty file", []ocitest.Entry{f(".wh.a", "x")}},
		{"name too long", "the name has 101 bytes: ustar has room for 155, and after a slash for 100 more",
			[]ocitest.Entry{f(name, "")}},
		{"path too long", "the name has 257 bytes", []ocitest.Entry{
			f(strings.Repeat("a", 156)+"/"+strings.Repeat("b", 100), "")}},
		{"directory too long", "the name has 102 bytes", []ocitest.Entry{d(name)}},
		{"link too long", "is a link to a name of 101 bytes; ustar has room for 100", []ocitest.Entry{s("a", name)}},
		{"hard link too long", "is a link to a name of 103 bytes", []ocitest.Entry{
			f("ee/"+name[1:], ""), h("b", "ee/"+name[1:])}},
		{"owner too high", "is owned by 2097152:0", []ocitest.Entry{
			with(f("a", ""), func(h *tar.Header) { h.Uid = 1 << 21 })}},
		{"group too high", "is owned by 0:2097152", []ocitest.Entry{
			with(f("a", ""), func(h *tar.Header) { h.Gid = 1 << 21 })}},
		{"too deep", "directories deep", []ocitest.Entry{f(strings.Repeat("a/", 100)+"b", "")}},
		{"unknown type", "is of the type \"V\"", []ocitest.Entry{with(f("a", ""), kind('V'))}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := refused(t, of(t, ocitest.Tar(t, c.entries...)).Dir, oci.Options{})
			if !strings.Contains(got, c.want) || got == "" {
				t.Errorf("refused because %q, want %q", got, c.want)
			}
		})
	}
}

// TestStrangeNames: names of any length and of any bytes can be shown, and stand in JSON.
func TestStrangeNames(t *testing.T) {
	remarks := open(t, of(t, ocitest.Tar(t, with(ocitest.File("a\xff", ""), mode(0o4755)))).Dir, oci.Options{}).
		Platforms[0].Layers[0].Remarks
	if got := remarks[0].Paths[0]; got != "a\uFFFD" {
		t.Errorf("%q", got)
	}
	long := ocitest.File("b\xff/"+strings.Repeat("b", 500_000), "")
	long.Format = tar.FormatGNU
	got := refused(t, of(t, ocitest.Tar(t, long)).Dir, oci.Options{})
	if !utf8.ValidString(got) || len(got) > 5000 || !strings.Contains(got, "the name has 500003 bytes") {
		t.Errorf("%d bytes, %.200q", len(got), got)
	}
}

// TestSparse: files with holes, as GNU tar writes them in each of its formats, are refused by their names.
func TestSparse(t *testing.T) {
	files, err := filepath.Glob("testdata/sparse-*.tar")
	if err != nil || len(files) != 4 {
		t.Fatalf("%q, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		got := refused(t, of(t, string(text)).Dir, oci.Options{})
		if !strings.Contains(got, "holes: is a sparse file") {
			t.Errorf("%s: refused because %q", file, got)
		}
	}
}

// TestPacked: layers that are packed in all ways, that end early, and that go on behind their end.
func TestPacked(t *testing.T) {
	text := ocitest.Tar(t, ocitest.File("a", strings.Repeat("a", 3000)))
	packed := ocitest.Gzip(t, text)
	wide := func(size int) string {
		var b bytes.Buffer
		w, err := zstd.NewWriter(&b, zstd.WithWindowSize(size))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(ocitest.Tar(t, ocitest.File("a", strings.Repeat("a", 1<<20))))); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	zeros := strings.Repeat("\x00", 10240)
	plain, gz, zst := v1.MediaTypeImageLayer, v1.MediaTypeImageLayerGzip, v1.MediaTypeImageLayerZstd
	for _, c := range []struct {
		name, mediaType, blob, text, want string
	}{
		{"plain", plain, text, text, ""},
		{"gzip", gz, packed, text, ""},
		{"gzip in two parts", gz, ocitest.Gzip(t, text[:700]) + ocitest.Gzip(t, text[700:]), text, ""},
		{"Docker's", "application/vnd.docker.image.rootfs.diff.tar.gzip", packed, text, ""},
		{"zeros behind", plain, text + zeros, text + zeros, ""},
		{"no end", plain, text[:len(text)-1024], text[:len(text)-1024], ""},
		{"gzip that is not", gz, text, text, "is no layer that can be read"},
		{"plain that is not", plain, packed, packed, "is no layer that can be read"},
		{"zstd that is not", zst, packed, text, "is no layer that can be read"},
		{"something behind the archive", plain, text + zeros + "x", text + zeros + "x", "something follows the end"},
		{"archive behind the archive", gz, ocitest.Gzip(t, text+text), text + text, "something follows the end"},
		{"something behind gzip", gz, packed + "x", text, "is no layer that can be read"},
		{"zeros behind gzip", gz, packed + zeros, text, "is no layer that can be read"},
		{"gzip that ends early", gz, packed[:len(packed)-9], text, "unexpected EOF"},
		{"archive that ends early", plain, text[:1500], text[:1500], "unexpected EOF"},
		{"no archive", plain, strings.Repeat("x", 2000), strings.Repeat("x", 2000), "is no layer that can be read"},
		{"window too wide", zst, wide(256 << 20), "", "is no layer that can be read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := ocitest.New(t)
			y := ocitest.Layer{Descriptor: l.Blob(c.mediaType, c.blob), DiffID: ocitest.Digest(c.text)}
			l.Index(l.Manifest(ocitest.Image(none), []ocitest.Layer{y}, nil))
			got := refused(t, l.Dir, oci.Options{})
			if !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
				t.Errorf("refused because %q, want %q", got, c.want)
			}
		})
	}
}

// TestDigestFirst: of a layer that was damaged on its way it is said that it was, and not what that did to it.
func TestDigestFirst(t *testing.T) {
	l := of(t, ocitest.Tar(t, ocitest.File("a", strings.Repeat("a", 3000))))
	y := open(t, l.Dir, oci.Options{}).Platforms[0].Layers[0].From
	l.Write("blobs/sha256/"+y.Digest.Encoded(), strings.Repeat("x", int(y.Size)))
	if got := refused(t, l.Dir, oci.Options{}); !strings.Contains(got, "has another content, of the digest") {
		t.Errorf("refused because %q", got)
	}
}

// TestInterrupted: reading ends when it is told to, with the error of that.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := oci.Open(ctx, "testdata/hand", oci.Options{Dir: t.TempDir()}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
