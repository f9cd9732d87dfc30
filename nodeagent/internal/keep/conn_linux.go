package keep

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"tandem.internal/shared/wire"
)

// Limits of connections.
const (
	maxClients = 64
	askLimit   = 10 * time.Second // for a client to say what it wants
	tellLimit  = 30 * time.Second // for a client to read what it is told
)

// listener is the keeper's socket.
type listener struct{ *net.UnixListener }

// listen makes the socket anew: whoever has the lock has the directory.
func listen(dir string) (*listener, error) {
	path, release, err := socketPath(dir)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("keeper's socket: %w", err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("keeper's socket: %w", err)
	}
	l.SetUnlinkOnClose(false) // the next keeper may have made its own by then
	if err := os.Chmod(filepath.Join(dir, socketName), 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("keeper's socket: %w", err), l.Close())
	}
	return &listener{l}, nil
}

// accept lets clients in until the listener is closed.
func (k *keeper) accept(ctx context.Context, l *listener) {
	seats := make(chan struct{}, maxClients)
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			select { // out of file descriptors, say
			case <-ctx.Done():
				return
			case <-time.After(100 * time.Millisecond):
			}
			continue
		}
		if !k.welcome(conn) {
			_ = conn.Close()
			continue
		}
		select {
		case seats <- struct{}{}:
		default: // it asks again
			_ = conn.Close()
			continue
		}
		k.group.Go(func() {
			defer func() { <-seats }()
			k.attend(ctx, conn)
		})
	}
}

// attend serves one client.
func (k *keeper) attend(ctx context.Context, conn *net.UnixConn) {
	defer func() { _ = conn.Close() }() // whoever reads has all, or asks again
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if !k.come(1) {
		return
	}
	defer k.come(-1)
	for in := bufio.NewReader(conn); ; {
		if err := conn.SetDeadline(time.Now().Add(askLimit)); err != nil {
			return
		}
		var r request
		err := readMessage(in, &r)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			_ = k.write(conn, answer{Error: wire.New(wire.CodeMalformed, "", err.Error())}) // and hang up
			return
		case r.Op == opFollow:
			k.follow(conn, in)
			return
		case r.Op == opClear: // which may take long, and is nothing of the loop's
			if k.write(conn, answer{Error: remove(r.Dir)}) != nil {
				return
			}
			continue
		}
		a, ok := k.do(call{request: r})
		if !ok || k.write(conn, a) != nil {
			return
		}
		if r.Op == opQuit && a.Error == nil {
			<-k.closed // that is the answer
			return
		}
	}
}

// remove removes a directory for a client, which has the keeper's files for its own.
func remove(dir string) *wire.Error {
	if !filepath.IsAbs(dir) || filepath.Clean(dir) != dir || dir == "/" {
		return wire.New(wire.CodeInvalidArgument, "/dir", "the directory has to be an absolute path")
	}
	if err := RemoveAll(dir); err != nil {
		return wire.New(wire.CodeStorage, "", err.Error())
	}
	return nil
}

// come tells the loop that a client came or went.
func (k *keeper) come(n int) bool {
	select {
	case k.people <- n:
		return true
	case <-k.closed:
		return false
	}
}

// do has the loop answer a call; ok is false if the keeper ends.
func (k *keeper) do(c call) (a answer, ok bool) {
	c.answer = make(chan answer, 1)
	select {
	case k.calls <- c:
	case <-k.closed:
		return answer{}, false
	}
	select {
	case a = <-c.answer:
		return a, true
	case <-k.closed:
		return answer{}, false
	}
}

func (k *keeper) write(conn *net.UnixConn, a answer) error {
	a.Keeper = Keeper{Protocol: Protocol, Version: k.cfg.Version, PID: k.living.self, Users: k.cfg.Users.String()}
	if err := conn.SetWriteDeadline(time.Now().Add(tellLimit)); err != nil {
		return err
	}
	data, err := encodeMessage(a)
	if err != nil {
		return err
	}
	_, err = conn.Write(data)
	return err
}

// follower is a client that follows: what it has not been told yet, of each run the newest.
type follower struct {
	wake chan struct{} // has room for one

	mu   sync.Mutex
	news map[string]Status
}

func (f *follower) add(s Status) {
	f.mu.Lock()
	f.news[s.ID] = s
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// take takes what there is, by ID.
func (f *follower) take() (list []Status) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(f.news)) {
		list = append(list, f.news[id])
	}
	clear(f.news)
	return list
}

// follow tells a client of every run and each change, until it hangs up.
func (k *keeper) follow(conn *net.UnixConn, in io.Reader) {
	f := &follower{wake: make(chan struct{}, 1), news: map[string]Status{}}
	if _, ok := k.do(call{request: request{Op: opFollow}, follower: f}); !ok {
		return
	}
	defer func() { k.do(call{follower: f, leave: true}) }()
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return
	}
	gone := make(chan struct{})
	k.group.Go(func() {
		defer close(gone)
		_, _ = io.Copy(io.Discard, in) // it says nothing more; its end is what counts
	})
	defer func() {
		_ = conn.Close()
		<-gone
	}()
	for {
		select {
		case <-gone:
			return
		case <-k.closed:
			return
		case <-f.wake:
		}
		for page := range slices.Chunk(f.take(), pageSize) {
			if err := k.write(conn, answer{Status: page}); err != nil {
				return
			}
		}
	}
}

// call answers a request, in the loop.
func (k *keeper) call(c call) {
	var a answer
	switch r := c.request; {
	case c.leave:
		delete(k.followers, c.follower)
	case r.Op == opFollow:
		k.followers[c.follower] = struct{}{}
		for _, r := range k.runs {
			c.follower.add(r.now())
		}
	case r.Op == opHello:
	case r.Op == opList:
		a = k.list(r.After)
	case r.Op == opQuit:
		if a.Error = k.quit(r.Force); a.Error == nil && len(k.runs) > 0 {
			k.note("told to end")
		}
	case (r.Op == opStart || r.Op == opConfine || r.Op == opContain) && r.Run != nil:
		var s Status
		if s, a.Error = k.start(*r.Run); a.Error == nil {
			a.Status = []Status{s}
		}
	case r.Op == opGet || r.Op == opStop || r.Op == opSignal || r.Op == opForget:
		a = k.about(r)
	default:
		a.Error = wire.New(wire.CodeNotSupported, "", fmt.Sprintf("this keeper, of version %.40s, does "+
			"not know %.40q", k.cfg.Version, r.Op))
	}
	c.answer <- a
}

func (k *keeper) list(after string) (a answer) {
	for _, id := range slices.Sorted(maps.Keys(k.runs)) {
		if id <= after {
			continue
		}
		if len(a.Status) == pageSize {
			a.More = true
			break
		}
		a.Status = append(a.Status, k.runs[id].now())
	}
	return a
}

// about answers what is asked about one run.
func (k *keeper) about(q request) (a answer) {
	r := k.runs[q.ID]
	if r == nil {
		if q.Op != opForget {
			a.Error = wire.New(wire.CodeNotFound, "", fmt.Sprintf("there is no run %.*q", MaxID, q.ID))
		}
		return a
	}
	running := r.status.State == Running
	switch q.Op {
	case opStop:
		if q.Grace < 0 || q.Grace > MaxGrace {
			a.Error = wire.New(wire.CodeInvalidArgument, "", fmt.Sprintf("a run has 0 to %v to end", MaxGrace))
			return a
		}
		k.stop(r, CauseStop, q.Grace)
	case opSignal:
		switch {
		case q.Signal < 1 || q.Signal > maxSignal:
			a.Error = wire.New(wire.CodeInvalidArgument, "", fmt.Sprintf("%d is no signal", q.Signal))
		case !running || r.ending:
			a.Error = wire.New(wire.CodeWrongState, "", fmt.Sprintf("run %s has ended", q.ID))
		default:
			k.signal(r, syscall.Signal(q.Signal))
		}
		return a
	case opForget:
		if running {
			a.Error = wire.New(wire.CodeWrongState, "", fmt.Sprintf("run %s has not ended", q.ID))
			return a
		}
		if err := k.records.remove(q.ID); err != nil {
			a.Error = wire.New(wire.CodeStorage, "", "the run cannot be forgotten: "+err.Error())
			return a
		}
		delete(k.runs, q.ID)
		return a
	}
	a.Status = []Status{r.now()}
	return a
}
