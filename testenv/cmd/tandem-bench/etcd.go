package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"tandem.internal/testenv/fleet"
)

// etcdSection does with etcd what a user would do with it instead: one watcher for each node's
// key, a writer that puts a document of 1 KiB for each, one by one or many in a transaction, and each watcher answers
// with a put of a status of 200 bytes; the clock stops when the last status is put, which etcd answers after its
// fsync. The watchers of all nodes share connections, which spares etcd most of what thousands of
// clients would cost it: each connection carries one watch stream and all its nodes' puts.
func etcdSection(b *session) error {
	path, version, err := b.findEtcd()
	if err != nil {
		fmt.Println("  SKIPPED:", err)
		return nil
	}
	fmt.Println("  measured is etcd", version)
	for _, n := range b.sizes {
		if err := b.etcdSize(path, version, n); err != nil {
			return fmt.Errorf("%d nodes: %w", n, err)
		}
	}
	return nil
}

// etcdConnections is how many connections the nodes share.
const etcdConnections = 64

// etcdBatch is how many documents are put in one transaction, in those rounds that do.
const etcdBatch = 16

type etcd struct {
	*program
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
	for i := range ports {
		at, err := freeAddress()
		if err != nil {
			return nil, err
		}
		ports[i] = "http://" + at
	}
	e := &etcd{}
	var err error
	if e.program, err = startProgram(dir, path, "--name", "bench", "--data-dir", filepath.Join(dir, "etcd"),
		"--listen-client-urls", ports[0], "--advertise-client-urls", ports[0], "--listen-peer-urls", ports[1],
		"--initial-advertise-peer-urls", ports[1], "--initial-cluster", "bench="+ports[1], "--log-level", "error",
		"--quota-backend-bytes", "4294967296"); err != nil {
		return nil, err
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
	return errors.Join(append(errs, e.kill())...)
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

// round puts a document for each node, so many in a transaction, and returns the seconds until every status is put.
func (e *etcd) round(ctx context.Context, n, batch int) (float64, error) {
	e.done = make(chan struct{})
	e.target.Store(e.seen.Load() + int64(n))
	document := string(make([]byte, documentSize))
	began := time.Now()
	var wg sync.WaitGroup
	const writers = 256 // puts under way: more gain nothing, fewer wait for single fsyncs
	for w := range writers {
		wg.Go(func() {
			for from := w * batch; from < n; from += writers * batch {
				var ops []clientv3.Op
				for i := from; i < min(n, from+batch); i++ {
					ops = append(ops, clientv3.OpPut("desired/"+fleet.Name(i), document))
				}
				if err := e.write(ctx, e.clients[w%len(e.clients)], ops); err != nil {
					e.failed.Store(&err)
					return
				}
			}
		})
	}
	wg.Wait()
	if err := e.failed.Load(); err != nil {
		return 0, *err
	}
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

// write puts one document by itself, and more in a transaction.
func (e *etcd) write(ctx context.Context, c *clientv3.Client, ops []clientv3.Op) error {
	if len(ops) == 1 {
		_, err := c.Do(ctx, ops[0])
		return err
	}
	_, err := c.Txn(ctx).Then(ops...).Commit()
	return err
}

func (b *session) etcdSize(path, version string, n int) (err error) {
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
	single, batched := &etcdRounds{etcd: e, batch: 1}, &etcdRounds{etcd: e, batch: etcdBatch}
	var ours []float64
	all := []func() error{
		func() error { return single.add(n) },
		func() error { return batched.add(n) },
		func() error {
			t, err := product.apply(true)
			ours = append(ours, t)
			return err
		},
	}
	for i := range b.pairs + 1 { // the first round is not counted: it fills caches and files
		for k := range all {
			if err := all[(i+k)%len(all)](); err != nil {
				return err
			}
		}
	}
	b.etcdFigures(single, batched, product, ours[1:], version)
	return nil
}

// etcdRounds are the rounds of one manner of putting documents.
type etcdRounds struct {
	*etcd
	batch      int
	times, cpu []float64 // seconds; µs of the server per node
}

func (r *etcdRounds) add(n int) error {
	before, err := r.processor()
	if err != nil {
		return err
	}
	ctx, cancel := patient()
	defer cancel()
	t, err := r.round(ctx, n, r.batch)
	if err != nil {
		return err
	}
	after, err := r.processor()
	r.times = append(r.times, t)
	r.cpu = append(r.cpu, float64((after-before).Nanoseconds())/1e3/float64(n))
	return err
}

func (b *session) etcdFigures(single, batched *etcdRounds, product *side, ours []float64, version string) {
	at := fmt.Sprintf("%d nodes", product.n)
	var p perNode
	for _, u := range product.used[1:] {
		p.add(u, product.n)
	}
	b.add(figure{Section: "etcd", Name: "product: apply, nodes not asked first, " + at, Unit: "s", Samples: ours})
	b.add(figure{Section: "etcd", Name: "product: processor time of the host, " + at, Unit: "µs/node",
		Samples: p.host})
	for _, r := range []struct {
		*etcdRounds
		how string
	}{{single, "put"}, {batched, fmt.Sprintf("transactions of %d puts", etcdBatch)}} {
		f := figure{Section: "etcd", Name: fmt.Sprintf("etcd: %s, watch, put of a status, %s", r.how, at), Unit: "s",
			Samples: r.times[1:]}
		f.Note = fmt.Sprintf("etcd %s, %d watchers over %d connections", version, product.n, etcdConnections)
		b.add(f)
		b.add(figure{Section: "etcd", Name: fmt.Sprintf("etcd: %s: processor time of the server, %s", r.how, at),
			Unit: "µs/node", Samples: r.cpu[1:]})
		b.add(figure{Section: "etcd", Name: fmt.Sprintf("etcd with %s over product, %s", r.how, at), Unit: "×",
			Samples: ratios(r.times[1:], ours), Note: "etcd " + version}.least(1.5))
	}
}
