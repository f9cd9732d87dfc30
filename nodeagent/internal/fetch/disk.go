package fetch

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"go.uber.org/zap"

	"tandem.internal/nodeagent/internal/fetch/plan"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/workload"
)

// The store's directory:
//
//	copies/NAME       a verified copy; NAME is plan.Key.Name, so 64 hex digits
//	copies/NAME.json  a meta: what it is
//	copies/NAME.info  the info dictionary of the torrent that it is served as
//	parts/NAME        what has come of a copy
//	parts/NAME.json   an origin: where that is from
//	parts/NAME.plain  what is being decrypted; it takes the part's place when it is whole
//
// A copy is put there in this order: part, synced; part verified; meta; rename; directories synced. A
// crash before the rename leaves a meta alone, which means nothing, and a part.
const (
	copies   = "copies"
	parts    = "parts"
	asJSON   = ".json"
	asInfo   = ".info"
	asPlain  = ".plain"
	metaMost = 1 << 20 // bytes of a meta or an origin
)

// The steps that fetch has beside those of package durable.
const (
	stepProtect durable.Step = "protect" // a part is made read-only
	stepRemove  durable.Step = "remove"  // a file of the store is removed
	stepClear   durable.Step = "clear"   // a part is made empty
)

// meta is what is known about a copy.
type meta struct {
	Format int `json:"format"` // 1
	plan.Copy
	Modified time.Time `json:"modified"` // of the file, when it was verified last
}

// origin is where a part is from, and what proves that the rest still belongs to it.
type origin struct {
	Format       int      `json:"format"` // 1
	Key          plan.Key `json:"key"`
	URL          string   `json:"url"`
	ETag         string   `json:"etag,omitempty"`
	LastModified string   `json:"lastModified,omitempty"`
	Total        int64    `json:"total,omitzero"` // bytes of the whole; 0: not known
}

// disk is the store's directory.
type disk struct {
	dir     string
	steps   durable.Steps
	log     *zap.Logger
	digests bool // copies have plan.Copy.Digest

	mu       sync.Mutex
	modified map[plan.Key]time.Time // of copies, when they were verified last
}

func (d *disk) copyPath(k plan.Key) string { return filepath.Join(d.dir, copies, k.Name()) }
func (d *disk) partPath(k plan.Key) string { return filepath.Join(d.dir, parts, k.Name()) }

func (d *disk) before(s durable.Step) error {
	if d.steps == nil {
		return nil
	}
	return d.steps(s)
}

// there is what a scan finds.
type there struct {
	held, doubted []plan.Copy
	found         []string
	parts         map[plan.Key]int64
}

// scan makes the directories and finds out what is in them. It removes what cannot be used.
func (d *disk) scan() (there, error) {
	t := there{parts: map[plan.Key]int64{}}
	for _, dir := range []string{d.dir, filepath.Join(d.dir, copies), filepath.Join(d.dir, parts)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return t, err
		}
		info, err := os.Stat(dir)
		if err != nil {
			return t, err
		}
		// The keeper may have let users of slots pass.
		if err := os.Chmod(dir, 0o700|info.Mode().Perm()&0o011); err != nil {
			return t, err
		}
	}
	if err := d.scanCopies(&t); err != nil {
		return t, err
	}
	return t, d.scanParts(&t)
}

func (d *disk) scanCopies(t *there) error {
	return d.each(copies, func(name string, info fs.FileInfo) (keep bool) {
		m, err := readMeta(filepath.Join(d.dir, copies, name+asJSON), name)
		switch {
		case err != nil:
			d.log.Warn("a copy of a resource lies there and what is known about it cannot be read; it is verified if "+
				"it is wanted, else removed", zap.String("file", name), zap.Error(err))
			t.found = append(t.found, name)
		case info.Size() != m.Size || !info.ModTime().Equal(m.Modified):
			d.log.Warn("a copy of a resource is not as it was left; it is verified before it is used",
				zap.String("resource", string(m.Key)))
			t.doubted = append(t.doubted, m.Copy)
		case d.digests && m.Digest == "":
			t.doubted = append(t.doubted, m.Copy) // so it gets one
		default:
			d.modified[m.Key] = m.Modified
			t.held = append(t.held, m.Copy)
		}
		return true
	})
}

// scanParts keeps the parts whose content will be verified: without a checksum nothing would
// show what a power cut did to them.
func (d *disk) scanParts(t *there) error {
	return d.each(parts, func(name string, info fs.FileInfo) (keep bool) {
		o, err := readOrigin(filepath.Join(d.dir, parts, name+asJSON), name)
		if err != nil || strings.HasPrefix(string(o.Key), "uuid:") {
			return false
		}
		t.parts[o.Key] = info.Size()
		return true
	})
}

// each calls f with every file in a directory of the store that has a copy's name. All that
// belongs to no such file, or to one that f does not keep, is removed.
func (d *disk) each(sub string, f func(name string, info fs.FileInfo) (keep bool)) error {
	dir := filepath.Join(d.dir, sub)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	keep := map[string]bool{}
	for _, e := range entries {
		if !isName(e.Name()) || !e.Type().IsRegular() {
			continue
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		keep[e.Name()] = f(e.Name(), info)
	}
	for _, e := range entries {
		name := strings.TrimSuffix(strings.TrimSuffix(e.Name(), asJSON), asInfo)
		if keep[name] && e.Type().IsRegular() {
			continue
		}
		if err := d.before(stepRemove); err != nil {
			return err
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

func isName(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == 32 && s == strings.ToLower(s)
}

func readMeta(path, name string) (meta, error) {
	data, err := readSmall(path)
	if err != nil {
		return meta{}, err
	}
	return parseMeta(data, name)
}

func parseMeta(data []byte, name string) (meta, error) {
	var m meta
	if err := json.Unmarshal(data, &m, json.RejectUnknownMembers(true)); err != nil {
		return meta{}, err
	}
	algorithm, _, err := workload.ParseChecksum(m.Sum)
	switch {
	case m.Format != 1:
		return meta{}, fmt.Errorf("format %d is not known", m.Format)
	case m.Key.Name() != name:
		return meta{}, errors.New("it belongs to another copy")
	case err != nil:
		return meta{}, err
	case algorithm == workload.Empty || m.Size < 0:
		return meta{}, errors.New("it has no checksum or no size")
	}
	return m, nil
}

func readOrigin(path, name string) (origin, error) {
	data, err := readSmall(path)
	if err != nil {
		return origin{}, err
	}
	return parseOrigin(data, name)
}

func parseOrigin(data []byte, name string) (origin, error) {
	var o origin
	if err := json.Unmarshal(data, &o, json.RejectUnknownMembers(true)); err != nil {
		return origin{}, err
	}
	if o.Format != 1 || o.Key.Name() != name || o.Total < 0 {
		return origin{}, errors.New("it belongs to another part")
	}
	return o, nil
}

func readSmall(path string) ([]byte, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > metaMost {
		return nil, errors.New("it is no file, or too large")
	}
	return os.ReadFile(path)
}

// save writes down what is known about a copy.
func (d *disk) save(c plan.Copy) error {
	d.mu.Lock()
	modified := d.modified[c.Key]
	d.mu.Unlock()
	return d.write(d.copyPath(c.Key)+asJSON, meta{Format: 1, Copy: c, Modified: modified})
}

func (d *disk) write(path string, v any) error {
	data, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return err
	}
	return durable.WriteFile(path, data, 0o600, d.steps)
}

// verified remembers that the file of k was verified as it is now.
func (d *disk) verified(k plan.Key, modified time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.modified[k] = modified
}

// publish puts a part that was synced and verified into its place.
func (d *disk) publish(c plan.Copy) error {
	part := d.partPath(c.Key)
	if err := d.before(stepProtect); err != nil {
		return err
	}
	if err := os.Chmod(part, 0o555); err != nil {
		return err
	}
	info, err := os.Lstat(part)
	if err != nil {
		return err
	}
	d.verified(c.Key, info.ModTime())
	if err := d.save(c); err != nil {
		return err
	}
	if err := d.before(durable.Rename); err != nil {
		return err
	}
	if err := os.Rename(part, d.copyPath(c.Key)); err != nil {
		return err
	}
	if err := d.syncDirs(); err != nil {
		return err
	}
	return d.unlink(part + asJSON)
}

func (d *disk) syncDirs() error {
	for _, sub := range []string{copies, parts} {
		if err := d.before(durable.SyncDir); err != nil {
			return err
		}
		f, err := os.Open(filepath.Join(d.dir, sub))
		if err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// remove removes everything that has the name. The copy goes first: what is left of it after a crash
// means nothing.
func (d *disk) remove(name string) error {
	for _, path := range []string{filepath.Join(d.dir, copies, name), filepath.Join(d.dir, parts, name)} {
		for _, as := range []string{"", asJSON, asInfo, asPlain} {
			if err := d.unlink(path + as); err != nil {
				return err
			}
		}
	}
	return d.syncDirs()
}

// drop removes the part of a copy, that something else may be fetched in its place.
func (d *disk) drop(k plan.Key) error {
	return errors.Join(d.unlink(d.partPath(k)), d.unlink(d.partPath(k)+asJSON))
}

func (d *disk) unlink(path string) error {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := d.before(stepRemove); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
