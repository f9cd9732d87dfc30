package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"tandem.internal/nodeagent/internal/health"
	"tandem.internal/nodeagent/internal/inbox"
	"tandem.internal/nodeagent/internal/supervise"
	"tandem.internal/shared/filetest"
	"tandem.internal/shared/seal"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// sampled is how many bits are flipped, and at how many sizes the file is cut, without -every-bit.
const sampled = 1000

// inMemory is a Config with its file in memory: these tests open thousands.
func inMemory(t *testing.T) Config {
	cfg := config(t)
	cfg.Now = func() time.Time { return time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC) }
	cfg.Path = filepath.Join(filetest.MemoryDir(t), "state.db")
	return cfg
}

// live is what is saved of a node in a small life, step by step.
var live = []func(s *Store) error{
	func(s *Store) error {
		trust := inbox.Trust{Epoch: 7, Keys: seal.Trust{"k": make([]byte, 32)}, Order: []string{"k"}, KeysRev: 9,
			Floor: inbox.Floor{Kinds: map[wire.Kind]wire.Stamp{"config": {Epoch: 7, Rev: 2}}}}
		_, err := s.Commit(Batch{Trust: &trust, Node: &Node{Reboots: 3}, Events: happened("pinned")})
		return err
	},
	func(s *Store) error {
		_, err := s.Commit(Batch{Kinds: []Kind{{"config", full()}}, Events: happened("applying", "installed")})
		return err
	},
	func(s *Store) error {
		long := full()
		long.Running = doc(1, strings.Repeat("a long body ", 800))
		_, err := s.Commit(Batch{Kinds: []Kind{{"workloads", long}}, Node: &Node{Health: health.Durable{}, Reboots: 4}})
		return err
	},
	func(s *Store) error {
		slot := func(service string) *supervise.Durable {
			return &supervise.Durable{Slot: workload.Slot{Service: service, Node: "n1"}}
		}
		return s.SaveWorkloads(map[string]*supervise.Durable{"web": slot("web"), "db": slot("db")})
	},
	func(s *Store) error { return s.Acked(1) },
	func(s *Store) error {
		next := full()
		next.Running, next.Flight, next.Next = next.Flight.Doc, inbox.Flight{}, inbox.Doc{}
		_, err := s.Commit(Batch{Kinds: []Kind{{"config", next}}, Events: happened("a", "b", "c", "d", "e")})
		return err
	},
	func(s *Store) error { return s.SaveWorkloads(map[string]*supervise.Durable{"db": nil}) },
}

func happened(types ...string) (events []wire.Event) {
	for _, typ := range types {
		events = append(events, wire.Event{V: 1, Node: "n1", Boot: "b", At: time.Unix(1, 0).UTC(), Type: typ})
	}
	return events
}

// content is everything that a store has, but for the count of starts and the sum.
func content(t *testing.T, db *bolt.DB) string {
	t.Helper()
	var text strings.Builder
	var walk func(path string, b *bolt.Bucket) error
	walk = func(path string, b *bolt.Bucket) error {
		fmt.Fprintf(&text, "%s %d\n", path, b.Sequence())
		return b.ForEach(func(key, value []byte) error {
			switch at := fmt.Sprintf("%s/%x", path, key); {
			case value == nil:
				return walk(at, b.Bucket(key))
			case path == "meta" && (bytes.Equal(key, kBoots) || bytes.Equal(key, kSum)):
			default:
				fmt.Fprintf(&text, "%s %x\n", at, value)
			}
			return nil
		})
	}
	err := db.View(func(tx *bolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bolt.Bucket) error { return walk(string(name), b) })
	})
	if err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// images are the file as each save of live has left it, and what it has then.
func images(t *testing.T, cfg Config) (files [][]byte, contents []string) {
	t.Helper()
	s := open(t, cfg)
	for i := -1; i < len(live); i++ {
		if i >= 0 {
			if err := live[i](s); err != nil {
				t.Fatal(err)
			}
		}
		data, err := os.ReadFile(cfg.Path)
		if err != nil {
			t.Fatal(err)
		}
		files, contents = append(files, data), append(contents, content(t, s.db))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return files, contents
}

// outcome opens a file with this content, and without marks, as a start of the agent does. It returns what the store
// has, or "" if the file was declared to be damaged, kept, and replaced by an empty one. Anything else ends the test.
func outcome(t *testing.T, cfg Config, what string, data []byte) string {
	t.Helper()
	if err := errors.Join(os.WriteFile(cfg.Path, data, 0o600), remove(cfg.marksPath())); err != nil {
		t.Fatal(err)
	}
	s, err := Open(cfg)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	got := content(t, s.db)
	if l := s.Loss(); l != nil {
		if l.Reason == "" || l.Reported || !l.At.Equal(cfg.now()) {
			t.Fatalf("%s: the loss is %+v", what, l)
		}
		kept := filepath.Join(filepath.Dir(cfg.Path), l.Kept)
		if aside, err := os.ReadFile(kept); err != nil || !bytes.Equal(aside, data) {
			t.Fatalf("%s: what was kept is not the damaged file: %v", what, err)
		}
		empty(t, what, s)
		if err := os.Remove(kept); err != nil {
			t.Fatal(err)
		}
		got = ""
	}
	// It can be written to, whatever it was.
	if _, err := s.Commit(Batch{Events: happened("again"), Trust: &inbox.Trust{Epoch: 1}}); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if err := s.Close(); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	return got
}

// empty checks that nothing is taken over.
func empty(t *testing.T, what string, s *Store) {
	t.Helper()
	kinds, err := s.Kinds()
	trust, terr := s.Trust()
	node, nerr := s.Node()
	workloads, werr := s.Workloads()
	if err = errors.Join(err, terr, nerr, werr); err != nil || len(kinds)+len(workloads)+len(trust.Keys) > 0 ||
		trust.Epoch != 0 || node.Reboots != 0 || s.NewestEvent() != 0 || s.Boots() != 1 {
		t.Fatalf("%s: something is left: %v", what, err)
	}
}

// Cut at whatever size, the file is opened with what it had, or is damaged.
func TestEverySize(t *testing.T) {
	cfg := inMemory(t)
	files, contents := images(t, cfg)
	file, want := files[len(files)-1], contents[len(contents)-1]
	sizes := []int{0, 1, 79, 80, 81}
	for page := 0; page <= len(file); page += os.Getpagesize() {
		sizes = append(sizes, max(0, page-1), page, min(page+1, len(file)))
	}
	for rng := filetest.Chance(t); len(sizes) < sampled; {
		sizes = append(sizes, rng.IntN(len(file)))
	}
	if filetest.EveryBit() {
		sizes = sizes[:0]
		for size := range len(file) + 1 {
			sizes = append(sizes, size)
		}
	}
	damaged := 0
	for _, size := range sizes {
		switch outcome(t, cfg, fmt.Sprint(size, " bytes"), file[:size]) {
		case "":
			damaged++
		case want:
		default:
			t.Fatalf("%d bytes: it has something else", size)
		}
	}
	t.Logf("%d sizes, %d damaged", len(sizes), damaged)
	if damaged < len(sizes)/4 || damaged == len(sizes) {
		t.Error("the sizes are not those of a file")
	}
}

// With whatever bit flipped, it is opened with what it had, or is damaged.
func TestEveryBit(t *testing.T) {
	cfg := inMemory(t)
	files, contents := images(t, cfg)
	file, want := files[len(files)-1], contents[len(contents)-1]
	var bits []int
	rng := filetest.Chance(t)
	for i := range sampled {
		bit := rng.IntN(8 * len(file))
		if i%3 > 0 { // where it hurts: headers, tables and what is written
			for file[bit/8] == 0 {
				bit = rng.IntN(8 * len(file))
			}
		}
		bits = append(bits, bit)
	}
	for bit := 16 * 8; bit < 80*8; bit += 7 { // of what the meta pages have
		bits = append(bits, bit, bit+8*os.Getpagesize())
	}
	for at := range file { // the key of the sum, without which nothing is compared
		if bytes.HasPrefix(file[at:], kSum) {
			for bit := range 8 * len(kSum) {
				bits = append(bits, 8*at+bit)
			}
		}
	}
	if filetest.EveryBit() {
		bits = bits[:0]
		for bit := range 8 * len(file) {
			bits = append(bits, bit)
		}
	}
	damaged := 0
	for _, bit := range bits {
		switch outcome(t, cfg, fmt.Sprintf("bit %d of byte %d", bit%8, bit/8), filetest.Flipped(file, bit)) {
		case "":
			damaged++
		case want:
		default:
			t.Fatalf("bit %d of byte %d: it has something else", bit%8, bit/8)
		}
	}
	t.Logf("%d bits of %d, %d damaged; the rest hit what is not in use", len(bits), 8*len(file), damaged)
	if damaged < len(bits)/40 || damaged == len(bits) {
		t.Error("the bits are not those of a file")
	}
}

// With a page of zeros, of ones, of another page or of a transaction before, likewise.
func TestEveryPage(t *testing.T) {
	cfg := inMemory(t)
	files, contents := images(t, cfg)
	last := len(files) - 1
	size, damaged, n := os.Getpagesize(), 0, 0
	for at := 0; at < len(files[last]); at += size {
		others := [][]byte{make([]byte, size), bytes.Repeat([]byte{0xff}, size), files[last][2*size : 3*size],
			files[last][3*size : 4*size]}
		whole := len(others) // and these are pages as they were
		for _, before := range files[:last] {
			if at+size <= len(before) {
				others = append(others, before[at:at+size])
			}
		}
		for i, other := range others {
			bad := bytes.Clone(files[last])
			copy(bad[at:], other)
			n++
			switch got := outcome(t, cfg, fmt.Sprintf("page %d is other %d", at/size, i), bad); {
			case got == "":
				damaged++
			case got == contents[last]:
			case i >= whole && at < 2*size && slices.Contains(contents, got): // of the transaction of this meta page
			default:
				t.Fatalf("page %d is other %d: it has something else", at/size, i)
			}
		}
	}
	t.Logf("%d pages, %d damaged", n, damaged)
	if damaged < n/8 {
		t.Error("the pages are not those of a file")
	}
}

// The power is cut at every write of every save: after any of the data pages, or before all of them and in any order,
// the file has what it had before; with the meta page, what was saved. On a disk that kept the meta page and lost data
// pages, although they were synced before it, the file is damaged and nothing else.
func TestPowerCuts(t *testing.T) {
	cfg := inMemory(t)
	files, contents := images(t, cfg)
	rng, size, cuts, lost := filetest.Chance(t), os.Getpagesize(), 0, 0
	for i := range files[1:] {
		before, after := bytes.Clone(files[i]), files[i+1]
		before = append(before, make([]byte, max(0, len(after)-len(before)))...) // it grows first
		var data, meta []int
		for at := 0; at < len(after); at += size {
			switch same := bytes.Equal(before[at:at+size], after[at:at+size]); {
			case !same && at < 2*size:
				meta = append(meta, at)
			case !same:
				data = append(data, at)
			}
		}
		if len(meta) != 1 || len(data) == 0 {
			t.Fatalf("save %d changes the meta pages %v and the pages %v", i, meta, data)
		}
		orders := [][]int{data}
		for range 8 {
			shuffled := slices.Clone(data)
			rng.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
			orders = append(orders, shuffled)
		}
		for _, order := range orders {
			disk := bytes.Clone(before)
			for n := 0; n <= len(order); n++ {
				where := fmt.Sprintf("save %d, pages %v of %v", i, order[:n], order)
				if got := outcome(t, cfg, where, disk); got != contents[i] {
					t.Fatalf("%s: it has not what it had", where)
				}
				with := bytes.Clone(disk)
				copy(with[meta[0]:], after[meta[0]:meta[0]+size])
				switch got := outcome(t, cfg, where+" and the meta page", with); {
				case got == "" && n < len(order):
					lost++
				case got != contents[i+1]:
					t.Fatalf("%s and the meta page: it has not what was saved", where)
				}
				cuts += 2
				if n < len(order) { // half of the page first
					copy(disk[order[n]:], after[order[n]:order[n]+size/2])
					if got := outcome(t, cfg, where+" and a half", disk); got != contents[i] {
						t.Fatalf("%s and a half: it has not what it had", where)
					}
					copy(disk[order[n]:], after[order[n]:order[n]+size])
					cuts++
				}
			}
		}
	}
	t.Logf("%d cuts, %d lost pages found", cuts, lost)
	if cuts < 500 || lost == 0 {
		t.Error("the saves were not cut")
	}
}
