package fetch

import (
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"io/fs"
	"math"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/time/rate"

	"tandem.internal/nodeagent/internal/fetch/plan"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// failure is why an attempt failed.
type failure struct {
	kind  plan.Kind
	code  wire.Code
	why   string
	total int64         // bytes that the server said, if there is no room for them
	drop  bool          // the part is of no use
	after time.Duration // with plan.Later: when it may be asked again
}

func (f *failure) Error() string { return f.why }

// Passing is the error of an attempt at an address which may go well another time.
func Passing(code wire.Code, why string) error {
	return &failure{kind: plan.Passing, code: code, why: why}
}

// Wrong is the error of an attempt at an address which has something else. What has come of it is removed.
func Wrong(code wire.Code, why string) error {
	return &failure{kind: plan.Wrong, code: code, why: why, drop: true}
}

// never is the error of an attempt that has brought the file that was encrypted, which is of no use wherever it comes
// from. It stays, so that it need not come again.
func never(code wire.Code, why string) error {
	return &failure{kind: plan.Never, code: code, why: why}
}

// most is how many bytes a resource may have. What is announced need not be exact (seed 004, size),
// but what has nothing to do with it is cut off.
func (s *Store) most(reserve int64) int64 {
	if reserve <= 0 {
		return s.Most
	}
	return min(reserve, math.MaxInt64/4)*2 + 1<<20
}

// fetch makes one attempt at a copy.
func (s *Store) fetch(ctx context.Context, e plan.Fetch, p *progress) plan.Event {
	c, resumed, err := s.attempt(ctx, e, p)
	s.ledger.end(e.Key)
	if err == nil {
		return plan.Fetched{Copy: c}
	}
	s.ledger.end(unpacked(e.Key))
	f := classify(ctx, err)
	have := int64(0)
	if f.drop {
		if err := s.disk.drop(e.Key); err != nil && ctx.Err() == nil {
			f.why += "; and what has come of it cannot be removed: " + err.Error()
		}
	}
	if info, err := os.Lstat(s.disk.partPath(e.Key)); err == nil {
		have = info.Size()
	}
	return plan.Failed{Key: e.Key, Kind: f.kind, Have: have, Total: f.total, After: f.after, Resumed: resumed,
		Err: wire.New(f.code, "", shown(e.URL)+": "+f.why)}
}

// classify says what kind of failure an error is.
func classify(ctx context.Context, err error) *failure {
	var f *failure
	var path *fs.PathError
	switch {
	case ctx.Err() != nil:
		return &failure{kind: plan.Stopped, code: wire.CodeInterrupted, why: "it was stopped"}
	case errors.As(err, &f):
		return f
	case full(err):
		return &failure{kind: plan.Full, code: wire.CodeStorage, why: err.Error(), drop: true}
	case errors.Is(err, errMost):
		return &failure{kind: plan.Wrong, code: wire.CodeTooLarge, why: err.Error() + "; correct its size", drop: true}
	case errors.As(err, &path), errors.As(err, new(syscall.Errno)):
		return &failure{kind: plan.Passing, code: wire.CodeStorage, why: "the disk: " + err.Error()}
	}
	return &failure{kind: plan.Passing, code: wire.CodeStorage, why: err.Error()}
}

// attempt fetches, verifies and publishes a copy. resumed tells that a part that was there was used.
func (s *Store) attempt(ctx context.Context, e plan.Fetch, p *progress) (c plan.Copy, resumed bool, err error) {
	content := e.Sum
	if e.Encrypted != nil {
		if s.Decrypt == nil {
			return c, false, Passing(wire.CodeNotSupported, "it is encrypted, and this node has no key to read it "+
				"with: give the full agent one with --decrypt-key")
		}
		e.Sum = workload.SHA256 + ":" + strings.TrimPrefix(e.Encrypted.Digest, wire.HashPrefix)
		s.ledger.reserve(decrypted(e.Key), e.Plain)
		defer s.ledger.end(decrypted(e.Key))
	}
	f, err := s.openPart(e.Key, s.most(e.Reserve), p)
	if err != nil {
		return c, false, err
	}
	defer f.file.Close() // what was written is synced before it counts
	info, err := f.file.Stat()
	if err != nil {
		return c, false, err
	}
	s.ledger.reserve(e.Key, e.Reserve-info.Size())
	if e.Extra > 0 {
		s.ledger.reserve(unpacked(e.Key), e.Extra)
	}
	there, err := s.there(ctx, e, f, info.Size())
	if err != nil {
		return c, false, err
	}
	var early string // checksum of what came, if all of it passed by
	var page bool
	var dict []byte
	switch scheme, _, _ := strings.Cut(e.URL, ":"); {
	case there: // since it was of no use at the last attempt
	case scheme == workload.SchemeHTTP, scheme == workload.SchemeHTTPS:
		resumed, early, page, err = s.download(ctx, e, f)
	case scheme == workload.SchemeRBTorrent, scheme == workload.SchemeMagnet:
		resumed = info.Size() > 0
		if s.swarm == nil {
			err = Passing(wire.CodeNotSupported, "this agent is built without BitTorrent: use an http or https URL, "+
				"or the full agent")
			break
		}
		dict, err = s.swarm.Fetch(ctx, e.URL, &Pieces{f})
	default:
		err = Passing(wire.CodeNotSupported, "http, https, rbtorrent and magnet are what can be fetched")
	}
	if err != nil {
		return c, resumed, err
	}
	if early != "" && early != e.Sum {
		return c, resumed, mismatch(e.Sum, early, page)
	}
	p.verifying.Store(true)
	defer p.verifying.Store(false)
	if err := f.sync(); err != nil {
		return c, resumed, err
	}
	c = e.Copy
	if c.Sum, c.Digest, c.Size, err = s.checksum(ctx, f.file, e.Sum, nil); err != nil {
		return c, resumed, err
	}
	if e.Sum != "" && c.Sum != e.Sum {
		return c, resumed, mismatch(e.Sum, c.Sum, page)
	}
	if e.Encrypted != nil {
		if c.Sum, c.Digest, c.Size, err = s.decrypt(ctx, e, f, c.Size, content); err != nil {
			return c, resumed, err
		}
	}
	c.Checked = s.Now()
	if dict != nil {
		if err := s.disk.writeInfo(e.Key, dict); err != nil {
			return c, resumed, err
		}
	}
	return c, resumed, s.disk.publish(c)
}

func mismatch(want, got string, page bool) error {
	why := "what came has the checksum " + got + ", not " + want
	if page {
		why += "; the server calls it a web page"
	}
	return Wrong(wire.CodeHashMismatch, why)
}

// digest returns the hash that a checksum is made with, and its name. "" stands for SHA256.
func digest(sum string) (hash.Hash, string) {
	if strings.HasPrefix(sum, workload.MD5+":") {
		return md5.New(), workload.MD5
	}
	return sha256.New(), workload.SHA256
}

// checksum reads all of f and returns its checksum, made as like is, its digest if publishers have to sign, and its
// length. It reads no faster than limit allows; nil: as fast as it can.
func (s *Store) checksum(ctx context.Context, f io.ReaderAt, like string, limit *rate.Limiter) (sum, signed string,
	size int64, err error) {
	h, algorithm := digest(like)
	second, both := s.digesting(h)
	buf := make([]byte, burst)
	for {
		if err := ctx.Err(); err != nil {
			return "", "", 0, err
		}
		n, err := f.ReadAt(buf, size)
		both.Write(buf[:n]) // to hashes, which take all
		size += int64(n)
		if errors.Is(err, io.EOF) {
			if second != nil {
				signed = hex.EncodeToString(second.Sum(nil))
			}
			return algorithm + ":" + hex.EncodeToString(h.Sum(nil)), signed, size, nil
		}
		if err != nil {
			return "", "", 0, err
		}
		if limit != nil {
			if err := limit.WaitN(ctx, n); err != nil {
				return "", "", 0, err
			}
		}
	}
}

// check verifies what lies in a copy's place.
func (s *Store) check(ctx context.Context, e plan.Check) plan.Checked {
	done := plan.Checked{Key: e.Copy.Key, Copy: e.Copy}
	damaged := func(why string) plan.Checked {
		done.Outcome, done.Err = plan.Damaged, wire.New(wire.CodeHashMismatch, "", "the copy on the disk "+why+
			"; it is fetched again")
		return done
	}
	unsure := func(err error) plan.Checked {
		done.Outcome, done.Err = plan.Unsure, wire.New(wire.CodeStorage, "", "the copy on the disk cannot be checked: "+
			err.Error())
		return done
	}
	path := s.disk.copyPath(e.Copy.Key)
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return damaged("is gone")
	case errors.Is(err, syscall.ELOOP):
		return damaged("is a link")
	case err != nil:
		return unsure(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return unsure(err)
	}
	if !info.Mode().IsRegular() {
		return damaged("is no file")
	}
	var limit *rate.Limiter
	if !e.Urgent {
		limit = NewLimiter(s.Recheck)
	}
	sum, signed, size, err := s.checksum(ctx, f, e.Copy.Sum, limit)
	switch {
	case errors.Is(err, syscall.EIO):
		return damaged("cannot be read: " + err.Error())
	case err != nil:
		return unsure(err)
	case sum != e.Copy.Sum:
		return damaged("has the checksum " + sum + ", not " + e.Copy.Sum)
	}
	if info.Mode().Perm() != 0o555 {
		if err := f.Chmod(0o555); err != nil {
			return unsure(err)
		}
	}
	s.disk.verified(e.Copy.Key, info.ModTime())
	done.Outcome, done.Copy.Size, done.Copy.Digest = plan.Sound, size, signed
	return done
}

// shown is a URL as logs and reports may have it: without its query, which may be a secret.
func shown(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return "the URL"
	}
	if u.Scheme != workload.SchemeMagnet && u.RawQuery != "" {
		u.RawQuery = "…"
	}
	u.User, u.Fragment = nil, ""
	if text := u.String(); len(text) <= 200 {
		return text
	}
	return u.String()[:200] + "…"
}
