package cloud

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"tandem.internal/shared/wire"
)

// Bounds of what is packed.
const (
	MaxPart     = 128 << 10 // bytes of a part of a status, packed
	MaxParts    = 256       // of a status
	MaxStatus   = 256 << 20 // bytes of a status, unpacked
	MaxDocument = 4 << 20   // bytes of a desired status, unpacked
)

// Split packs a status and cuts it into parts that fit into messages each.
func Split(status []byte) ([][]byte, error) {
	packed := Pack(status)
	parts := slices.Collect(slices.Chunk(packed, MaxPart))
	if len(parts) > MaxParts {
		return nil, fmt.Errorf("the unit status has %d bytes packed; at most %d can be said", len(packed),
			MaxParts*MaxPart)
	}
	return parts, nil
}

// Pack compresses data with gzip (RFC 1952). Equal data gives equal bytes.
func Pack(data []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(data)
	if err = errors.Join(err, w.Close()); err != nil {
		panic("cloud: packing: " + err.Error()) // cannot happen: it writes to memory
	}
	return b.Bytes()
}

var errTooLong = errors.New("too long")

// unpack is the inverse of Pack; more than most bytes are errTooLong.
func unpack(packed []byte, most int64) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("not compressed as RFC 1952 says: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(r, most+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("not compressed as RFC 1952 says: %w", err)
	case int64(len(data)) > most:
		return nil, fmt.Errorf("%w: more than %d bytes when unpacked", errTooLong, most)
	}
	return data, nil
}

// Reader puts the statuses of a unit together from the parts that come, whose signatures have been verified. Its zero
// value has seen nothing.
type Reader struct {
	Status *UnitStatus // the newest that is whole; nil: there is none yet
	epoch  uint64      // of Status
	rev    uint64
	time   time.Time

	coming wire.UnitStatus // the first message of the status whose parts come
	parts  [][]byte
	have   int
}

// ErrGap says that something was missed: a whole status has to be asked for.
var ErrGap = errors.New("the status before was missed: ask for a whole one")

// Take takes a message. True: Status is another now. What was taken before, or is of an older status, is passed over.
func (r *Reader) Take(m *wire.UnitStatus) (news bool, err error) {
	p := m.Part
	if p == nil || m.Epoch < r.epoch || m.Epoch == r.epoch && (m.Rev < r.rev ||
		m.Rev == r.rev && (p.Prev != 0 || !m.Time.After(r.time))) {
		return false, nil
	}
	c := &r.coming
	if c.Part == nil || c.Epoch != m.Epoch || c.Rev != m.Rev || !c.Time.Equal(m.Time) ||
		c.Part.Prev != p.Prev || !c.Part.PrevTime.Equal(p.PrevTime) || c.Part.Of != p.Of {
		*c, r.parts, r.have = *m, make([][]byte, p.Of), 0
	}
	if at := p.Part - 1; r.parts[at] == nil {
		r.parts[at] = p.Data
		r.have++
	}
	if r.have < p.Of {
		return false, nil
	}
	text, err := unpack(slices.Concat(r.parts...), MaxStatus)
	r.coming, r.parts = wire.UnitStatus{}, nil
	if err != nil {
		return false, err
	}
	s, err := ParseStatus(text)
	switch {
	case err != nil:
		return false, err
	case p.Prev == 0:
		r.Status = s
	case r.Status == nil || m.Epoch != r.epoch || p.Prev != r.rev || !p.PrevTime.Equal(r.time):
		return false, ErrGap
	default:
		r.Status.Apply(s)
	}
	r.epoch, r.rev, r.time = m.Epoch, m.Rev, m.Time
	return true, nil
}
