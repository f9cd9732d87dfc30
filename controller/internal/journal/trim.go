package journal

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
	"go.etcd.io/bbolt"

	"tandem.internal/controller/internal/retain"
)

// Headers calls fn for every record up to a number, in order and outside any transaction. It does not prove them.
func (j *Journal) Headers(ctx context.Context, to uint64, fn func(retain.Header) error) error {
	var names interner
	var some []retain.Header
	for next := uint64(1); next <= to; {
		if err := ctx.Err(); err != nil {
			return err
		}
		some = some[:0]
		err := j.view(func(tx *bbolt.Tx) error {
			c := tx.Bucket(bucketLog).Cursor()
			k, v := c.Seek(beSeq(next))
			for ; k != nil && len(some) < chunkVisits; k, v = c.Next() {
				if len(k) != 8 {
					return j.Damaged("a key of %d bytes in the log", len(k))
				}
				seq := binary.BigEndian.Uint64(k)
				if seq > to {
					break
				}
				r, err := j.decode(seq, v, &names)
				if err != nil {
					return err
				}
				some = append(some, retain.Header{Seq: seq, At: r.At, Type: r.Type, Kind: r.Kind, Size: len(v)})
			}
			return nil
		})
		if err != nil || len(some) == 0 {
			return err
		}
		for _, h := range some {
			if err := fn(h); err != nil {
				return err
			}
		}
		next = some[len(some)-1].Seq + 1
	}
	return nil
}

// Gone is how many records were removed.
func (j *Journal) Gone() (n uint64, err error) {
	err = j.view(func(tx *bbolt.Tx) error {
		return tx.Bucket(bucketGaps).ForEach(func(k, v []byte) error {
			to, ok := parseMark(v)
			if len(k) != 8 || !ok {
				return j.Damaged("its list of gaps is malformed")
			}
			n += to.seq - binary.BigEndian.Uint64(k) + 1
			return nil
		})
	})
	return n, err
}

// ExportSome proves some records, in rising order, and writes them as JSON lines like those of Export, with two more
// members: prev and hash, the chain hashes before and of the record, hexadecimal. Where data is not byte by byte what
// the record has, or could be that of none, exact has that, base64; of what was accepted, document has the document.
// It returns the hash before the first and of the last one. w may be nil: then they are only proved.
func (j *Journal) ExportSome(ctx context.Context, w io.Writer, seqs []uint64) (before, last Hash, err error) {
	out := bufio.NewWriterSize(io.Discard, 16)
	if w != nil {
		out = bufio.NewWriterSize(w, 64<<10)
	}
	var line, proof []byte
	for n := 0; n < len(seqs); {
		if err := ctx.Err(); err != nil {
			return before, last, err
		}
		some, err := j.values(seqs[n:], &proof)
		if err != nil {
			return before, last, err
		}
		if n == 0 {
			before = some[0].prev
		}
		n, last = n+len(some), Hash(some[len(some)-1].value[:hashSize])
		for _, e := range some {
			if w == nil {
				break
			}
			if line, err = j.appendExact(line[:0], &e); err != nil {
				return before, last, err
			}
			if _, err := out.Write(line); err != nil {
				return before, last, err
			}
		}
	}
	return before, last, out.Flush()
}

// proved is a log value with the chain hash before it.
type proved struct {
	entry
	prev Hash
}

// values copies out the first ones of some records, after it has proved them.
func (j *Journal) values(seqs []uint64, proof *[]byte) (some []proved, err error) {
	err = j.view(func(tx *bbolt.Tx) error {
		size := 0
		log := tx.Bucket(bucketLog)
		for _, seq := range seqs {
			if len(some) == compactChunk || size >= 4*chunkBytes {
				return nil
			}
			value := log.Get(beSeq(seq))
			if value == nil {
				return j.Damaged("record %d is gone", seq)
			}
			prev, _ := before(tx, seq)
			if err := j.prove(tx, mark{}, seq, value, proof); err != nil {
				return err
			}
			size += len(value)
			some = append(some, proved{entry{seq, append([]byte(nil), value...)}, prev.hash})
		}
		return nil
	})
	return some, err
}

func (j *Journal) appendExact(b []byte, e *proved) ([]byte, error) {
	r, err := j.decode(e.seq, e.value, nil)
	if err != nil {
		return b, err
	}
	if b, err = appendProved(b, &r, e.prev, Hash(e.value[:hashSize])); err != nil {
		return b, fmt.Errorf("export record %d: %w", e.seq, err)
	}
	if b, err = j.appendDocument(b, &r); err != nil {
		return b, err
	}
	return append(appendExactData(b, &r), '}', '\n'), nil
}

// appendProved begins the line of a record with its hashes: its document, exact data and the end come yet.
func appendProved(b []byte, r *Record, prev, own Hash) ([]byte, error) {
	b, err := appendLine(b, r)
	if err != nil {
		return b, err
	}
	b = append(b[:len(b)-len("}\n")], `,"prev":"`...)
	b = hex.AppendEncode(b, prev[:])
	b = append(b, `","hash":"`...)
	b = hex.AppendEncode(b, own[:])
	return append(b, '"'), nil
}

func appendBase64(b []byte, name string, data []byte) []byte {
	b = append(append(append(b, `,"`...), name...), `":"`...)
	b = base64.StdEncoding.AppendEncode(b, data)
	return append(b, '"')
}

// appendExactData adds a record's data where the line has it otherwise than byte by byte.
func appendExactData(b []byte, r *Record) []byte {
	data := jsontext.Value(r.Data).Clone()
	if data.Compact(jsontext.AllowDuplicateNames(true)) == nil &&
		(string(data) != string(r.Data) || string(data) == "null") {
		return appendBase64(b, "exact", r.Data)
	}
	return b
}

// appendDocument adds the document of an accepted submission, if the journal has it: it goes with the record.
func (j *Journal) appendDocument(b []byte, r *Record) ([]byte, error) {
	hash, has := r.Body()
	if !has {
		return b, nil
	}
	body, has, err := j.Body(hash)
	if errors.Is(err, ErrDamaged) || err == nil && !has { // that is told of elsewhere
		return b, nil
	}
	if err != nil {
		return b, err
	}
	return appendBase64(b, "document", body), nil
}
