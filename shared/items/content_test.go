package items_test

import (
	"strings"
	"testing"

	"tandem.internal/shared/items"
)

const blob = `{"digest": "sha256:1f0d3c5b7a9e8d6c4b2a1f0e9d8c7b6a5f4e3d2c1b0a9f8e7d6c5b4a3f2e1d0c", "size": 1}`

// packed is a blob with a tar file in it.
var packed = strings.Replace(blob, `"size"`, `"diffId": "sha256:`+strings.Repeat("0", 64)+`", "size"`, 1)

func content(form, builds string) string {
	return `{"form": "` + form + `", "builds": [` + builds + `]}`
}

func build(more string) string { return `{"blobs": [` + packed + `]` + more + `}` }

// Every mistake in a content is refused with its place and reason.
func TestContentRefusals(t *testing.T) {
	amd := `, "platform": {"architecture": "amd64"}`
	for name, c := range map[string]struct{ text, pointer, reason string }{
		"form":       {content("dir", build("")), "/form", "must be file, image, tree"},
		"no build":   {content("tree", ""), "/builds", "for some platform, or one for any"},
		"two of any": {content("tree", build("")+","+build("")), "/builds/0", "is the only one"},
		"any of two": {content("tree", build(amd)+","+build("")), "/builds/1", "is the only one"},
		"platform twice": {content("tree", build(amd)+","+build(amd)), "/builds/1",
			"amd64"},
		"tree with":     {content("tree", build(`, "image": `+blob)), "/builds/0/image", "this is a tree"},
		"no file":       {content("tree", `{"blobs": []}`), "/builds/0/blobs", "a build has a file"},
		"two files":     {content("file", `{"blobs": [`+blob+`,`+blob+`]}`), "/builds/0/blobs", "a file is one file"},
		"file unpacked": {content("file", build("")), "/builds/0/blobs/0", "neither diffId nor unpacked"},
		"no diff ID":    {content("tree", `{"blobs": [`+blob+`]}`), "/builds/0/blobs/0/diffId", "is required"},
		"digest": {content("file", `{"blobs": [{"digest": "sha256:1", "size": 1}]}`), "/builds/0/blobs/0/digest",
			"no digest"},
		"size": {content("file", `{"blobs": [`+strings.Replace(blob, "1}", "-1}", 1)+`]}`),
			"/builds/0/blobs/0/size", "not -1"},
		"signature": {content("file", `{"blobs": [`+strings.Replace(blob, "1}", `1, "minisign": "x"}`, 1)+`]}`),
			"/builds/0/blobs/0/minisign", "not what minisign writes"},
		"unpacked image": {content("image", build(`, "image": `+packed)), "/builds/0/image", "neither diffId nor"},
		"image's digest": {content("image", build(`, "image": {"digest": "x", "size": 1}`)), "/builds/0/image/digest",
			"no digest"},
	} {
		_, problems := items.ParseContent([]byte(c.text))
		if problems == nil {
			t.Errorf("%s: taken", name)
			continue
		}
		if first := problems.First(); first.Path != c.pointer || !strings.Contains(first.Message, c.reason) {
			t.Errorf("%s: at %q %q, want %q %q", name, first.Path, first.Message, c.pointer, c.reason)
		}
	}
}

// The digest is of the content, in whatever order and with whatever spaces its file is.
func TestDigestOfContent(t *testing.T) {
	read := func(text string) *items.Content {
		c, problems := items.ParseContent([]byte(text))
		if problems != nil {
			t.Fatal(problems)
		}
		return c
	}
	one := read(content("tree", build(`, "platform": {"architecture": "amd64"}`)))
	again := read(`{"builds": [{"platform":{"architecture":"amd64"},   "blobs": [` + packed + `]}], "form": "tree"}`)
	other := read(content("tree", build(`, "platform": {"architecture": "arm64"}`)))
	if one.Digest() != again.Digest() || one.Digest() == other.Digest() {
		t.Errorf("%s, %s, %s", one.Digest(), again.Digest(), other.Digest())
	}
	want := `{"form":"tree","builds":[{"platform":{"architecture":"amd64"},"blobs":[{"digest":"sha256:1f0d`
	if !strings.HasPrefix(string(one.Encode()), want) {
		t.Errorf("%s", one.Encode())
	}
}

// A build is found by the platform that was chosen; one for any platform is that of all.
func TestBuildForPlatform(t *testing.T) {
	amd, arm := &items.Platform{Architecture: "amd64"}, &items.Platform{Architecture: "arm64", Variant: "v8"}
	two := &items.Content{Builds: []items.Build{{Platform: amd}, {Platform: arm}}}
	anyOne := &items.Content{Builds: []items.Build{{}}}
	if two.Build(&items.Platform{Architecture: "arm64", Variant: "v8"}) != &two.Builds[1] ||
		two.Build(&items.Platform{Architecture: "arm64"}) != nil || two.Build(nil) != nil ||
		anyOne.Build(arm) != &anyOne.Builds[0] || anyOne.Build(nil) != &anyOne.Builds[0] {
		t.Error("another build was found")
	}
}

// The files of a build are its layers, and the configuration of an image.
func TestFilesOfBuild(t *testing.T) {
	b := items.Build{Blobs: append(make([]items.Blob, 0, 2), items.Blob{Digest: "1"})}
	if all := b.Files(); len(all) != 1 {
		t.Errorf("%v", all)
	}
	b.Image = &items.Blob{Digest: "2"}
	if all := b.Files(); len(all) != 2 || all[0].Digest != "1" || all[1].Digest != "2" || b.Blobs[:2][1].Digest != "" {
		t.Errorf("%v", all)
	}
}
