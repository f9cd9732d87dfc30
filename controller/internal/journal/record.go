package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"time"
	"unicode/utf8"

	"tandem.internal/controller/internal/record"
)

// Type and Record are what package record owns.
type (
	Type   = record.Type
	Record = record.Record
)

// Limits of one record and one body, in bytes.
const (
	MaxData = record.MaxData // Data of a record, and a body
	MaxName = 1 << 10        // Node, Who and Kind, each
)

// check says what is wrong with a record that a caller wants to append.
func checkRecord(r *Record) error {
	switch {
	case !r.Type.Known():
		return fmt.Errorf("unknown record type %d", uint16(r.Type))
	case len(r.Data) > MaxData:
		return fmt.Errorf("data of %d bytes, above the limit of %d", len(r.Data), MaxData)
	}
	if y := r.At.UTC().Year(); y < 1 || y > 9999 {
		return fmt.Errorf("time in year %d", y)
	}
	for _, s := range [...]string{r.Node, r.Who, r.Kind} {
		if len(s) > MaxName || !utf8.ValidString(s) {
			return errors.New("node, who or kind is too long or not UTF-8")
		}
	}
	return nil
}

// headerMax bounds the encoded header of r.
func headerMax(r *Record) int {
	return 3 + 10 + 5 + 3*3 + len(r.Node) + len(r.Who) + len(r.Kind)
}

// appendPayload appends header and data.
func appendPayload(b []byte, r *Record) []byte {
	b = binary.AppendUvarint(b, uint64(r.Type))
	b = binary.AppendVarint(b, r.At.Unix())
	b = binary.AppendUvarint(b, uint64(r.At.Nanosecond()))
	for _, s := range [...]string{r.Node, r.Who, r.Kind} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	return append(b, r.Data...)
}

var (
	errShort = errors.New("record ends early or has a malformed number")
	errType  = errors.New("record of the unknown type")
)

// decodePayload is the inverse of appendPayload and accepts nothing that appendPayload would not
// write. Data aliases b. names may be nil.
func decodePayload(b []byte, names *interner) (r Record, err error) {
	d := decoder{b: b}
	t := d.uvarint()
	z := d.uvarint()
	sec := int64(z>>1) ^ -int64(z&1)
	nsec := d.uvarint()
	node, who, kind := d.name(), d.name(), d.name()
	if d.bad {
		return Record{}, errShort
	}
	if t > math.MaxUint16 || !Type(t).Known() {
		return Record{}, fmt.Errorf("%w %d", errType, t)
	}
	if nsec >= 1e9 {
		return Record{}, errors.New("record with a bad time")
	}
	r = Record{
		At: time.Unix(sec, int64(nsec)).UTC(), Type: Type(t),
		Node: names.get(node), Who: names.get(who), Kind: names.get(kind), Data: d.b,
	}
	if err := checkRecord(&r); err != nil {
		return Record{}, err
	}
	return r, nil
}

// decoder reads from the front of b and remembers that something was wrong.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) uvarint() uint64 {
	x, n := binary.Uvarint(d.b)
	if n <= 0 || n != max(1, (bits.Len64(x)+6)/7) { // only the shortest form
		d.bad, d.b = true, nil
		return 0
	}
	d.b = d.b[n:]
	return x
}

func (d *decoder) name() []byte {
	n := d.uvarint()
	if n > MaxName || n > uint64(len(d.b)) {
		d.bad, d.b = true, nil
		return nil
	}
	s := d.b[:n]
	d.b = d.b[n:]
	return s
}

// interner gives equal names one string, so that reading many records allocates little.
type interner struct{ seen map[string]string }

func (in *interner) get(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if in == nil {
		return string(b)
	}
	if s, ok := in.seen[string(b)]; ok {
		return s
	}
	if in.seen == nil || len(in.seen) >= 1<<16 {
		in.seen = make(map[string]string)
	}
	s := string(b)
	in.seen[s] = s
	return s
}

// typeSet is a set of known types.
type typeSet uint64

func setOf(types []Type) (s typeSet) {
	for _, t := range types {
		s |= 1 << t
	}
	return s
}

func (s typeSet) has(t Type) bool { return s&(1<<t) != 0 }
