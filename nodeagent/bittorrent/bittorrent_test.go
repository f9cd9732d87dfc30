package bittorrent

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/anacrolix/torrent/bencode"
	"github.com/anacrolix/torrent/metainfo"

	"tandem.internal/nodeagent/internal/fetch"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// Nodes fetch from each other without any other source, also what they have got in that way
// themselves, also after a restart.
func TestNodesServeEachOther(t *testing.T) {
	data := content(1, 3<<20+12345)
	url := plainURL(t, data)
	_, one := serving(t, data, fetch.Peers{Allow: []string{"127.0.0.0/8"}})

	a := named("x", artifact(sha(data), len(data), url))
	c := fetch.Config{Dir: t.TempDir()}
	peers := fetch.Peers{Listen: "127.0.0.1:0", Addresses: []string{one}, Allow: []string{"127.0.0.1"}}
	second := begin(t, c, peers)
	second.Want(wants{a})
	st := second.ready(a, data)
	served(second)
	if got := strings.Count(files(t, c.Dir), "\n"); got != 3 {
		t.Errorf("files:\n%s", files(t, c.Dir))
	}
	second.stop()

	second = begin(t, c, peers)
	second.Want(wants{a})
	second.ready(a, data)
	two := served(second)
	b := artifact(md(data), 0, "magnet:?xt=urn:btih:"+strings.TrimPrefix(url, "rbtorrent:"))
	third := begin(t, fetch.Config{Dir: t.TempDir()}, fetch.Peers{Addresses: []string{two}})
	third.Want(wants{b})
	third.ready(b, data)

	// What is removed is not served any more.
	second.Want(nil)
	second.await(a, "removed", func(fetch.Status) bool { _, err := os.Lstat(st.Path); return err != nil })
	second.serves("it is served no more", func(n int) bool { return n == 0 })
}

// A download that was interrupted goes on with the pieces that are right.
func TestTorrentResumes(t *testing.T) {
	data := content(2, 4<<20)
	from, one := serving(t, data, fetch.Peers{Allow: []string{"127.0.0.1"}})
	sent := func() int64 {
		stats := from.swarm.client.Stats()
		return stats.BytesWrittenData.Int64()
	}
	a := artifact(sha(data), len(data), plainURL(t, data))
	c, peers := fetch.Config{Dir: t.TempDir(), Rate: 2 << 20}, fetch.Peers{Addresses: []string{one}}
	n := begin(t, c, peers)
	n.Want(wants{a})
	n.await(a, "a piece", func(st fetch.Status) bool { return st.Done >= 1<<20 })
	n.stop()
	before := sent()
	if got := files(t, c.Dir); strings.Contains(got, "copies/") {
		t.Fatalf("a part is visible:\n%s", got)
	}
	c.Rate = 0
	n = begin(t, c, peers)
	n.Want(wants{a})
	n.ready(a, data)
	if got := sent() - before; got > int64(len(data))-1<<20 {
		t.Errorf("%d bytes were sent after the restart", got)
	}
}

// Everything that may go wrong is told and leaves nothing to be used.
func TestBadTorrents(t *testing.T) {
	data := content(3, 1<<20)
	_, one := serving(t, data, fetch.Peers{Allow: []string{"127.0.0.1"}})
	url := plainURL(t, data)
	peers := fetch.Peers{Addresses: []string{one}}
	for _, c := range []struct {
		name  string
		a     workload.Artifact
		peers fetch.Peers
		code  wire.Code
		text  string
	}{
		{"wrong checksum", artifact(sha(nil), len(data), url), peers, wire.CodeHashMismatch, "has the checksum"},
		{"nobody has it", artifact(sha(data), len(data), "rbtorrent:"+strings.Repeat("00", 19)+"01"), peers,
			wire.CodeTimeout, "the 1 nodes that are asked sent less than"},
		{"nobody to ask", artifact(sha(data), len(data), url), fetch.Peers{}, wire.CodeTimeout,
			"the 0 nodes that are asked sent less than"},
		{"nobody there", artifact(sha(data), len(data), url),
			fetch.Peers{Addresses: []string{"127.0.0.1:1"}}, wire.CodeTimeout, "the 1 nodes"},
		{"no hash", artifact(sha(data), len(data), "rbtorrent:xyz"), peers, wire.CodeInvalidArgument, "40 hex digits"},
		{"no magnet", artifact(sha(data), len(data), "magnet:?xt=urn:btmh:00"), peers, wire.CodeInvalidArgument,
			"no info hash"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := begin(t, fetch.Config{Dir: t.TempDir(), Patience: time.Second}, c.peers)
			n.Want(wants{c.a})
			if st := n.fails(c.a, c.text); st.Err.Code != c.code {
				t.Errorf("%+v", st)
			}
		})
	}
}

// A full disk ends a torrent as it does any download.
func TestTorrentFullDisk(t *testing.T) {
	data := content(4, 3<<20)
	_, one := serving(t, data, fetch.Peers{Allow: []string{"127.0.0.1"}})
	a := artifact(sha(data), 0, plainURL(t, data))
	n := begin(t, fetch.Config{Dir: t.TempDir(), Space: func(string) (uint64, error) { return 2 << 20, nil }},
		fetch.Peers{Addresses: []string{one}})
	n.Want(wants{a})
	if st := n.fails(a, "it has 3145728 bytes"); st.Err.Code != wire.CodeStorage ||
		strings.Contains(files(t, n.Dir), "parts/") {
		t.Errorf("%+v\n%s", st, files(t, n.Dir))
	}
}

// Whoever is not of the unit gets nothing.
func TestStrangersGetNothing(t *testing.T) {
	data := content(5, 1<<20)
	_, one := serving(t, data, fetch.Peers{Allow: []string{"192.0.2.0/24"}})
	a := artifact(sha(data), len(data), plainURL(t, data))
	n := begin(t, fetch.Config{Dir: t.TempDir(), Patience: time.Second}, fetch.Peers{Addresses: []string{one}})
	n.Want(wants{a})
	n.fails(a, "the 1 nodes that are asked")
}

func TestPeersAreChecked(t *testing.T) {
	for _, p := range []fetch.Peers{
		{Listen: "nonsense", Allow: []string{"10.0.0.0/8"}},
		{Listen: "127.0.0.1:x", Allow: []string{"10.0.0.0/8"}},
		{Listen: "127.0.0.1:0"},
		{Addresses: []string{"host"}},
		{Allow: []string{"10.0.0.0/99"}},
	} {
		if _, err := New(fetch.TorrentsConfig{Peers: p}); err == nil {
			t.Errorf("%+v is taken", p)
		}
	}
}

// The info dictionary that is written by hand is what the library writes.
func TestPlain(t *testing.T) {
	const piece = 1 << 20
	for _, size := range []int{0, 1, piece - 1, piece, piece + 1, 3*piece + 7} {
		data := content(6, size)
		info := metainfo.Info{PieceLength: piece, Name: "resource", Length: int64(size)}
		path := filepath.Join(t.TempDir(), "resource")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := info.BuildFromFilePath(path); err != nil {
			t.Fatal(err)
		}
		want, err := bencode.Marshal(info)
		if err != nil {
			t.Fatal(err)
		}
		got, err := workload.PlainTorrent(bytes.NewReader(data), int64(size))
		if err != nil || size > 0 && !bytes.Equal(got, want) {
			t.Errorf("%d bytes: %q, want %q, %v", size, got, want, err)
		}
		if hash, _, err := target(workload.TorrentURL(got)); err != nil || hash != infoHash(got) {
			t.Errorf("%v %v", hash, err)
		}
	}
}

func TestTarget(t *testing.T) {
	const hash = "0123456789abcdef0123456789abcdef01234567"
	for _, c := range []struct {
		url      string
		ok       bool
		trackers string
	}{
		{"rbtorrent:" + hash, true, ""},
		{"rbtorrent:" + strings.ToUpper(hash), true, ""},
		{"rbtorrent:" + hash[1:], false, ""},
		{"rbtorrent:" + hash + "00", false, ""},
		{"rbtorrent:", false, ""},
		{"magnet:?xt=urn:btih:" + hash, true, ""},
		{"magnet:?xt=urn:btih:AERUKZ4JVPG66AJDIVTYTK6N54ASGRLH", true, ""},
		{"magnet:?xt=urn:btih:" + hash +
			"&tr=udp%3A%2F%2Fh%3A1&tr=wss%3A%2F%2Fh&tr=file%3A%2F%2F%2Fetc&tr=http%3A%2F%2Fh%2Fa", true,
			"udp://h:1 http://h/a"},
		{"magnet:?xt=urn:btih:xyz", false, ""},
		{"magnet:?xt=urn:btih:AERUKZ4JVPG66AJDIVTYTK6N54======", false, ""},
		{"magnet:?xt=urn:btih:AERUKZ4JVPG66AJDIVTYTK6N%0A%0A%0A%0A%0A%0A%0A%0A", false, ""},
		{"magnet:?xt=urn:sha1:" + hash, false, ""},
		{"magnet:", false, ""},
	} {
		got, trackers, err := target(c.url)
		if (err == nil) != c.ok || c.ok && got.HexString() != hash || strings.Join(trackers, " ") != c.trackers {
			t.Errorf("%s: %s %v %v", c.url, got, trackers, err)
		}
	}
}
