package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"tandem.internal/testenv/fleet"
)

// etcdSection does with etcd what a user would do with it instead: one watcher for each node's
// key, a writer that puts a document of 1 KiB for each, and each watcher answers with a put of a
// status of 200 bytes; the clock stops when the last status is put, which etcd answers after its
// fsync. The watchers of all nodes share connections, which spares etcd most of what thousands of
// clients would cost it: each connection carries one watch stream and all its nodes' puts.
func etcdSection(b *session) error {
	path, err := etcdBinary()
	if err != nil {
		fmt.Println("  skipped:", err)
		return nil
	}
	for _, n := range b.sizes {
		if err := b.etcdSize(path, n); err != nil {
			return fmt.Errorf("%d nodes: %w", n, err)
		}
	}
	return nil
}

// etcdBinary finds etcd, and installs Debian's if this is root.
func etcdBinary() (string, error) {
	if path, err := exec.LookPath("etcd"); err == nil {
		return path, nil
	}
	if u, err := user.Current(); err == nil && u.Uid == "0" {
		if apt, err := exec.LookPath("apt-get"); err == nil {
			if out, err := exec.Command(apt, "install", "-y", "-q", "etcd-server").CombinedOutput(); err != nil {
				return "", fmt.Errorf("installing etcd-server: %w: %.300s", err, out)
			}
			return exec.LookPath("etcd")
		}
	}
	return "", errors.New("no etcd here: apt-get install etcd-server")
}

// etcdConnections is how many connections the nodes share.
const etcdConnections = 64

type etcd struct {
	cmd     *exec.Cmd
	log     *os.File
	clients []*clientv3.Client
	seen    atomic.Int64
	target  atomic.Int64
	done    chan struct{}
	failed  atomic.Pointer[error]
	wg      sync.WaitGroup
	stop    context.CancelFunc
}

func startEtcd(path, dir string) (*etcd, error) {
	var ports [2]string
	for i := range ports { // free now, and hopefully still in a moment
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		ports[i] = "http://" + l.Addr().String()
		if err := l.Close(); err != nil {
			return nil, err
		}
	}
	e := &etcd{}
	var err error
	if e.log, err = os.Create(filepath.Join(dir, "etcd.log")); err != nil {
		return nil, err
	}
	e.cmd = exec.Command(path, "--name", "bench", "--data-dir", filepath.Join(dir, "etcd"), "--listen-client-urls",
		ports[0], "--advertise-client-urls", ports[0],
		"--listen-peer-urls", ports[1], "--initial-advertise-peer-urls", ports[1], "--initial-cluster", "bench="+
			ports[1], "--log-level", "error", "--quota-backend-bytes", "4294967296")
	e.cmd.Stderr, e.cmd.Stdout = e.log, e.log
	if err := e.cmd.Start(); err != nil {
		return nil, errors.Join(err, e.log.Close())
	}
	for range etcdConnections {
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{ports[0]}, DialTimeout: 10 * time.Second,
			Logger: zap.NewNop()})
		if err != nil {
			return nil, errors.Join(err, e.close())
		}
		e.clients = append(e.clients, c)
	}
	ctx, cancel := patient()
	defer cancel()
	if _, err := e.clients[0].Get(ctx, "up"); err != nil {
		return nil, errors.Join(err, e.close())
	}
	return e, nil
}

func (e *etcd) close() error {
	if e.stop != nil {
		e.stop()
	}
	e.wg.Wait()
	var errs []error
	for _, c := range e.clients {
		errs = append(errs, c.Close())
	}
	errs = append(errs, e.cmd.Process.Kill())
	_ = e.cmd.Wait() // it says that it was killed
	return errors.Join(append(errs, e.log.Close())...)
}

// watch starts a node: its watch, and its answers.
func (e *etcd) watch(ctx context.Context, c *clientv3.Client, name string, ready *sync.WaitGroup) {
	status := make([]byte, statusSize)
	changes := c.Watch(ctx, "desired/"+name, clientv3.WithCreatedNotify())
	for r := range changes {
		if r.Created {
			ready.Done()
			continue
		}
		for range r.Events {
			if _, err := c.Put(ctx, "reported/"+name, string(status)); err != nil {
				if ctx.Err() == nil {
					e.failed.Store(&err)
				}
				return
			}
			if e.seen.Add(1) == e.target.Load() {
				close(e.done)
			}
		}
	}
}

// round puts a document for each node and returns the seconds until every status is put.
func (e *etcd) round(ctx context.Context, n int) (float64, error) {
	e.done = make(chan struct{})
	e.target.Store(e.seen.Load() + int64(n))
	document := string(make([]byte, documentSize))
	began := time.Now()
	var wg sync.WaitGroup
	const writers = 256 // puts under way: more gain nothing, fewer wait for single fsyncs
	for w := range writers {
		wg.Go(func() {
			for i := w; i < n; i += writers {
				if _, err := e.clients[w%len(e.clients)].Put(ctx, "desired/"+fleet.Name(i), document); err != nil {
					e.failed.Store(&err)
					return
				}
			}
		})
	}
	wg.Wait()
	select {
	case <-e.done:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if err := e.failed.Load(); err != nil {
		return 0, *err
	}
	return time.Since(began).Seconds(), nil
}

func (b *session) etcdSize(path string, n int) (err error) {
	dir, err := b.folder()
	if err != nil {
		return err
	}
	e, err := startEtcd(path, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.close()) }()
	ctx, cancel := context.WithCancel(context.Background())
	e.stop = cancel
	var ready sync.WaitGroup
	for i := range n {
		ready.Add(1)
		e.wg.Go(func() { e.watch(ctx, e.clients[i%len(e.clients)], fleet.Name(i), &ready) })
	}
	ready.Wait()
	product, err := b.side(hostConfig{Role: "product", Listen: "127.0.0.1:0"}, n, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, product.close()) }()
	var etcds, ours []float64
	for i := range b.pairs + 1 {
		wait, done := patient()
		t, err := e.round(wait, n)
		done()
		if err != nil {
			return err
		}
		off, err := product.apply(true)
		if err != nil {
			return err
		}
		if i > 0 {
			etcds, ours = append(etcds, t), append(ours, off)
		}
	}
	at := fmt.Sprintf("%d nodes", n)
	f := figure{Section: "etcd", Name: "etcd: put, watch, put of a status, " + at, Unit: "s", Samples: etcds}
	f.Note = fmt.Sprintf("%d watchers over %d connections", n, etcdConnections)
	b.add(f)
	b.add(figure{Section: "etcd", Name: "product: apply, nodes not asked first, " + at, Unit: "s", Samples: ours})
	b.add(figure{Section: "etcd", Name: "etcd over product, " + at, Unit: "×", Samples: ratios(etcds, ours)}.least(1.5))
	return nil
}
