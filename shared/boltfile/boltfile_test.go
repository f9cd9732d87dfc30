package boltfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"path/filepath"
	"testing"

	"tandem.internal/shared/filetest"
)

const pageSize = 1024 // of the files in testdata

// file returns a file of bbolt 1.5.0: listed has its free pages in a list, unlisted has none. Both have the bucket
// numbers with 60 keys on several pages, and in outer the bucket inner with a value of 2500 bytes and small, inline.
func file(t testing.TB, name string) []byte {
	t.Helper()
	return filetest.Unpacked(t, filepath.Join("testdata", name+".db.gz"))
}

// check returns what Check does, with every entry as a line.
func check(data []byte) (m Meta, entries string, err error) {
	m, err = Check(bytes.NewReader(data), int64(len(data)), func(e Entry) error {
		entries += fmt.Sprintf("%s %s %x %v %d\n", e.Path, e.Key, e.Value, e.Bucket, e.Sequence)
		return nil
	})
	return m, entries, err
}

func TestCheck(t *testing.T) {
	for _, name := range []string{"listed", "unlisted"} {
		data := file(t, name)
		m, entries, err := check(data)
		if err != nil || !m.Whole || m.Txid != 3 || m.PageSize != pageSize || m.Pages == 0 {
			t.Errorf("%s: %+v %v", name, m, err)
		}
		if n := bytes.Count([]byte(entries), []byte("\n")); n != 60+2+2+2 {
			t.Errorf("%s: %d entries", name, n)
		}
		for _, want := range []string{
			"[] numbers  true 0\n", "[numbers] key 30 78 false 0\n", "[outer] inner  true 7\n",
			fmt.Sprintf("[outer inner] long %x false 0\n", make([]byte, 2500)), "[outer small] a 62 false 0\n",
		} {
			if !bytes.Contains([]byte(entries), []byte(want)) {
				t.Errorf("%s: no %q", name, want)
			}
		}
		stop := errors.New("enough")
		enough := func(Entry) error { return stop }
		if _, err := Check(bytes.NewReader(data), int64(len(data)), enough); !errors.Is(err, stop) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// digest returns what Check does, with a sum of all entries.
func digest(data []byte) (m Meta, sum uint64, err error) {
	h := fnv.New64a()
	m, err = Check(bytes.NewReader(data), int64(len(data)), func(e Entry) error {
		for _, part := range append(e.Path, e.Key, e.Value, []byte{byte(e.Sequence)}) {
			_, _ = h.Write(binary.NativeEndian.AppendUint64(nil, uint64(len(part))))
			_, _ = h.Write(part)
		}
		return nil
	})
	return m, h.Sum64(), err
}

// Whatever bit is flipped: it is found, or the entries are the same, or values have changed, which is for the caller.
func TestEveryBit(t *testing.T) {
	for _, name := range []string{"listed", "unlisted"} {
		data := file(t, name)
		_, want, err := digest(data)
		if err != nil {
			t.Fatal(err)
		}
		step := 31
		if filetest.EveryBit() {
			step = 1
		}
		found, other, same := 0, 0, 0
		for bit := 0; bit < 8*len(data); bit += step {
			data[bit/8] ^= 1 << (bit % 8)
			m, got, err := digest(data)
			switch {
			case err != nil:
				found++
				if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrCut) {
					t.Fatalf("%s: bit %d: %v", name, bit, err)
				}
			case !m.Whole:
				found++
			case got == want:
				same++
			default:
				other++
			}
			data[bit/8] ^= 1 << (bit % 8)
		}
		t.Logf("%s: %d found, %d other, %d of no effect", name, found, other, same)
		if found < 8*metaEnd/step || other == 0 || same == 0 {
			t.Errorf("%s: the bits do not reach what they should", name)
		}
	}
}

// A file that is cut anywhere within its pages in use is found to be.
func TestEverySize(t *testing.T) {
	data := file(t, "unlisted")
	m, _, err := check(data)
	if err != nil {
		t.Fatal(err)
	}
	for size := range data {
		_, err := Check(bytes.NewReader(data[:size]), int64(size), nil)
		switch used := int(m.Pages) * pageSize; {
		case size >= used:
			if err != nil {
				t.Fatalf("%d bytes: %v", size, err)
			}
		case size < metaEnd && !errors.Is(err, ErrForeign), size >= metaEnd && !errors.Is(err, ErrCut):
			t.Fatalf("%d bytes: %v", size, err)
		}
	}
}

// seal makes the checksum of a meta page right again.
func seal(data []byte, page int) {
	b := data[page*pageSize:]
	sum := fnv.New64a()
	_, _ = sum.Write(b[16:72])
	binary.NativeEndian.PutUint64(b[72:], sum.Sum64())
}

// What a checksum covers, and yet is wrong.
func TestMetaPages(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(data []byte)
		want   error
		whole  bool
	}{
		{"the older one is not valid", func(b []byte) { b[20]++ }, nil, false},
		{"the newer one is not valid", func(b []byte) { b[pageSize+20]++ }, nil, false},
		{"the first one is gone", func(b []byte) { clear(b[:pageSize]) }, nil, false},
		{"neither", func(b []byte) { b[70]++; b[pageSize+70]++ }, ErrForeign, false},
		{"more pages than the file", func(b []byte) {
			binary.NativeEndian.PutUint64(b[pageSize+56:], 1<<40)
			seal(b, 1)
		}, ErrCut, true},
		{"a root beyond the pages", func(b []byte) {
			binary.NativeEndian.PutUint64(b[pageSize+32:], 1<<40)
			seal(b, 1)
		}, ErrDamaged, true},
		{"a list of free pages that is the root", func(b []byte) {
			copy(b[pageSize+48:pageSize+56], b[pageSize+32:])
			seal(b, 1)
		}, ErrDamaged, true},
		{"a page size of nothing", func(b []byte) {
			for page := range 2 {
				binary.NativeEndian.PutUint32(b[page*pageSize+24:], 0)
				seal(b, page)
			}
		}, ErrForeign, false},
	} {
		data := file(t, "listed")
		c.change(data)
		m, _, err := check(data)
		if !errors.Is(err, c.want) || m.Whole != c.whole {
			t.Errorf("%s: whole %v, %v", c.name, m.Whole, err)
		}
	}
}

// What the pages of the tree may not be, although each alone is sound.
func TestPagesOfTheTree(t *testing.T) {
	order := binary.NativeEndian
	for _, c := range []struct {
		name   string
		change func(root []byte, buckets [][]byte)
	}{
		{"a page under another number", func(root []byte, _ [][]byte) { order.PutUint64(root, 5) }},
		{"two buckets on one page", func(_ []byte, buckets [][]byte) { copy(buckets[1][:8], buckets[0][:8]) }},
		{"a bucket on the page of the root", func(root []byte, buckets [][]byte) { copy(buckets[0][:8], root[:8]) }},
		{"a bucket on a meta page", func(_ []byte, buckets [][]byte) { order.PutUint64(buckets[0], 1) }},
	} {
		data := file(t, "unlisted")
		root := data[order.Uint64(data[pageSize+32:])*pageSize:]
		var buckets [][]byte // their headers
		for at := pageHeader; len(buckets) < int(order.Uint16(root[10:])); at += pageElement {
			e := root[at:]
			buckets = append(buckets, e[order.Uint32(e[4:])+order.Uint32(e[8:]):])
		}
		if order.Uint64(buckets[0]) == 0 {
			t.Fatal("the bucket has no page of its own")
		}
		c.change(root, buckets)
		if _, _, err := check(data); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// A disk that does not read is neither: the caller decides.
func TestUnreadable(t *testing.T) {
	data, broken := file(t, "unlisted"), errors.New("input/output error")
	for page := range len(data) / pageSize {
		_, err := Check(holed{data, int64(page) * pageSize, broken}, int64(len(data)), nil)
		if err != nil && (!errors.Is(err, broken) || errors.Is(err, ErrDamaged) || errors.Is(err, ErrCut)) {
			t.Errorf("page %d: %v", page, err)
		}
	}
}

// holed cannot be read at one place.
type holed struct {
	data []byte
	at   int64
	err  error
}

func (h holed) ReadAt(b []byte, off int64) (int, error) {
	if off <= h.at && h.at < off+int64(len(b)) {
		return 0, h.err
	}
	return bytes.NewReader(h.data).ReadAt(b, off)
}

func FuzzCheck(f *testing.F) {
	for _, name := range []string{"listed", "unlisted"} {
		f.Add(file(f, name))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) >= 2*pageSize { // get past the checksums
			seal(data, 0)
			seal(data, 1)
		}
		_, _, _ = check(data)
	})
}
