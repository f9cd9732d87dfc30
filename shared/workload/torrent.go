package workload

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
)

// IsTorrent reports whether an address is one that only agents with BitTorrent can fetch from.
func IsTorrent(address string) bool {
	scheme, _, _ := strings.Cut(address, ":")
	return scheme == SchemeRBTorrent || scheme == SchemeMagnet
}

// Plain torrents have one file called resource, pieces of 1 MiB, and nothing optional. A copy that was fetched
// otherwise can be served as one, for the content alone says what its info hash is.
const (
	plainName  = "resource"
	plainPiece = 1 << 20 // bytes
)

// PlainTorrent returns the info dictionary of the plain torrent of what f has, which is size bytes.
func PlainTorrent(f io.ReaderAt, size int64) ([]byte, error) {
	var pieces []byte
	buf := make([]byte, plainPiece)
	for at := int64(0); at < size; at += plainPiece {
		piece := buf[:min(plainPiece, size-at)]
		if n, err := f.ReadAt(piece, at); n < len(piece) {
			return nil, fmt.Errorf("%d bytes at %d: %w", n, at, err)
		}
		sum := sha1.Sum(piece)
		pieces = append(pieces, sum[:]...)
	}
	return fmt.Appendf(nil, "d6:lengthi%de4:name%d:%s12:piece lengthi%de6:pieces%d:%se", size, len(plainName),
		plainName, plainPiece, len(pieces), pieces), nil
}

// TorrentURL is the address of a torrent, by its info dictionary.
func TorrentURL(info []byte) string {
	hash := sha1.Sum(info)
	return SchemeRBTorrent + ":" + hex.EncodeToString(hash[:])
}
