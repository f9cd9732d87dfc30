package journal

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"tandem.internal/controller/internal/retain"
)

// The records of the benchmarks have 300 bytes of data, as a status report has.
func benchRecord() Record {
	r := rec(6)
	r.Data = make([]byte, 300)
	for i := range r.Data {
		r.Data[i] = byte(' ' + i%90)
	}
	return r
}

func perSecond(b *testing.B, records int) {
	b.ReportMetric(float64(records)/b.Elapsed().Seconds(), "records/s")
}

// BenchmarkAppend is the controller's loop: one caller, batches of what its queue held.
func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{1, 64, 512, 4096, 10_000} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			j := mustOpen(b, tempPath(b), Options{})
			batch := Batch{Records: make([]Record, size)}
			for i := range batch.Records {
				batch.Records[i] = benchRecord()
			}
			b.ReportAllocs()
			for b.Loop() {
				mustAppend(b, j, batch)
			}
			perSecond(b, b.N*size)
		})
	}
}

// BenchmarkFloor is many callers that each wait until their value is durable, with nothing but bbolt.
func BenchmarkFloor(b *testing.B) {
	for _, callers := range []int{64, 512, 2048} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			benchFloor(b, callers)
		})
	}
}

// benchFloor is a group commit with as little around it as possible: no chain, no header.
func benchFloor(b *testing.B, callers int) {
	db, err := bbolt.Open(tempPath(b), 0o600,
		&bbolt.Options{NoFreelistSync: true, FreelistType: bbolt.FreelistMapType, InitialMmapSize: 1 << 30})
	if err != nil {
		b.Fatal(err)
	}
	if err := db.Update(func(tx *bbolt.Tx) error { _, err := tx.CreateBucket(bucketLog); return err }); err != nil {
		b.Fatal(err)
	}
	queue := make(chan chan error, callers)
	value := make([]byte, 360)
	var wg sync.WaitGroup
	wg.Go(func() {
		var waiting []chan error
		seq := uint64(0)
		for first := range queue {
			waiting = append(waiting[:0], first)
			for len(queue) > 0 && len(waiting) < 4096 {
				waiting = append(waiting, <-queue)
			}
			err := db.Update(func(tx *bbolt.Tx) error {
				log := tx.Bucket(bucketLog)
				log.FillPercent = 1
				for range waiting {
					seq++
					if err := log.Put(binary.BigEndian.AppendUint64(nil, seq), value); err != nil {
						return err
					}
				}
				return nil
			})
			for _, done := range waiting {
				done <- err
			}
		}
	})
	pool := sync.Pool{New: func() any { return make(chan error, 1) }}
	benchCallers(b, callers, func() error {
		done := pool.Get().(chan error)
		queue <- done
		err := <-done
		pool.Put(done)
		return err
	})
	close(queue)
	wg.Wait()
	if err := db.Close(); err != nil {
		b.Fatal(err)
	}
}

// benchCallers shares b.N calls among the callers.
func benchCallers(b *testing.B, callers int, call func() error) {
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	b.ResetTimer()
	for range callers {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := call(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	perSecond(b, b.N)
}

func BenchmarkReplay(b *testing.B) {
	j := mustOpen(b, tempPath(b), Options{})
	batch := Batch{Records: make([]Record, 50_000)}
	for i := range batch.Records {
		batch.Records[i] = benchRecord()
	}
	mustAppend(b, j, batch)
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		if err := j.Replay(1, func(Record) error { n++; return nil }); err != nil || n != len(batch.Records) {
			b.Fatal(n, err)
		}
	}
	perSecond(b, b.N*len(batch.Records))
}

func BenchmarkVerify(b *testing.B) {
	j := mustOpen(b, tempPath(b), Options{})
	batch := Batch{Records: make([]Record, 50_000)}
	for i := range batch.Records {
		batch.Records[i] = benchRecord()
	}
	mustAppend(b, j, batch)
	for b.Loop() {
		if p, err := j.Verify(b.Context()); err != nil || !p.OK() {
			b.Fatal(p, err)
		}
	}
	perSecond(b, b.N*len(batch.Records))
}

// BenchmarkSeal is the CPU of a record without the disk: header, chain, copy.
func BenchmarkSeal(b *testing.B) {
	records := []Record{benchRecord()}
	var s sealer
	var at mark
	b.ReportAllocs()
	for b.Loop() {
		s.reset(records)
		_, at = s.seal(at, &records[0])
	}
}

// BenchmarkTrim has a million records go, 50,000 at a time, while others are appended, and tells how long one of these
// waited at most.
func BenchmarkTrim(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		j := mustOpen(b, tempPath(b), Options{})
		batch := Batch{Records: make([]Record, 50_000)}
		for i := range batch.Records {
			batch.Records[i] = benchRecord()
		}
		for range 20 {
			batch.Checkpoint = &Checkpoint{Seq: j.Last() + uint64(len(batch.Records))}
			mustAppend(b, j, batch)
		}
		var stop atomic.Bool
		var wg sync.WaitGroup
		var longest time.Duration
		wg.Go(func() {
			for !stop.Load() {
				began := time.Now()
				mustAppend(b, j, Batch{Records: []Record{benchRecord()}})
				longest = max(longest, time.Since(began))
			}
		})
		b.StartTimer()
		var doomed []uint64
		for range 2 { // counted, then asked about
			doomed = doomed[:0]
			if err := j.Headers(b.Context(), 1_000_000, func(h retain.Header) error {
				doomed = append(doomed, h.Seq)
				return nil
			}); err != nil {
				b.Fatal(err)
			}
		}
		for some := range slices.Chunk(doomed, 50_000) {
			if _, _, err := j.ExportSome(b.Context(), nil, some); err != nil {
				b.Fatal(err)
			}
			if _, err := j.Drop(b.Context(), some); err != nil {
				b.Fatal(err)
			}
		}
		b.StopTimer()
		stop.Store(true)
		wg.Wait()
		b.ReportMetric(float64(longest.Milliseconds()), "ms-longest-append")
		b.StartTimer()
	}
}
