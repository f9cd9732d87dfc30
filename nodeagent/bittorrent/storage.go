package bittorrent

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"github.com/anacrolix/torrent/metainfo"
	"github.com/anacrolix/torrent/storage"

	"tandem.internal/nodeagent/internal/fetch"
	"tandem.internal/shared/wire"
)

// intake lets a torrent write into a part. It outlives the part: whatever the client does late comes to
// nothing.
type intake struct {
	part    *fetch.Pieces
	came    atomic.Int64  // bytes written
	judged  atomic.Int64  // times that a piece was
	changed chan struct{} // one slot: a piece has come
	trouble chan struct{} // closed when err is there

	mu      sync.RWMutex // held for reading while the part is used
	closed  bool
	once    sync.Once
	failure error

	state  sync.Mutex
	length int64
	pieces []byte // 0: not known, 1: wrong or missing, 2: right
	right  int
}

// newIntake lets the next torrent write into f, after one that had before; nil: the first.
func newIntake(f *fetch.Pieces, before *intake) *intake {
	in := &intake{part: f, changed: make(chan struct{}, 1), trouble: make(chan struct{})}
	if before != nil {
		before.state.Lock()
		in.length, in.pieces, in.right = before.length, before.pieces, before.right
		before.pieces = nil
		before.state.Unlock()
	}
	return in
}

func (in *intake) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed = true
}

func (in *intake) fail(err error) {
	in.once.Do(func() { in.failure = err; close(in.trouble) })
}

// err is why trouble is closed.
func (in *intake) err() error { return in.failure }

// tell fills the slot of changed.
func (in *intake) tell() {
	select {
	case in.changed <- struct{}{}:
	default:
	}
}

func (in *intake) whole() bool {
	in.state.Lock()
	defer in.state.Unlock()
	return in.pieces != nil && in.right == len(in.pieces)
}

// OpenTorrent judges the info dictionary, which proves to be the one that was asked for.
func (in *intake) OpenTorrent(_ context.Context, info *metainfo.Info, _ metainfo.Hash) (storage.TorrentImpl, error) {
	if err := in.begin(info); err != nil {
		in.fail(err)
		return storage.TorrentImpl{}, err
	}
	return storage.TorrentImpl{Piece: func(p metainfo.Piece) storage.PieceImpl { return intakePiece{in, p} },
		Close: func() error { return nil }}, nil
}

func (in *intake) begin(info *metainfo.Info) error {
	if info.IsDir() {
		return fetch.Wrong(wire.CodeNotSupported, "this torrent has several files; a resource is one: pack them")
	}
	in.mu.RLock()
	defer in.mu.RUnlock()
	if in.closed {
		return fetch.ErrStopped
	}
	there, err := in.part.Expect(info.TotalLength())
	if err != nil {
		return err
	}
	in.state.Lock()
	defer in.state.Unlock()
	if in.pieces == nil {
		in.length, in.pieces = info.TotalLength(), make([]byte, info.NumPieces())
		if there == 0 {
			for i := range in.pieces {
				in.pieces[i] = 1 // nothing to verify
			}
		}
	}
	in.tell()
	return nil
}

// mark notes what is known about a piece.
func (in *intake) mark(p metainfo.Piece, state byte) {
	in.judged.Add(1)
	in.state.Lock()
	i := p.Index()
	if i >= len(in.pieces) {
		in.state.Unlock()
		return // another torrent goes on with them
	}
	switch was := in.pieces[i]; {
	case was != 2 && state == 2:
		in.right++
		in.part.Verified(p.Length())
	case was == 2 && state != 2:
		in.right--
		in.part.Verified(-p.Length())
	}
	in.pieces[i] = state
	in.state.Unlock()
	in.tell()
}

type intakePiece struct {
	in *intake
	p  metainfo.Piece
}

func (p intakePiece) ReadAt(b []byte, off int64) (int, error) {
	p.in.mu.RLock()
	defer p.in.mu.RUnlock()
	if p.in.closed {
		return 0, os.ErrClosed
	}
	return p.in.part.ReadAt(b, p.p.Offset()+off)
}

func (p intakePiece) WriteAt(b []byte, off int64) (int, error) {
	p.in.mu.RLock()
	defer p.in.mu.RUnlock()
	if p.in.closed {
		return 0, os.ErrClosed
	}
	n, err := p.in.part.WriteAt(b, p.p.Offset()+off)
	p.in.came.Add(int64(n))
	if err != nil {
		p.in.fail(err)
	}
	return n, err
}

func (p intakePiece) MarkComplete() error    { p.in.mark(p.p, 2); return nil }
func (p intakePiece) MarkNotComplete() error { p.in.mark(p.p, 1); return nil }

func (p intakePiece) Completion() storage.Completion {
	p.in.state.Lock()
	defer p.in.state.Unlock()
	if p.p.Index() >= len(p.in.pieces) {
		return storage.Completion{}
	}
	state := p.in.pieces[p.p.Index()]
	return storage.Completion{Ok: state != 0, Complete: state == 2}
}

// outlet lets a torrent read a copy, by its path. A verified copy is right in every piece; who gets
// another one all the same notices it.
type outlet string

// OpenTorrent opens the copy for as long as it is served.
func (o outlet) OpenTorrent(_ context.Context, info *metainfo.Info, _ metainfo.Hash) (storage.TorrentImpl, error) {
	f, err := os.Open(string(o))
	if err != nil {
		return storage.TorrentImpl{}, err
	}
	if st, err := f.Stat(); err != nil || info.IsDir() || st.Size() != info.TotalLength() {
		return storage.TorrentImpl{}, errors.Join(errors.New("the torrent is of something else"), err, f.Close())
	}
	return storage.TorrentImpl{Piece: func(p metainfo.Piece) storage.PieceImpl { return outletPiece{f, p} },
		Close: f.Close}, nil
}

type outletPiece struct {
	f *os.File
	p metainfo.Piece
}

func (p outletPiece) ReadAt(b []byte, off int64) (int, error) {
	if most := p.p.Length() - off; int64(len(b)) > most {
		n, err := p.f.ReadAt(b[:max(most, 0)], p.p.Offset()+off)
		if err == nil {
			err = io.EOF
		}
		return n, err
	}
	return p.f.ReadAt(b, p.p.Offset()+off)
}

func (outletPiece) WriteAt([]byte, int64) (int, error) { return 0, os.ErrPermission }
func (outletPiece) MarkComplete() error                { return nil }
func (outletPiece) MarkNotComplete() error             { return nil }
func (outletPiece) Completion() storage.Completion {
	return storage.Completion{Ok: true, Complete: true}
}
