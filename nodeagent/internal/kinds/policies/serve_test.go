package policies

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/nodeagent/internal/fetch"
	"tandem.internal/nodeagent/internal/policy"
)

const torrent = `"rbtorrent:0123456789abcdef0123456789abcdef01234567"`

// TestServes: a release that other nodes fetch by BitTorrent stays after it was staged, over restarts, as long as it is
// on offer; what is half there is not given up before it is known whether it is needed.
func TestServes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.serves = true
		body := strings.Replace(document(time.Now(), 0), `"https://c/a"`, `"https://c/a",`+torrent, 1)
		const one = "https://c/a SHA256:" + "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
		is := func(step, wants, keeps string) {
			t.Helper()
			if got := w.store.wants(); got != wants {
				t.Errorf("%s: wants %q", step, got)
			}
			if got := w.store.keepsFor(); got != keeps {
				t.Errorf("%s: keeps %q", step, got)
			}
		}
		w.start()
		w.desire(body)
		w.p.Updated(running)
		synctest.Wait()
		is("begun", one, one)
		if err := os.Mkdir(filepath.Join(w.dir, releasesDir), 0o700); err != nil {
			t.Fatal(err)
		}

		w.stop()
		w.start()
		w.desire(body)
		if opened, _ := w.has(); opened {
			t.Error("the store is opened before it is known what is needed")
		}
		w.p.Updated(running)
		synctest.Wait()
		is("restarted", one, one)
		w.answers(4, nil)
		w.store.set(fetch.Status{State: fetch.Ready, Path: "/x"})
		synctest.Wait()
		w.is("p initiated")
		is("staged", "", one)

		kept := policy.Update{Running: "1.1.0", Slots: true, Number: 4,
			Ended: []policy.Outcome{{Number: 4, Kept: true}}}
		w.restart(body, kept)
		w.is("p successful")
		is("new", "", one)
		plain := document(time.Now(), 0)
		w.desire(plain)
		is("not by BitTorrent any more", "", "")
		w.desire(body)
		is("again", "", one)
		w.desire(`{"formatVersion":"1"}`)
		is("no policy", "", "")

		w.serves = false
		w.restart(body, kept)
		if opened, _ := w.has(); opened {
			t.Error("who serves nothing opens the store")
		}
		w.stop()
	})
}
