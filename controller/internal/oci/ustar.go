package oci

import (
	"io"
	"strings"
)

// What ustar has room for (POSIX.1-2001, pax, "ustar Header Block"). Numbers are octal.
const (
	blockSize  = 512
	nameBytes  = 100
	linkBytes  = 100
	prefix     = 155
	maxID      = 0o7777777
	maxSeconds = 0o77777777777
)

// The types of entries that are written.
const (
	typeFile    = '0'
	typeHard    = '1'
	typeSymlink = '2'
	typeDir     = '5'
)

// entry is a file of a rewritten layer.
type entry struct {
	name     string // below the root, without a slash at an end
	kind     byte
	mode     int64
	uid, gid int
	size     int64
	seconds  int64 // since 1970
	link     string
}

// ustar writes entries. Each entry's content follows it by content.
type ustar struct {
	to  io.Writer
	n   int64 // bytes written
	buf [32 << 10]byte
}

func (u *ustar) write(p []byte) error {
	n, err := u.to.Write(p)
	u.n += int64(n)
	return err
}

// head writes the header of an entry that fits: see splitName.
func (u *ustar) head(e *entry) error {
	name := e.name
	if e.kind == typeDir {
		name += "/"
	}
	front, back, _ := splitName(name)
	var h [blockSize]byte
	copy(h[0:], back)
	octal(h[100:108], e.mode)
	octal(h[108:116], int64(e.uid))
	octal(h[116:124], int64(e.gid))
	octal(h[124:136], e.size)
	octal(h[136:148], e.seconds)
	copy(h[148:156], "        ")
	h[156] = e.kind
	copy(h[157:257], e.link)
	copy(h[257:], "ustar\x0000")
	octal(h[329:337], 0) // of devices
	octal(h[337:345], 0)
	copy(h[345:500], front)
	sum := int64(0)
	for _, b := range h {
		sum += int64(b)
	}
	octal(h[148:155], sum)
	return u.write(h[:])
}

// content copies size bytes and fills up their last block.
func (u *ustar) content(from io.Reader, size int64) error {
	n, err := io.CopyBuffer(struct{ io.Writer }{u.to}, io.LimitReader(from, size), u.buf[:])
	u.n += n
	if err == nil && n < size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return err
	}
	return u.write(make([]byte, (blockSize-size%blockSize)%blockSize))
}

// end writes the two empty blocks that end an archive.
func (u *ustar) end() error { return u.write(make([]byte, 2*blockSize)) }

// octal fills a field with digits and a NUL.
func octal(field []byte, v int64) {
	field[len(field)-1] = 0
	for i := len(field) - 2; i >= 0; i-- {
		field[i] = byte('0' + v&7)
		v >>= 3
	}
}

// splitName cuts a name at the last slash that lets both parts fit, as GNU tar and Go do.
func splitName(name string) (front, back string, ok bool) {
	if len(name) <= nameBytes {
		return "", name, true
	}
	front = strings.TrimSuffix(name, "/")
	i := strings.LastIndexByte(front[:min(len(front), prefix+1)], '/')
	if i <= 0 || len(name)-i-1 > nameBytes {
		return "", "", false
	}
	return name[:i], name[i+1:], true
}

// seconds is a time as it is written: a whole number of ustar's.
func seconds(unix int64) int64 { return max(0, min(unix, maxSeconds)) }
