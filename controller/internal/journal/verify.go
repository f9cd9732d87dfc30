package journal

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"go.etcd.io/bbolt"

	"tandem.internal/controller/internal/record"
)

// Finding is what kind of damage a Problem describes.
type Finding string

// The findings.
const (
	// Altered: the record at Seq is not the one that was written. Of a record that was replaced whole and the one after
	// it, it cannot be known which was changed.
	Altered    Finding = "altered"
	Removed    Finding = "removed"    // the records Seq to To are gone, and not by Drop
	Added      Finding = "added"      // there is a record at Seq that was never written there, or was compacted away
	Reordered  Finding = "reordered"  // the record of Seq is stored under another number, To
	HeadWrong  Finding = "head"       // meta/head does not name the newest record
	GapsWrong  Finding = "gaps"       // the list of compacted records is malformed
	BodyWrong  Finding = "body"       // a body, named by the record at Seq, does not have its hash or is gone
	CheckWrong Finding = "checkpoint" // the checkpoint is not what was written
	PagesWrong Finding = "pages"      // bbolt's own check found this
)

// Problem is one thing that Verify found.
type Problem struct {
	What   Finding
	Seq    uint64 // 0 where no record is meant
	To     uint64 // see What; else 0
	Detail string
}

// String is one line for people.
func (p Problem) String() string {
	switch {
	case p.Seq == 0:
		return fmt.Sprintf("%s: %s", p.What, p.Detail)
	case p.To > p.Seq && p.What == Removed:
		return fmt.Sprintf("records %d to %d %s: %s", p.Seq, p.To, p.What, p.Detail)
	}
	return fmt.Sprintf("record %d %s: %s", p.Seq, p.What, p.Detail)
}

// Proof is what Verify looked at and found. No Problems: everything is as it was written.
type Proof struct {
	Records   int       // records looked at
	Compacted uint64    // records that Drop removed
	Unproven  int       // records whose predecessor is lost, so that only their successor speaks for them
	Bodies    int       // bodies looked at
	Last      uint64    // newest record when Verify began
	Pages     bool      // bbolt's own check ran; it does on a read-only journal, where no writer is in its way
	More      bool      // there are more problems than maxProblems
	Problems  []Problem // at most maxProblems
	Trimmed   int       // records that say which others go
	Trims     []Trim    // the newest of them, at most maxTrims
}

// OK reports whether everything is as it was written.
func (p *Proof) OK() bool { return len(p.Problems) == 0 }

const (
	maxProblems = 1000
	maxSearches = 64 // for records under a wrong number; each reads the whole log
)

// Verify recomputes the chain over everything that was durable when it began, the bodies' hashes and the checkpoint's
// sum, and looks for the bodies of accepted documents. A writer may run beside it. What it finds is in the proof; the
// error says why it could not look.
func (j *Journal) Verify(ctx context.Context) (Proof, error) {
	select {
	case j.maintenance <- struct{}{}:
		defer func() { <-j.maintenance }()
	case <-ctx.Done():
		return Proof{}, ctx.Err()
	}
	v := verifier{j: j, ctx: ctx}
	for _, step := range [...]func() error{v.start, v.chain, v.trims, v.bodies, v.checkpoint, v.pages} {
		if err := step(); err != nil {
			return v.proof, err
		}
	}
	return v.proof, nil
}

type verifier struct {
	j        *Journal
	ctx      context.Context
	proof    Proof
	head     mark
	noHead   bool
	genesis  Hash
	gaps     []gap // that come yet
	gone     []gap // all
	searches int

	queue []entry // read ahead
	next  uint64  // first seq not read yet
	ended bool
}

type gap struct {
	from uint64
	to   mark
}

func (v *verifier) found(what Finding, seq, to uint64, format string, args ...any) {
	if len(v.proof.Problems) == maxProblems {
		v.proof.More = true
		return
	}
	v.proof.Problems = append(v.proof.Problems, Problem{what, seq, to, fmt.Sprintf(format, args...)})
}

// start reads head and gaps. Drop is kept out, so the gaps stay as they are.
func (v *verifier) start() error {
	defer func() { v.gone = v.gaps }()
	return v.j.view(func(tx *bbolt.Tx) error {
		meta := tx.Bucket(bucketMeta)
		v.genesis = genesis(meta.Get(keyCreated))
		var ok bool
		if v.head, ok = parseMark(meta.Get(keyHead)); !ok {
			v.noHead = true
			v.found(HeadWrong, 0, 0, "meta/head is missing or malformed")
			v.head.seq = math.MaxUint64
		} else {
			v.proof.Last = v.head.seq
		}
		end := uint64(0)
		return tx.Bucket(bucketGaps).ForEach(func(k, val []byte) error {
			to, ok := parseMark(val)
			if len(k) != 8 || !ok || to.seq < binary.BigEndian.Uint64(k) || binary.BigEndian.Uint64(k) <= end {
				v.found(GapsWrong, 0, 0, "the entry %x is malformed or overlaps another", k)
				return nil
			}
			v.gaps = append(v.gaps, gap{binary.BigEndian.Uint64(k), to})
			end = to.seq
			v.proof.Compacted += to.seq - binary.BigEndian.Uint64(k) + 1
			return nil
		})
	})
}

// peek returns the next record without taking it.
func (v *verifier) peek() (*entry, error) {
	for len(v.queue) == 0 && !v.ended {
		if err := v.ctx.Err(); err != nil {
			return nil, err
		}
		to := v.head.seq
		if v.j.readOnly {
			to = math.MaxUint64 // nobody appends: what is beyond the head should not be there
		}
		var err error
		if v.queue, err = v.j.logEntries(v.next, to, compactChunk); err != nil {
			return nil, err
		}
		if len(v.queue) == 0 || v.queue[len(v.queue)-1].seq == math.MaxUint64 {
			v.ended = true
		} else {
			v.next = v.queue[len(v.queue)-1].seq + 1
		}
	}
	if len(v.queue) == 0 {
		return nil, nil
	}
	return &v.queue[0], nil
}

// chain walks the log. prevs are the hashes that the record before may have had: one if it was
// good, two if it was altered (its payload or its stored hash), none if it is lost.
func (v *verifier) chain() error {
	expect, prevs := uint64(1), []Hash{v.genesis}
	for {
		e, err := v.peek()
		if err != nil {
			return err
		}
		if e == nil || e.seq > v.head.seq {
			break
		}
		cur := *e
		v.queue = v.queue[1:]
		v.proof.Records++
		expect, prevs = v.skip(expect, cur.seq, prevs)
		if cur.seq < expect {
			v.found(Added, cur.seq, 0, "the journal says that it was compacted away")
			continue
		}
		if prevs, err = v.record(cur, prevs); err != nil {
			return err
		}
		expect = cur.seq + 1
	}
	if v.noHead {
		return nil
	}
	if v.head.seq < math.MaxUint64 {
		_, prevs = v.skip(expect, v.head.seq+1, prevs)
	}
	if len(prevs) > 0 && !anyOf(prevs, v.head.hash) {
		v.found(HeadWrong, 0, 0, "meta/head has another hash than record %d", v.head.seq)
	}
	for {
		e, err := v.peek()
		if err != nil || e == nil {
			return err
		}
		v.found(Added, e.seq, 0, "it is newer than the newest record that was written, %d", v.head.seq)
		v.queue = v.queue[1:]
	}
}

// skip goes over the numbers from expect up to before seq that have no record: compacted or lost.
// The result is above seq if seq itself was compacted away.
func (v *verifier) skip(expect, seq uint64, prevs []Hash) (uint64, []Hash) {
	for {
		for len(v.gaps) > 0 && v.gaps[0].to.seq < expect {
			v.gaps = v.gaps[1:]
		}
		if len(v.gaps) > 0 && v.gaps[0].from <= expect && (expect < seq || v.gaps[0].from <= seq) {
			expect, prevs = v.gaps[0].to.seq+1, []Hash{v.gaps[0].to.hash}
			continue
		}
		if expect >= seq {
			return expect, prevs
		}
		last := seq - 1
		if len(v.gaps) > 0 {
			last = min(last, v.gaps[0].from-1)
		}
		v.found(Removed, expect, last, "missing, and not by compaction")
		expect, prevs = last+1, nil
	}
}

// record checks one record against its predecessor and returns the hashes that it may have.
func (v *verifier) record(e entry, prevs []Hash) ([]Hash, error) {
	stored, payload, ok := split(e.value)
	if !ok {
		v.found(Altered, e.seq, 0, "too short")
		return nil, nil
	}
	if len(prevs) == 0 {
		v.proof.Unproven++
		return []Hash{stored}, nil
	}
	for _, prev := range prevs {
		if link(prev, e.seq, payload) == stored {
			r, err := decodePayload(payload, nil)
			if err != nil {
				v.found(Altered, e.seq, 0, "its chain hash is right but it cannot be read: %v", err)
				return []Hash{stored}, nil
			}
			if r.Seq = e.seq; r.Type == record.Trimmed {
				v.trimmed(&r)
			}
			return []Hash{stored}, v.body(e.seq, &r)
		}
	}
	doubt := ""
	if len(prevs) > 1 {
		doubt = ", or the record before it was replaced whole"
	}
	// Who is right, the payload or the stored hash? The successor has seen the true one.
	recomputed := link(prevs[0], e.seq, payload)
	next, err := v.peek()
	if err != nil {
		return nil, err
	}
	switch {
	case v.follows(next, e.seq, stored):
		v.found(Altered, e.seq, 0, "its content does not match its chain hash%s", doubt)
		return []Hash{stored}, nil
	case v.follows(next, e.seq, recomputed):
		v.found(Altered, e.seq, 0, "its chain hash does not match its content%s", doubt)
		return []Hash{recomputed}, nil
	}
	at, hash, err := v.search(e.seq, prevs)
	if err != nil {
		return nil, err
	}
	if at != 0 {
		v.found(Reordered, e.seq, at, "it is stored as record %d", at)
		return []Hash{hash}, nil
	}
	v.found(Altered, e.seq, 0, "it does not match its chain hash%s", doubt)
	return []Hash{stored, recomputed}, nil
}

// follows reports whether what comes after seq proves that seq had this hash.
func (v *verifier) follows(next *entry, seq uint64, hash Hash) bool {
	if seq == v.head.seq {
		return v.head.hash == hash
	}
	if next == nil || next.seq != seq+1 {
		return false
	}
	stored, payload, ok := split(next.value)
	return ok && link(hash, next.seq, payload) == stored
}

// search looks through the log for the true record of seq under another number.
func (v *verifier) search(seq uint64, prevs []Hash) (at uint64, hash Hash, err error) {
	if v.searches++; v.searches > maxSearches {
		return 0, Hash{}, nil
	}
	for next := uint64(0); ; {
		if err := v.ctx.Err(); err != nil {
			return 0, Hash{}, err
		}
		entries, err := v.j.logEntries(next, math.MaxUint64, compactChunk)
		if err != nil || len(entries) == 0 {
			return 0, Hash{}, err
		}
		for _, e := range entries {
			stored, payload, ok := split(e.value)
			for _, prev := range prevs {
				if ok && link(prev, seq, payload) == stored {
					return e.seq, stored, nil
				}
			}
		}
		if next = entries[len(entries)-1].seq + 1; next == 0 {
			return 0, Hash{}, nil
		}
	}
}

func split(value []byte) (stored Hash, payload []byte, ok bool) {
	if len(value) < hashSize {
		return Hash{}, nil, false
	}
	return Hash(value[:hashSize]), value[hashSize:], true
}

func anyOf(list []Hash, h Hash) bool {
	for _, x := range list {
		if x == h {
			return true
		}
	}
	return false
}

func (v *verifier) checkpoint() error {
	_, _, err := v.j.Checkpoint()
	if errors.Is(err, ErrDamaged) {
		v.found(CheckWrong, 0, 0, "%v", errCheckpoint)
		return nil
	}
	return err
}

// pages runs bbolt's check, which may not run beside a writer.
func (v *verifier) pages() error {
	if !v.j.readOnly {
		return nil
	}
	v.proof.Pages = true
	return v.j.view(func(tx *bbolt.Tx) error {
		for err := range tx.Check() { // to its end, or its goroutine would stay
			v.found(PagesWrong, 0, 0, "%v", err)
		}
		return nil
	})
}
