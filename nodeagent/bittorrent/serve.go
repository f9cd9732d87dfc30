package bittorrent

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/anacrolix/torrent"
	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"tandem.internal/nodeagent/internal/fetch/plan"
	"tandem.internal/shared/workload"
)

// Offer serves what is kept and has a torrent: one that it was fetched by, or the plain one if that is
// among its addresses.
func (w *swarm) Offer(kept map[plan.Key][]string) {
	if w.Peers.Listen == "" {
		return
	}
	w.at.Lock()
	var drop []*torrent.Torrent
	for k, t := range w.served {
		if _, ok := kept[k]; !ok {
			delete(w.served, k)
			if t != nil {
				drop = append(drop, t)
			}
		}
	}
	for k := range w.tried {
		if _, ok := kept[k]; !ok {
			delete(w.tried, k)
		}
	}
	var add []plan.Key
	for k := range kept {
		if _, ok := w.served[k]; !ok {
			add = append(add, k)
		}
	}
	w.at.Unlock()
	for _, t := range drop {
		t.Drop()
	}
	for _, k := range add {
		info, err := w.host.Info(k)
		switch {
		case err == nil:
			w.serve(k, info)
		case errors.Is(err, fs.ErrNotExist):
			w.make(k, kept[k])
		default:
			w.host.Log.Warn("a resource is not served", zap.String("resource", string(k)), zap.Error(err))
			w.note(k, nil)
		}
	}
}

func (w *swarm) note(k plan.Key, t *torrent.Torrent) {
	w.at.Lock()
	defer w.at.Unlock()
	w.served[k] = t
}

func (w *swarm) serve(k plan.Key, info []byte) {
	client, err := w.open()
	if err != nil {
		w.host.Log.Warn("resources are not served; it is tried again", zap.Error(err))
		return
	}
	if client == nil {
		return
	}
	t, fresh := client.AddTorrentOpt(torrent.AddTorrentOpts{InfoHash: infoHash(info), InfoBytes: info,
		Storage: outlet(w.host.Copy(k)), DisallowDataDownload: true})
	if !fresh {
		return // it is just being fetched, or another copy is served as the same
	}
	w.note(k, t)
	w.host.Log.Info("a resource is served by BitTorrent", zap.String("resource", string(k)),
		zap.String("infoHash", t.InfoHash().HexString()))
}

// make makes the plain info dictionary of a copy, slowly, one at a time, if one of its addresses is
// that of a torrent.
func (w *swarm) make(k plan.Key, urls []string) {
	var hashes []string
	for _, u := range urls {
		if workload.IsTorrent(u) {
			if h, _, err := target(u); err == nil {
				hashes = append(hashes, h.HexString())
			}
		}
	}
	w.at.Lock()
	defer w.at.Unlock()
	if len(hashes) == 0 || w.busy || w.ended || w.tried[k] {
		return
	}
	w.busy, w.tried[k] = true, true
	w.making.Go(func() {
		if err := w.makePlain(k, hashes); err != nil && w.ctx.Err() == nil {
			w.host.Log.Warn("a resource cannot be prepared for being served", zap.String("resource", string(k)),
				zap.Error(err))
		}
		w.at.Lock()
		w.busy = false
		w.at.Unlock()
		w.host.OfferAgain()
	})
}

func (w *swarm) makePlain(k plan.Key, hashes []string) error {
	f, err := os.Open(w.host.Copy(k))
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	info, err := workload.PlainTorrent(&slowly{f, w.ctx, w.host.Slowly()}, st.Size())
	if err != nil {
		return err
	}
	got := infoHash(info).HexString()
	for _, h := range hashes {
		if h == got {
			return w.host.KeepInfo(k, info)
		}
	}
	return nil
}

// slowly reads no faster than a limit allows, and not after ctx has ended.
type slowly struct {
	f     *os.File
	ctx   context.Context
	limit *rate.Limiter
}

// ReadAt implements io.ReaderAt.
func (r *slowly) ReadAt(b []byte, off int64) (int, error) {
	for n := 0; n < len(b); n += r.limit.Burst() {
		if err := r.limit.WaitN(r.ctx, min(r.limit.Burst(), len(b)-n)); err != nil {
			return 0, err
		}
	}
	return r.f.ReadAt(b, off)
}
