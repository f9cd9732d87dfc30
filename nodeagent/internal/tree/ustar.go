package tree

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Types of entries (POSIX.1-1988, ustar).
const (
	typeFile    = '0'
	typeLink    = '1' // a hard link
	typeSymlink = '2'
	typeDir     = '5'
)

const block = 512

// header is one entry of a ustar archive, as it is there.
type header struct {
	name string
	mode int64
	size int64
	time int64 // of its last change, seconds since 1970
	kind byte
	link string // what a link points to
}

// archive reads a ustar archive: no extension of it, no other format.
type archive struct {
	r    io.Reader
	left int64 // bytes of the current entry that have not been read
	pad  int64 // behind them
}

// next returns the next entry, io.EOF behind the last. What has not been read of the entry before is passed over.
func (a *archive) next() (h header, err error) {
	if _, err := io.CopyN(io.Discard, a.r, a.left+a.pad); err != nil {
		return h, short(err)
	}
	a.left, a.pad = 0, 0
	var b [block]byte
	if _, err := io.ReadFull(a.r, b[:]); err != nil {
		return h, short(err)
	}
	if b == [block]byte{} {
		return h, a.end()
	}
	var size, mode, mtime, sum int64
	for _, f := range []struct {
		at, len int
		to      *int64
	}{{100, 8, &mode}, {124, 12, &size}, {136, 12, &mtime}, {148, 8, &sum}} {
		if *f.to, err = octal(b[f.at : f.at+f.len]); err != nil {
			return h, err
		}
	}
	if sum != checksum(&b) {
		return h, errors.New("tar: the checksum of a header is wrong")
	}
	if string(b[257:263]) != "ustar\x00" || string(b[263:265]) != "00" {
		return h, errors.New("tar: it is no ustar archive")
	}
	h = header{name: text(b[:100]), mode: mode, size: size, time: mtime, kind: b[156], link: text(b[157:257])}
	if prefix := text(b[345:500]); prefix != "" {
		h.name = prefix + "/" + h.name
	}
	if h.kind == 0 {
		h.kind = typeFile
	}
	if h.kind != typeFile && h.size != 0 {
		return h, fmt.Errorf("tar: %.300q is of type %q and has %d bytes", h.name, h.kind, h.size)
	}
	a.left, a.pad = h.size, -h.size&(block-1)
	return h, nil
}

// Read reads the content of the current entry.
func (a *archive) Read(p []byte) (int, error) {
	if a.left == 0 {
		return 0, io.EOF
	}
	n, err := a.r.Read(p[:min(int64(len(p)), a.left)])
	a.left -= int64(n)
	if a.left > 0 && errors.Is(err, io.EOF) {
		err = short(err)
	}
	return n, err
}

// end reads what is behind the first block of zeros: one more, and nothing but zeros behind it. It returns io.EOF.
func (a *archive) end() error {
	buf, zeros, total := make([]byte, 8<<10), make([]byte, 8<<10), 0
	for {
		n, err := a.r.Read(buf)
		if !bytes.Equal(buf[:n], zeros[:n]) {
			return errors.New("tar: there is something behind its end")
		}
		total += n
		switch {
		case errors.Is(err, io.EOF) && total >= block && total%block == 0:
			return io.EOF
		case err != nil:
			return short(err)
		}
	}
}

// short is err, or that the archive ends too early.
func short(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("tar: it ends too early")
	}
	return err
}

// text is what a field has before its first zero byte.
func text(field []byte) string {
	s, _, _ := bytes.Cut(field, []byte{0})
	return string(s)
}

// octal reads a number: octal digits, ended by spaces or zero bytes.
func octal(field []byte) (n int64, err error) {
	digits := bytes.TrimLeft(bytes.TrimRight(field, " \x00"), " ")
	for _, c := range digits { // at most twelve
		if c < '0' || c > '7' {
			return 0, fmt.Errorf("tar: %q is no octal number", field)
		}
		n = n<<3 | int64(c-'0')
	}
	return n, nil
}

// checksum is the sum of a header's bytes, with its own field as spaces.
func checksum(b *[block]byte) (sum int64) {
	for i, c := range b {
		if 148 <= i && i < 156 {
			c = ' '
		}
		sum += int64(c)
	}
	return sum
}
