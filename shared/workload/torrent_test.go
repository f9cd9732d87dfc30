package workload

import (
	"bytes"
	"testing"
)

// TestPlainTorrent: the address of a content's plain torrent is that of pieces of 1 MiB, and there is
// none of a file that is shorter than it was.
func TestPlainTorrent(t *testing.T) {
	data := bytes.Repeat([]byte("tandem"), 1<<18)
	info, err := PlainTorrent(bytes.NewReader(data), int64(len(data)))
	if got := TorrentURL(info); err != nil || CheckURL(got) != nil || !IsTorrent(got) ||
		got != "rbtorrent:0723ace146cf7ed1de048a8c352aa9ec5add46ef" {
		t.Errorf("%s %v", got, err)
	}
	if info, err := PlainTorrent(bytes.NewReader(data), int64(len(data)+1)); err == nil {
		t.Errorf("%q", info)
	}
}
