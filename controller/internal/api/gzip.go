package api

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"encoding/binary"
	"hash/crc32"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// leastGzip is how many bytes an answer has at least to be compressed. Streams never are: their lines leave at once.
const leastGzip = 8 << 10

// takesGzip reports whether the caller takes answers in gzip.
func takesGzip(h http.Header) bool {
	for part := range strings.SplitSeq(strings.Join(h.Values("Accept-Encoding"), ","), ",") {
		coding, weight, weighted := strings.Cut(part, ";")
		if !strings.EqualFold(strings.TrimSpace(coding), "gzip") {
			continue
		}
		q, err := strconv.ParseFloat(strings.TrimPrefix(strings.TrimSpace(weight), "q="), 64)
		return !weighted || err == nil && q > 0
	}
	return false
}

// pieces is a body in gzip that is compressed piece by piece (RFC 1952): no compressor is held between two of them,
// which has most of a megabyte.
type pieces struct {
	begun bool
	sum   uint32
	size  uint32
}

// compressors are lent for a piece at a time.
var compressors = sync.Pool{New: func() any {
	z, err := flate.NewWriter(nil, flate.BestSpeed)
	if err != nil {
		panic(err) // the level cannot fail
	}
	return z
}}

// add returns what a piece of the body becomes.
func (p *pieces) add(piece []byte) []byte {
	var b bytes.Buffer
	if !p.begun {
		p.begun = true
		b.Write([]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255}) // deflate, no name, no time, fast, of an unknown system
	}
	p.sum = crc32.Update(p.sum, crc32.IEEETable, piece)
	p.size += uint32(len(piece))
	z := compressors.Get().(*flate.Writer)
	defer compressors.Put(z)
	z.Reset(&b)
	_, err := z.Write(piece)
	if err == nil {
		err = z.Flush() // to a whole byte, after which any block may come
	}
	if err != nil {
		panic(err) // a buffer cannot fail
	}
	return b.Bytes()
}

// end returns what ends the body: an empty last block, and what is verified.
func (p *pieces) end() []byte {
	b := []byte{1, 0, 0, 0xff, 0xff}
	b = binary.LittleEndian.AppendUint32(b, p.sum)
	return binary.LittleEndian.AppendUint32(b, p.size)
}

// compressed returns body in gzip, made fast rather than small.
func compressed(body []byte) []byte {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err == nil {
		_, err = z.Write(body)
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		panic(err) // neither the level nor a buffer can fail
	}
	return b.Bytes()
}
