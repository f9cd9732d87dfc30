package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"time"

	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// Key names a copy: sha256:hex or md5:hex of its content where a checksum was given, else uuid:text. Of one that comes
// encrypted it has the digest of that file, too: "sha256:hex encrypted sha256:hex".
type Key string

const (
	uuidPrefix = "uuid:"
	encrypted  = " encrypted "
)

// Name is the key's part of file names: 64 hex digits, whatever the key is made of.
func (k Key) Name() string {
	sum := sha256.Sum256([]byte(k))
	return hex.EncodeToString(sum[:])
}

// Spec is what is wanted of one copy, put together from all artifacts that are the same.
type Spec struct {
	Key    Key
	Sum    string   // ALGORITHM:hex; "": none is known
	URLs   []string // each once, in the order of the artifacts
	Size   int64    // bytes to reserve: the most that any artifact says
	Plain  int64    // bytes to reserve besides, where it comes encrypted: of its content
	Extra  int64    // bytes to reserve besides: what it takes when it is unpacked
	Cached bool
	// the file that its addresses lead to; nil: that is the content
	Encrypted *wire.Encrypted
	Period    time.Duration // between checks: the shortest; 0: none
	UUIDs     []string      // sorted
	order     int
}

// Specs are what is wanted. Make it with Join.
type Specs struct{ artifacts []workload.Artifact }

// Join keeps what is wanted until a State can say which artifacts are the same: it depends on what
// there is already.
func Join(artifacts []workload.Artifact) Specs { return Specs{slices.Clone(artifacts)} }

// KeyOf is the key that a's checksum makes, "" if it has none.
func KeyOf(a workload.Artifact) Key {
	algorithm, digest, err := workload.ParseChecksum(a.Verification.Checksum)
	if err != nil || algorithm == workload.Empty {
		return ""
	}
	k := strings.ToLower(algorithm) + ":" + hex.EncodeToString(digest)
	if a.Encrypted != nil {
		k += encrypted + a.Encrypted.Digest
	}
	return Key(k)
}

// sum is the checksum that the key is made of, as ALGORITHM:hex; "" if it is a uuid.
func (k Key) sum() string {
	content, _, _ := strings.Cut(string(k), encrypted)
	algorithm, digits, _ := strings.Cut(content, ":")
	if strings.HasPrefix(string(k), uuidPrefix) {
		return ""
	}
	return strings.ToUpper(algorithm) + ":" + digits
}

// join says which copies artifacts stand for, and which uuids of them are disputed: wanted with
// several checksums.
//
// A checksum is a key of its own. A uuid without one stands, in this order, for: the copy that it
// stood for until now; a copy that was fetched for it without a checksum; the only copy that is
// wanted with this uuid and a checksum; the only copy there is that was wanted with it once; else
// a copy that is still to be fetched. If several could be meant, it stands for none.
func (s State) join(artifacts []workload.Artifact) (specs map[Key]Spec, uuids map[string]Key,
	disputed map[string]bool) {
	sums := map[string][]Key{} // by uuid
	for _, a := range artifacts {
		if k := KeyOf(a); k != "" && a.UUID != "" && !slices.Contains(sums[a.UUID], k) {
			sums[a.UUID] = append(sums[a.UUID], k)
		}
	}
	specs, uuids, disputed = map[Key]Spec{}, map[string]Key{}, map[string]bool{}
	for uuid, keys := range sums {
		if len(keys) > 1 {
			disputed[uuid] = true
		}
	}
	for i, a := range artifacts {
		k := KeyOf(a)
		if k == "" {
			if a.UUID == "" {
				continue
			}
			known := false
			if k, known = uuids[a.UUID]; !known {
				k = s.standsFor(a.UUID, sums[a.UUID])
				uuids[a.UUID] = k
			}
			if k == "" {
				disputed[a.UUID] = true
				continue
			}
		}
		p, seen := specs[k]
		if !seen {
			p = Spec{Key: k, Sum: k.sum(), order: i}
		}
		for _, u := range a.URLs {
			if !slices.Contains(p.URLs, u) {
				p.URLs = append(p.URLs, u)
			}
		}
		size := a.Size
		if a.Encrypted != nil {
			if size = a.Encrypted.Size; size > p.Size {
				p.Encrypted = a.Encrypted
			}
			p.Plain = max(p.Plain, a.Size)
		}
		p.Size = max(p.Size, size)
		if a.Unpack != nil {
			p.Extra = max(p.Extra, a.Unpack.Size)
		}
		p.Cached = p.Cached || a.Cached
		if d := time.Duration(a.Verification.CheckPeriod); d > 0 && (p.Period == 0 || d < p.Period) {
			p.Period = d
		}
		if a.UUID != "" && !slices.Contains(p.UUIDs, a.UUID) {
			p.UUIDs = append(p.UUIDs, a.UUID)
		}
		specs[k] = p
	}
	for k, p := range specs {
		slices.Sort(p.UUIDs)
		specs[k] = p
	}
	return specs, uuids, disputed
}

// standsFor is the copy that a uuid without a checksum means, "" if that cannot be known. wanted are
// the keys that are wanted with the same uuid and a checksum.
func (s State) standsFor(uuid string, wanted []Key) Key {
	there := func(k Key) bool { it := s.items[k]; return (it.held || it.found) && it.busy != opRemove }
	own := Key(uuidPrefix + uuid)
	if k := s.uuids[uuid]; k != "" && there(k) {
		return k
	}
	if there(own) {
		return own
	}
	if len(wanted) == 1 {
		return wanted[0]
	}
	var once []Key
	for k, it := range s.items {
		if there(k) && slices.Contains(it.copy.UUIDs, uuid) {
			once = append(once, k)
		}
	}
	switch {
	case len(once) == 1:
		return once[0]
	case len(once) > 1, len(wanted) > 1:
		return ""
	}
	return own
}

// of is the key of an artifact that is wanted, "" if it has none.
func (s State) of(a workload.Artifact) Key {
	if k := KeyOf(a); k != "" {
		return k
	}
	return s.uuids[a.UUID]
}

// together is the sorted union of two lists of uuids, cut to maxUUIDs; those of b go first.
func together(a, b []string) []string {
	all := slices.Clone(b)
	for _, u := range a {
		if len(all) < maxUUIDs && !slices.Contains(all, u) {
			all = append(all, u)
		}
	}
	slices.Sort(all)
	return all[:min(len(all), maxUUIDs)]
}

// want takes over what is wanted from now on, and what is kept of the rest.
func (t *step) want(w, keep Specs) {
	specs, uuids, disputed := t.join(w.artifacts)
	spare, _, _ := t.join(keep.artifacts)
	t.uuids, t.disputed, t.known, t.wanted, t.keep = uuids, disputed, true, w, keep
	found := maps.Clone(t.found)
	t.found = nil
	for _, k := range t.keys() {
		it := t.items[k]
		p, kept := spare[k]
		_, wanted := specs[k]
		if it.kept = kept && !wanted; it.kept {
			it.spec, it.tries = p, make([]try, len(p.URLs))
		}
		if it.wanted && !wanted {
			it.wanted = false
			if it.held {
				it.copy.Used = t.now.At
				if it.spare() && it.busy != opRemove {
					t.save(it)
				}
			}
		}
		t.items[k] = it
	}
	for _, k := range slices.Sorted(maps.Keys(specs)) {
		it, p := t.items[k], specs[k]
		if found[k.Name()] && p.Sum != "" {
			delete(found, k.Name())
			it.found = true
			it.copy = Copy{Key: k, Sum: p.Sum, Used: t.now.At, Cached: p.Cached, UUIDs: p.UUIDs}
		}
		tries := make([]try, len(p.URLs))
		for i, u := range p.URLs {
			if j := slices.Index(it.spec.URLs, u); j >= 0 {
				tries[i] = it.tries[j]
			}
		}
		corrected := it.wanted && (it.spec.Size != p.Size || it.spec.Plain != p.Plain)
		it.spec, it.tries, it.wanted = p, tries, true
		if corrected {
			t.afresh(&it)
			it.late = it.busy == opFetch
		}
		t.items[k] = t.adopt(it)
	}
	for _, n := range slices.Sorted(maps.Keys(found)) {
		t.do(Discard{Name: n})
	}
}

// adopt brings what is saved beside a copy up to date with what is wanted of it.
func (t *step) adopt(it item) item {
	c := it.copy
	uuids := together(c.UUIDs, it.spec.UUIDs)
	if !it.held || it.busy == opRemove || c.Cached == it.spec.Cached && slices.Equal(c.UUIDs, uuids) {
		return it
	}
	it.copy.Cached, it.copy.UUIDs = it.spec.Cached, uuids
	t.save(it)
	return it
}

func (t *step) save(it item) { t.do(Save{Copy: it.copy}) }
