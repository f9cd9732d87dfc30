package policies

import (
	"strings"
	"testing"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/publisher/publishertest"
	"tandem.internal/shared/wire"
)

func buildOf(arch, hash string) view.AgentBuild {
	return view.AgentBuild{Arch: arch, Hash: wire.Hash([]byte(hash)), Size: 5, URLs: []string{"https://c/" + hash}}
}

// Artefact says that the store has what is five bytes long.
func (u *unit) Artefact(string) (int64, bool) { return 5, true }

// TestStoredReleases: a build in the controller's store is fetched from there first, and from its other addresses.
func TestStoredReleases(t *testing.T) {
	u := newUnit(t, "n1", "n2")
	u.must(u.line("n1", "4"))
	u.must(u.apply("p", `{`+onPress+`,"agentUpgradePolicy":{"start":"2026-11-25T00:00:00Z"}}`))
	b := buildOf("amd64", "a")
	b.Stored = true
	u.must(u.change(KindReleases, Offer{Version: "1.9.0", Builds: []view.AgentBuild{b}}))
	at := "https://controller.tandem.internal/artefacts/" + b.Hash
	u.is("n1", "p current from 00:00, offer 1.9.0 "+at+" https://c/a")
	b.URLs = nil
	u.must(u.change(KindReleases, Offer{Version: "1.10.0", Builds: []view.AgentBuild{b}}))
	u.is("n1", "p current from 00:00, offer 1.9.0 "+at+" https://c/a, offer 1.10.0 "+at)
	b.URLs = make([]string, wire.MaxAddresses)
	u.refused(u.change(KindReleases, Offer{Version: "1.11.0", Builds: []view.AgentBuild{b}}), wire.CodeBadValue,
		"from 1 to 16")
}

// TestReleases: what is on offer does not change; a node gets the builds for its architecture, the lowest first.
func TestReleases(t *testing.T) {
	u := newUnit(t, "n1", "n2")
	u.must(u.line("n1", "4"))
	u.must(u.apply("p", `{`+onPress+`,"agentUpgradePolicy":{"start":"2026-11-25T00:00:00Z"}}`))
	offer := func(version string, builds ...view.AgentBuild) *wire.Error {
		return u.change(KindReleases, Offer{Version: version, Builds: builds})
	}
	u.must(offer("1.10.0", buildOf("amd64", "a"), buildOf("arm64", "b")))
	u.must(offer("1.9.0", buildOf("amd64", "c")))
	u.must(offer("1.11.0", buildOf("arm64", "d")))
	u.is("n1", "p current from 00:00, offer 1.9.0 https://c/c, offer 1.10.0 https://c/a")
	u.refused(offer("1.9.0", buildOf("amd64", "e")), wire.CodeAlreadyExists, "does not change")
	u.refused(offer("x", buildOf("amd64", "e")), wire.CodeInvalidArgument, "/version")
	u.refused(offer("2.0.0"), wire.CodeBadValue, "/builds")
	u.refused(offer("2.0.0", buildOf("amd64", "e"), buildOf("amd64", "f")), wire.CodeDuplicate, "/builds/1/arch")
	for field, b := range map[string]view.AgentBuild{
		"/builds/0/hash":     {Arch: "amd64", Hash: "sha256:0", Size: 1, URLs: []string{"https://c"}},
		"/builds/0/size":     {Arch: "amd64", Hash: wire.Hash(nil), URLs: []string{"https://c"}},
		"/builds/0/urls":     {Arch: "amd64", Hash: wire.Hash(nil), Size: 1},
		"/builds/0/urls/0":   {Arch: "amd64", Hash: wire.Hash(nil), Size: 1, URLs: []string{"file:///etc/passwd"}},
		"/builds/0/arch":     {Arch: "", Hash: wire.Hash(nil), Size: 1, URLs: []string{"https://c"}},
		"/builds/0/minisign": {Arch: "arm", Hash: wire.Hash(nil), Size: 1, URLs: []string{"https://c"}, Minisign: "x"},
	} {
		if err := offer("2.0.0", b); err == nil || err.Path != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	old := buildOf("arm", "g") // an old file that is signed, as a new version
	old.Minisign = publishertest.New(1).SignAs(nil, "tandem-node 1.9.0")
	u.refused(offer("2.0.0", old), wire.CodeBadValue, "but with tandem-node 1.9.0")
	u.must(u.change(KindReleases, Offer{Version: "1.10.0", Removed: true}))
	u.refused(u.change(KindReleases, Offer{Version: "1.10.0", Removed: true}), wire.CodeNotFound, "not on offer")
	u.is("n1", "p current from 00:00, offer 1.9.0 https://c/c")

	u.refused(offer("1.9.0+b", buildOf("amd64", "h")), wire.CodeAlreadyExists, "neither higher nor lower")
	u.refused(offer("1.10.0", buildOf("amd64", "other")), wire.CodeAlreadyExists,
		"/builds/0/hash")
	u.must(offer("1.10.0", buildOf("amd64", "a"), buildOf("riscv64", "i")))
	u.is("n1", "p current from 00:00, offer 1.9.0 https://c/c, offer 1.10.0 https://c/a")
	u.must(u.change(KindReleases, Offer{Version: "1.10.0", Removed: true}))
	u.refused(offer("1.10.0", buildOf("arm64", "j")), wire.CodeAlreadyExists, "another program for arm64")
}

// TestTorrentsOfReleases: a build may be had by BitTorrent, too. Nodes that have none are not told of it, and share
// their document, as the others do; one that does not say is told.
func TestTorrentsOfReleases(t *testing.T) {
	u := newUnit(t, "n1", "n2", "n3", "n4", "n5", "other")
	for name, has := range map[string]string{"n1": wire.AttributeNone, "n2": wire.AttributeNone, "n3": "yes"} {
		u.nodes[name].Info.Attributes = map[string]string{wire.AttributeBitTorrent: has}
	}
	for _, name := range []string{"n1", "n2", "n3", "n4", "n5"} {
		u.must(u.line(name, "4"))
	}
	u.must(u.apply("p", `{`+onPress+`,"agentUpgradePolicy":{"start":"2026-11-25T00:00:00Z"}}`))
	var m kind.Content
	body := func(node string) *kind.Body {
		n := u.nodes[node]
		return m.For(kind.Facts{Node: node, Type: n.Type(), Info: n.Info})
	}
	offer := func(version string, stored bool, urls ...string) *wire.Error {
		b := buildOf("amd64", version)
		b.URLs, b.Stored = urls, stored
		return u.change(KindReleases, Offer{Version: version, Builds: []view.AgentBuild{b}})
	}
	const torrent = "rbtorrent:0123456789abcdef0123456789abcdef01234567"
	const magnet = "magnet:?xt=urn:btih:0123456789abcdef0123456789abcdef01234567"
	u.must(offer("1.8.0", false, "https://c/8"))
	m = build(u.contents)
	if body("n1") != body("n3") {
		t.Error("the document depends on BitTorrent, and nothing is to be had by it")
	}
	u.must(offer("1.9.0", true, torrent, magnet))
	u.must(offer("1.10.0", false, torrent, "http://c/10"))
	at := jointoken.ArtefactURL(wire.Hash([]byte("1.9.0")))
	const begin = "p current from 00:00, offer 1.8.0 https://c/8, offer 1.9.0 "
	u.is("n1", begin+at+", offer 1.10.0 http://c/10")
	u.is("n3", begin+at+" "+torrent+" "+magnet+", offer 1.10.0 "+torrent+" http://c/10")
	m = build(u.contents)
	if body("n1") != body("n2") || body("n3") != body("n4") || body("n4") != body("n5") || body("n1") == body("n3") {
		t.Error("the documents are not shared as they should be")
	}
	u.refused(offer("2.0.0", false, torrent), wire.CodeBadValue, "need an http or https address")
	u.refused(offer("2.0.0", false, torrent, magnet), wire.CodeBadValue, "/builds/0/urls")
	for _, bad := range []string{"rbtorrent:0123", torrent + "00", "magnet:?xt=urn:btmh:00", "https://u:p@c/10",
		"https:///10", "https://c/" + strings.Repeat("x", maxAddress)} {
		u.refused(offer("2.0.0", true, "https://c", bad), wire.CodeBadValue, "/builds/0/urls/1")
	}
}
