package journal

import (
	"crypto/sha256"
	"encoding/binary"
)

// Hash is a SHA-256 sum: of a body, or a link of the chain.
type Hash = [sha256.Size]byte

const hashSize = sha256.Size

// mark is a place in the log: a sequence number and the chain hash there.
type mark struct {
	seq  uint64
	hash Hash
}

func (m mark) bytes() []byte {
	return append(binary.BigEndian.AppendUint64(make([]byte, 0, 8+hashSize), m.seq), m.hash[:]...)
}

func parseMark(b []byte) (m mark, ok bool) {
	if len(b) != 8+hashSize {
		return mark{}, false
	}
	return mark{seq: binary.BigEndian.Uint64(b), hash: Hash(b[8:])}, true
}

// genesis is chain[0]; it differs from journal to journal, so records cannot be moved over.
func genesis(created []byte) Hash {
	return sha256.Sum256(append([]byte("tandem journal\n"), created...))
}

// link is chain[seq] for a payload (header ++ data) that follows prev.
func link(prev Hash, seq uint64, payload []byte) Hash {
	h := sha256.New()
	var s [8]byte
	binary.BigEndian.PutUint64(s[:], seq)
	h.Write(prev[:]) // a hash.Hash never returns an error
	h.Write(s[:])
	h.Write(payload)
	return Hash(h.Sum(nil))
}

// sealer turns records into log values. The bytes it returns stay valid until reset.
type sealer struct{ arena []byte }

// seqRoom is the space in front of a value that holds the sequence number while it is hashed.
const seqRoom = 8

// reset makes room for the records at once, so that values never move.
func (s *sealer) reset(records []Record) {
	need := 0
	for i := range records {
		need += seqRoom + hashSize + headerMax(&records[i]) + len(records[i].Data)
	}
	const keep = 8 << 20 // a rare giant batch must not hold its memory for ever
	if cap(s.arena) < need || cap(s.arena) > keep && need <= keep {
		s.arena = make([]byte, 0, need)
	}
	s.arena = s.arena[:0]
}

// seal returns the log value of r as the record after prev, and its mark. The preimage is laid
// out where the value goes: prev ++ seq ++ payload; then the hash is written over the eight
// bytes' width later, right in front of the payload, so nothing is copied twice.
func (s *sealer) seal(prev mark, r *Record) (value []byte, at mark) {
	start := len(s.arena)
	b := append(s.arena, prev.hash[:]...)
	b = binary.BigEndian.AppendUint64(b, prev.seq+1)
	b = appendPayload(b, r)
	s.arena = b
	at = mark{seq: prev.seq + 1, hash: sha256.Sum256(b[start:])}
	copy(b[start+seqRoom:], at.hash[:])
	return b[start+seqRoom:], at
}
