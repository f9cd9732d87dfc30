package tree

import (
	"bytes"
	"compress/gzip"
	"errors"
	"strings"
	"testing"
)

// hostile are layers with what they may not have, and a part of what is said of that.
var hostile = map[string]struct {
	items []item
	why   string
}{
	"up":                       {[]item{file("../x", "")}, ".. in it"},
	"up behind a directory":    {[]item{file("a/../../x", "")}, ".. in it"},
	"up within":                {[]item{file("a/../x", "")}, ".. in it"},
	"hard link up":             {[]item{hard("x", "../../../secret")}, ".. in it"},
	"hard link below":          {[]item{hard("x", "bin/sh")}, "does not have before it"},
	"hard link to later":       {[]item{hard("x", "a"), file("a", "")}, "does not have before it"},
	"hard link to itself":      {[]item{file("x", ""), hard("x", "x")}, "does not have before it"},
	"hard link through a link": {[]item{symlink("l", "../.."), hard("x", "l/secret")}, "no directory"},
	"hard link through a file": {[]item{file("f", ""), hard("x", "f/secret")}, "no directory"},
	"hard link to a directory": {[]item{dir("d"), hard("x", "d")}, "is a directory"},
	"write through a link":     {[]item{symlink("l", "../.."), file("l/x", "")}, "no directory"},
	"write through two links":  {[]item{symlink("a", ".."), symlink("a/b", "..")}, "no directory"},
	"link in two steps": {[]item{dir("d"), symlink("d/l", ".."), symlink("m", "d/l/.."),
		file("m/x", "")}, "no directory"},
	"loop":                       {[]item{symlink("a", "b"), symlink("b", "a"), file("a/x", "")}, "no directory"},
	"below an absolute link":     {[]item{symlink("var/run", "/run"), file("var/run/x", "")}, "no directory"},
	"link, then a directory":     {[]item{symlink("l", "../.."), dir("l"), symlink("l/..", "x")}, ".. in it"},
	"whiteout through a link":    {[]item{symlink("l", "../.."), file("l/.wh.secret", "")}, "no directory"},
	"root as a link":             {[]item{symlink(".", "/")}, "root of a layer"},
	"root as a link, with slash": {[]item{symlink("./", "/")}, "root of a layer"},
	"root as a file":             {[]item{file("/", "")}, "root of a layer"},
	"no name":                    {[]item{file("", "")}, "root of a layer"},
	"file over a directory":      {[]item{file("d/x", ""), file("d", "")}, "as a directory"},
	"link over a directory":      {[]item{file("d/x", ""), symlink("d", "/")}, "as a directory"},
	"symlink to nothing":         {[]item{symlink("l", "")}, "to nothing"},
	"whiteout of nothing":        {[]item{file("a/.wh.", "")}, "no name"},
	"whiteout of itself":         {[]item{file("a/.wh..", "")}, "no name"},
	"whiteout of above":          {[]item{file("a/.wh...", "")}, "no name"},
	"whiteout of aufs":           {[]item{file(".wh..wh.plnk", "")}, "no name"},
	"directory as a whiteout":    {[]item{dir(".wh.a")}, "a whiteout is a file"},
	"link as a whiteout":         {[]item{symlink(".wh.a", "b")}, "a whiteout is a file"},
	"below a whiteout":           {[]item{file(".wh.a/b", "")}, "below a whiteout"},
	"character device":           {[]item{special("null", '3')}, "type '3'"},
	"block device":               {[]item{special("sda", '4')}, "type '4'"},
	"fifo":                       {[]item{special("fifo", '6')}, "type '6'"},
	"contiguous file":            {[]item{special("x", '7')}, "type '7'"},
	"extended attributes":        {[]item{special("x", 'x')}, "type 'x'"},
	"global attributes":          {[]item{special("x", 'g')}, "type 'g'"},
	"sparse file":                {[]item{special("x", 'S')}, "type 'S'"},
	"long name of GNU":           {[]item{special("x", 'L')}, "type 'L'"},
	"directory with content":     {[]item{{name: "d", kind: typeDir, body: "x"}}, "has 1 bytes"},
	"link with content":          {[]item{{name: "d", kind: typeSymlink, link: "a", body: "x"}}, "has 1 bytes"},
	"too deep":                   {[]item{deep(8, "x")}, "levels deep"},
	"too long a name":            {[]item{file(strings.Repeat("n", 21), "")}, "name of 21 bytes"},
	"too many":                   {[]item{file("1", ""), dir("2"), dir("3"), dir("4"), dir("5")}, "more than 4"},
	"too many that replace":      {[]item{dir("1"), dir("1"), dir("1"), dir("1"), dir("1")}, "more than 4"},
	"too many of paths":          {[]item{file("1/2/3/4/5", "")}, "more than 4"},
	"too many whiteouts": {[]item{file("1/.wh.1", ""), file("1/.wh.2", ""), file("1/.wh.3", "")},
		"more than 2 whiteouts"},
	"too large": {[]item{file("1", strings.Repeat("x", 10_000))}, "too large"},
	"too large together": {[]item{file("1", strings.Repeat("x", 5000)),
		file("2", strings.Repeat("x", 5000))}, "too large"},
	"too large, and is not there": {[]item{file("1", ""), file("1", strings.Repeat("x", 10_000))}, "too large"},
}

// TestHostileLayers: of none of them anything is left, and nothing beside the store changes.
func TestHostileLayers(t *testing.T) {
	for name, c := range hostile {
		t.Run(name, func(t *testing.T) {
			s, outside := open(t)
			s.Limits = Limits{Bytes: 8192, Entries: 4, Depth: 8, Name: 20, Whiteouts: 2}
			before := listing(t, outside)
			blob, ref := layer(c.items...)
			path, err := s.Add(t.Context(), bytes.NewReader(blob), ref)
			if !errors.Is(err, ErrRefused) || errors.Is(err, ErrDamaged) ||
				!strings.Contains(err.Error(), c.why) || path != "" {
				t.Errorf("%q %v", path, err)
			}
			if after := listing(t, outside); after != before {
				t.Errorf("before\n%safter\n%s", before, after)
			}
		})
	}
}

// TestHostileArchives: bytes that are no plain ustar archive in one gzip stream, though their digests are right.
func TestHostileArchives(t *testing.T) {
	whole := tarOf(file("f", "content"))
	changed := func(at int, text string) []byte {
		b := bytes.Clone(whole)
		copy(b[at:], text)
		sealed((*[block]byte)(b[:block]))
		return b
	}
	wrongSum := changed(0, "g")
	wrongSum[0] = 'f'
	for name, c := range map[string]struct {
		archive []byte
		why     string
	}{
		"empty":                    {nil, "too early"},
		"half a header":            {whole[:100], "too early"},
		"no content":               {whole[:block], "too early"},
		"half of the content":      {whole[:block+3], "too early"},
		"no end":                   {whole[:2*block], "too early"},
		"half an end":              {whole[:3*block], "too early"},
		"an end and a half":        {whole[:3*block+100], "too early"},
		"no whole blocks":          {append(bytes.Clone(whole), 0), "too early"},
		"more behind the end":      {append(bytes.Clone(whole), whole...), "behind its end"},
		"behind the first zeros":   {append(bytes.Clone(whole[:3*block]), whole...), "behind its end"},
		"checksum":                 {wrongSum, "checksum"},
		"format of GNU":            {changed(257, "ustar  \x00"), "no ustar"},
		"format of before":         {changed(257, strings.Repeat("\x00", 8)), "no ustar"},
		"size that is no number":   {changed(124, "0000000000x"), "no octal"},
		"negative size":            {changed(124, "-0000000001"), "no octal"},
		"size of base 256":         {changed(124, "\x80\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x07"), "no octal"},
		"negative size, base 256":  {changed(124, strings.Repeat("\xff", 12)), "no octal"},
		"more than there is":       {changed(124, "77777777777"), "too early"},
		"a number with a gap":      {changed(124, "000 0000007"), "no octal"},
		"digits that end nowhere":  {changed(124, "777777777777"), "too early"},
		"mode that is no number":   {changed(100, "rw-r--r"), "no octal"},
		"a name behind a zero one": {changed(0, "\x00f"), "root of a layer"},
	} {
		s, outside := open(t)
		before := listing(t, outside)
		blob, ref := packed(c.archive)
		if _, err := s.Add(t.Context(), bytes.NewReader(blob), ref); !errors.Is(err, ErrRefused) ||
			!strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %v", name, err)
		}
		if after := listing(t, outside); after != before {
			t.Errorf("%s: before\n%safter\n%s", name, before, after)
		}
	}
	// More members, and bytes, behind the gzip stream that was unpacked.
	blob, ref := layer(file("f", "content"))
	for name, tail := range map[string][]byte{"a stream": blob, "bytes": []byte("tail"), "a zero": {0}} {
		s, _ := open(t)
		b := append(bytes.Clone(blob), tail...)
		r := Ref{Digest: digest(b), DiffID: ref.DiffID, Size: int64(len(b))}
		if _, err := s.Add(t.Context(), bytes.NewReader(b), r); !errors.Is(err, ErrRefused) ||
			!strings.Contains(err.Error(), "behind its end") {
			t.Errorf("%s behind: %v", name, err)
		}
	}
	for name, b := range map[string][]byte{"no gzip": whole, "nothing": nil, "cut off": blob[:len(blob)-9]} {
		s, _ := open(t)
		r := Ref{Digest: digest(b), DiffID: ref.DiffID, Size: int64(len(b))}
		if _, err := s.Add(t.Context(), bytes.NewReader(b), r); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestBomb: what grows a thousandfold is given up at the bound, and takes no more of the disk than that.
func TestBomb(t *testing.T) {
	s, outside := open(t)
	s.Limits.Bytes = 1 << 20
	var blob bytes.Buffer
	z := gzip.NewWriter(&blob)
	archive := tarOf(file("bomb", strings.Repeat("\x00", 64<<20)))
	if _, err := z.Write(archive); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	in := bytes.NewReader(blob.Bytes())
	ref := Ref{Digest: digest(blob.Bytes()), DiffID: digest(archive), Size: int64(blob.Len())}
	before := listing(t, outside)
	if _, err := s.Add(t.Context(), in, ref); !errors.Is(err, ErrRefused) ||
		!strings.Contains(err.Error(), "too large") {
		t.Error(err)
	}
	if after := listing(t, outside); after != before {
		t.Errorf("left: %s", after)
	}
}

// TestNotWhatWasAskedFor: the blob, its size and what is in it have to be what was asked for.
func TestNotWhatWasAskedFor(t *testing.T) {
	blob, ref := layer(file("f", "content"))
	other, otherRef := layer(file("../x", ""))
	above := "sha256:" + strings.Repeat("../", 21) + "x"
	for name, c := range map[string]struct {
		blob  []byte
		ref   Ref
		cause error
		why   string
	}{
		"another digest": {blob, Ref{otherRef.Digest, ref.DiffID, ref.Size}, ErrDamaged,
			"digest is " + ref.Digest},
		"another diff ID":     {blob, Ref{ref.Digest, otherRef.DiffID, ref.Size}, ErrRefused, "in it is " + ref.DiffID},
		"shorter":             {blob[:len(blob)-1], ref, ErrDamaged, "and should have"},
		"nothing":             {nil, ref, ErrDamaged, "it has 0 bytes"},
		"longer":              {append(bytes.Clone(blob), 0), ref, ErrDamaged, "more than"},
		"much longer":         {append(bytes.Clone(blob), zeros(1<<20)...), ref, ErrDamaged, "more than"},
		"said to be shorter":  {blob, Ref{ref.Digest, ref.DiffID, ref.Size - 1}, ErrDamaged, "more than"},
		"hostile and another": {other, Ref{ref.Digest, ref.DiffID, int64(len(other))}, ErrDamaged, "its digest is"},
		"digest is a path":    {blob, Ref{"sha256:../x", ref.DiffID, ref.Size}, nil, "is no digest"},
		"diff ID is a path":   {blob, Ref{ref.Digest, above, ref.Size}, nil, "is no digest"},
		"capital digits":      {blob, Ref{ref.Digest, strings.ToUpper(ref.DiffID), ref.Size}, nil, "is no digest"},
		"another hash":        {blob, Ref{ref.Digest, "sha512:" + ref.DiffID[7:], ref.Size}, nil, "is no digest"},
	} {
		s, outside := open(t)
		before := listing(t, outside)
		_, err := s.Add(t.Context(), bytes.NewReader(c.blob), c.ref)
		if err == nil || !strings.Contains(err.Error(), c.why) ||
			errors.Is(err, ErrDamaged) != (c.cause == ErrDamaged) ||
			errors.Is(err, ErrRefused) != (c.cause == ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
		if after := listing(t, outside); after != before {
			t.Errorf("%s: left\n%s", name, after)
		}
	}
}

// FuzzLayer: whatever an archive says, it is refused, or there whole, and nothing beside the store changes.
func FuzzLayer(f *testing.F) {
	f.Add(tarOf(file("a/b", "content"), symlink("l", "../.."), hard("h", "a/b"), file(".wh.x", "")))
	f.Add(tarOf(symlink("l", "../.."), file("l/x", "")))
	f.Add(tarOf(file(strings.Repeat("d/", 70), "")))
	f.Fuzz(func(t *testing.T, archive []byte) {
		s, outside := open(t)
		s.Limits = Limits{Bytes: 1 << 20, Entries: 50, Depth: 10}
		before := listing(t, outside)
		blob, ref := packed(archive)
		path, err := s.Add(t.Context(), bytes.NewReader(blob), ref)
		if err == nil {
			listing(t, path)
			err = s.Keep(nil)
		} else if !errors.Is(err, ErrRefused) {
			t.Error(err)
		}
		if after := listing(t, outside); after != before {
			t.Errorf("%v: before\n%safter\n%s", err, before, after)
		}
	})
}
