package proc

import (
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"

	controller "tandem.internal/controller/app"
)

// receiver takes notices at an address, which nobody listens at until it is opened.
type receiver struct {
	address string

	mu    sync.Mutex
	ids   []string // in the order in which they came
	seqs  []string
	fails int // so many requests are taken and not answered
}

func (r *receiver) open(t *testing.T) (shut func()) {
	t.Helper()
	l, err := net.Listen("tcp", r.address)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: r}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	return func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		<-done // it says that it was closed
	}
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	var e struct {
		ID       string `json:"id"`
		Sequence string `json:"sequence"`
	}
	if err != nil || json.Unmarshal(body, &e) != nil || e.ID != q.Header.Get("webhook-id") {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ids, r.seqs = append(r.ids, e.ID), append(r.seqs, e.Sequence)
	if r.fails > 0 {
		r.fails--
		panic(http.ErrAbortHandler)
	}
}

func (r *receiver) got() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.ids)
}

// TestReceiverDownAcrossARestart: a receiver of notices is down while the controller is killed, and while it comes
// back. Everything arrives, in order, each once; what was taken without an answer comes again, and is the same. The
// secret and the address's path are nowhere but in their file.
func TestReceiverDownAcrossARestart(t *testing.T) {
	t.Parallel()
	u := NewUnit(t)
	r := &receiver{address: "127.0.0.1:" + strconv.Itoa(Port(t))}
	u.StartController()
	shut := r.open(t)
	o := u.Tandem("notify", "add", "keeper", "http://"+r.address+"/planted-path?planted-query", "--type",
		"accepted,opened", "--json")
	var grant struct {
		Secret string `json:"secret"`
	}
	if err := json.Unmarshal([]byte(o.Out), &grant); err != nil || grant.Secret == "" {
		t.Fatalf("%+v %v", o, err)
	}
	version := 0
	apply := func(n int) {
		for range n {
			version++
			v := "1.0." + strconv.Itoa(version)
			if res, err := u.Submit(Document(v, version), ""); err != nil || res.State != "accepted" {
				t.Fatalf("%s: %+v %v", v, res, err)
			}
		}
	}
	arrived := func(n int) {
		Until(t, strconv.Itoa(n)+" notices have arrived", func() string {
			if got := r.got(); len(got) < n {
				return strconv.Itoa(len(got))
			}
			return ""
		})
	}
	apply(3)
	arrived(3)
	cursorSaved(u)
	shut()
	apply(3)
	Until(t, "it fails", func() string { return strings.TrimPrefix(cursor(u).State, "failing") })
	u.Controller.Kill()
	u.StartController()
	apply(3)
	if o := u.Tandem("notify", "test", "keeper"); o.Status != 1 || !strings.Contains(o.Errors, "nobody listens at") {
		t.Errorf("%+v", o)
	}
	u.Controller.Kill()
	u.StartController()
	shut = r.open(t)
	defer func() { shut() }()
	arrived(11) // nine versions, and two starts
	apply(1)
	arrived(12)
	got := r.got()
	if once := slices.Compact(slices.Sorted(slices.Values(got))); len(got) != 12 || len(once) != 12 {
		t.Errorf("%d notices, %d of them different: %v", len(got), len(once), got)
	}
	if !slices.IsSorted(r.seqs) {
		t.Errorf("not in order: %v", r.seqs)
	}

	// Two requests that are taken and not answered.
	r.mu.Lock()
	r.fails = 2
	r.mu.Unlock()
	apply(2)
	arrived(16)
	if got = r.got()[12:]; got[0] != got[1] || got[1] != got[2] || got[3] == got[0] || len(got) != 4 {
		t.Errorf("after answers that were lost: %v", got)
	}
	noneShown(u, "planted-", grant.Secret, strings.TrimPrefix(grant.Secret, "whsec_"))
}

// cursor is how far the receiver has come.
func cursor(u *Unit) controller.NoticeReceiver {
	u.t.Helper()
	v, err := Get[controller.NoticeReceiver](u, "/v1/notices/keeper")
	if err != nil {
		u.t.Fatal(err)
	}
	return v
}

// cursorSaved waits until the disk has how far the receiver has come.
func cursorSaved(u *Unit) {
	u.t.Helper()
	Until(u.t, "the cursor is on the disk", func() string {
		text, err := os.ReadFile(filepath.Join(u.StateDir("controller"), "notice-keeper.json"))
		if err != nil {
			return err.Error()
		}
		if want := `"seq":` + strconv.FormatUint(cursor(u).Cursor, 10) + `,`; !strings.Contains(string(text), want) {
			return string(text)
		}
		return ""
	})
}

// noneShown looks for secrets in what commands and the log show, and in the journal.
func noneShown(u *Unit, secrets ...string) {
	u.t.Helper()
	text := u.Tandem("notify", "show", "keeper").Out + u.Tandem("notify", "list", "--json").Out +
		u.Tandem("events").Out + u.Tandem("unit", "status", "--json").Out + u.Controller.Log()
	journal, err := os.ReadFile(filepath.Join(u.StateDir("controller"), "journal.db"))
	if err != nil {
		u.t.Fatal(err)
	}
	for _, secret := range secrets {
		if strings.Contains(text, secret) {
			u.t.Errorf("%s is shown", secret)
		}
		if strings.Contains(string(journal), secret) {
			u.t.Errorf("%s is in the journal", secret)
		}
	}
}
