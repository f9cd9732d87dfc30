package api_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"tandem.internal/controller/internal/api"
	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/race"
	"tandem.internal/shared/wire"
)

// failing is a core whose journal neither shows entries nor takes remarks.
type failing struct {
	*apitest.Rig
	err error
}

func (f failing) Entries(context.Context, view.EntryFilter) ([]view.Entry, error) { return nil, f.err }
func (f failing) Remark(context.Context, view.Remark) error                       { return f.err }

func TestFailuresOfTheUnit(t *testing.T) {
	u := apitest.Start(t)
	for _, c := range []struct {
		err    error
		status int
		code   wire.Code
	}{
		{wire.New(wire.CodeUnavailable, "", "starting"), 503, wire.CodeUnavailable},
		{wire.New(wire.CodeStorage, "", "the disk is full"), 503, wire.CodeStorage},
		{fmt.Errorf("wrapped: %w", wire.New(wire.CodeNotFound, "", "gone")), 404, wire.CodeNotFound},
		{wire.New(wire.CodeNotAllowed, "", "no"), 403, wire.CodeNotAllowed},
		{wire.New(wire.CodeNoAnswer, "", "no"), 504, wire.CodeNoAnswer},
		{context.DeadlineExceeded, 504, wire.CodeTimeout},
		{errors.New("secret detail"), 500, wire.CodeInternal},
		{wire.New(wire.CodeInternal, "", "broken"), 500, wire.CodeInternal},
	} {
		core := failing{u, c.err} // which the API asks for events, and tells of tokens
		for request, operation := range map[string]api.Operation{
			"POST /v1/config":                apitest.Failing(apitest.Config.Apply, c.err),
			"POST /v1/config/confirm":        apitest.Failing(apitest.Config.Confirm, c.err),
			"POST /v1/config/restore":        apitest.Failing(apitest.Config.Restore, c.err),
			"POST /v1/config/retry":          apitest.Failing(apitest.Config.Retry, c.err),
			"POST /v1/config/rollback":       apitest.Failing(apitest.Config.RollBack, c.err),
			"GET /v1/config/status":          apitest.Failing(apitest.Config.Status, c.err),
			"GET /v1/config":                 apitest.Failing(apitest.Config.Show, c.err),
			"GET /v1/config/history":         apitest.Failing(apitest.Config.History, c.err),
			"GET /v1/config/resolved?node=n": apitest.Failing(op.ResolveConfig, c.err),
			"GET /v1/config/explain?node=n":  apitest.Failing(op.ExplainConfig, c.err),
			"GET /v1/nodes":                  apitest.Failing(op.ListNodes, c.err),
			"GET /v1/nodes/n":                apitest.Failing(op.ShowNode, c.err),
			"GET /v1/unit/status":            apitest.Failing(op.UnitStatus, c.err),
			"GET /v1/events?follow=1":        apitest.Failing(op.UnitStatus, c.err),
			"GET /v1/journal/verify":         apitest.Failing(op.VerifyJournal, c.err),
			"GET /v1/journal/trim":           apitest.Failing(op.TrimPlan, c.err),
			"POST /v1/tokens":                apitest.Failing(op.UnitStatus, c.err),
			"GET /v1/workloads/status":       apitest.Failing(apitest.Sets.Status, c.err),
			"GET /v1/workloads":              apitest.Failing(apitest.Sets.Show, c.err),
			"GET /v1/workloads/history":      apitest.Failing(apitest.Sets.History, c.err),
			"GET /v1/workloads/slots":        apitest.Failing(op.ListSlots, c.err),
			"GET /v1/nodes/n/slots/s/logs":   apitest.Failing(op.SlotLogs, c.err),
		} {
			h := api.New(apitest.Instead(core, operation), api.Config{Tokens: keys})
			verb, target, _ := strings.Cut(request, " ")
			body := ""
			switch request {
			case "POST /v1/config":
				body = "x"
			case "POST /v1/config/rollback":
				body = `{"version":"1.0.0","as":"2.0.0"}`
			case "POST /v1/tokens":
				body = `{"name":"new","role":"view"}`
			}
			w := call(h, verb, target, body)
			described(t, verb, target, w)
			if got := code(t, w.Body.Bytes()); w.Code != c.status || got != c.code {
				t.Errorf("%s, %v: status %d, code %s", request, c.err, w.Code, got)
			}
			if strings.Contains(w.Body.String(), "secret") {
				t.Errorf("%s tells what it must not: %s", request, w.Body)
			}
		}
	}
	h := api.New(u, api.Config{Tokens: keys})
	u.Disconnect("refused")
	if w := call(h, "GET", "/readyz", ""); w.Code != 503 {
		t.Errorf("ready without a broker: %s", w.Body)
	}
	if w := call(h, "GET", "/healthz", ""); w.Code != 200 {
		t.Errorf("not healthy without a broker: %s", w.Body)
	}
}

// A controller whose clock has jumped is not ready until somebody confirms it: it does not speak to the nodes.
func TestJumpedClockIsNotReady(t *testing.T) {
	u := apitest.Start(t)
	h := api.New(u, api.Config{Tokens: keys})
	confirm := func(status int) string {
		t.Helper()
		w := call(h, "POST", "/v1/clock/confirm", "")
		if w.Code != status {
			t.Errorf("confirm: %d %s", w.Code, w.Body)
		}
		return w.Body.String()
	}
	confirm(409)
	u.Jump(40 * 24 * time.Hour)
	if w := call(h, "GET", "/readyz", ""); w.Code != 503 || !strings.Contains(w.Body.String(), "clock has jumped") {
		t.Errorf("ready with a clock that has jumped: %d %s", w.Code, w.Body)
	}
	if w := call(h, "GET", "/v1/unit/status", ""); !strings.Contains(w.Body.String(), `"seconds":3456000`) ||
		!strings.Contains(w.Body.String(), "tandem clock confirm") {
		t.Errorf("status: %s", w.Body)
	}
	if body := confirm(200); !strings.Contains(body, `"seconds":3456000`) {
		t.Errorf("confirmed: %s", body)
	}
	if w := call(h, "GET", "/readyz", ""); w.Code != 200 {
		t.Errorf("not ready after it was confirmed: %s", w.Body)
	}
}

// refusing is a core that takes nothing at the moment.
type refusing struct{ *apitest.Rig }

func (refusing) Refusing() error {
	return wire.New(wire.CodeStorage, "", "the journal cannot be written: the disk is full")
}

// A controller whose disk is full is not ready, says why, and is healthy: a restart would not help.
func TestFullDiskIsNotReady(t *testing.T) {
	h := api.New(refusing{apitest.Start(t)}, api.Config{Tokens: keys})
	w := call(h, "GET", "/readyz", "")
	if body := w.Body.String(); w.Code != 503 || code(t, w.Body.Bytes()) != wire.CodeStorage ||
		!strings.Contains(body, "disk is full") {
		t.Errorf("ready with a full disk: %d %s", w.Code, w.Body)
	}
	if w := call(h, "GET", "/healthz", ""); w.Code != 200 {
		t.Errorf("not healthy with a full disk: %s", w.Body)
	}
	if w := call(h, "GET", "/v1/nodes", ""); w.Code != 200 {
		t.Errorf("the nodes cannot be read: %s", w.Body)
	}
}

func TestPanicIsAnswered(t *testing.T) {
	nodes := func(context.Context, op.NodesIn) (op.Nodes, error) { panic("told to") }
	h := api.New(apitest.Instead(apitest.Start(t), api.Bind(op.ListNodes, nodes)), api.Config{Tokens: keys})
	if w := call(h, "GET", "/v1/nodes", ""); w.Code != 500 || code(t, w.Body.Bytes()) != wire.CodeInternal {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestRefusalWithoutAReasonGetsOne(t *testing.T) {
	u, h := sample(t)
	u.Refuse("node-1", wire.New(wire.CodeBadValue, "/priority", "too high"))
	w := call(h, "POST", "/v1/config", string(apitest.Document("3.0.0")))
	var res view.Result
	if err := json.Unmarshal(w.Body.Bytes(), &res); err != nil {
		t.Fatal(err)
	}
	if w.Code != 409 || res.Error == nil || res.Error.Node != "node-1" || res.Checks.Agreed != 2 ||
		len(res.Checks.Refused) != 1 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// garbled is a core whose journal has an entry that is not JSON.
type garbled struct{ *apitest.Rig }

func (garbled) Entries(context.Context, view.EntryFilter) ([]view.Entry, error) {
	return []view.Entry{{Seq: 1, At: apitest.Now, Type: "report", Node: "n", Data: []byte("\xff{garbage")}}, nil
}

// pages is a core that notes how many bytes of entries it has returned at once.
type pages struct {
	*apitest.Rig
	most int
}

func (p *pages) Entries(ctx context.Context, f view.EntryFilter) ([]view.Entry, error) {
	all, err := p.Rig.Entries(ctx, f)
	size := 0
	for i := range all {
		size += len(all[i].Data)
	}
	p.most = max(p.most, size)
	return all, err
}

// TestLongEntries: however long entries are, all that are asked for are sent, in both directions, and as they come;
// never are more than some MiB of them in memory.
func TestLongEntries(t *testing.T) {
	if race.Enabled { // it would decode hundreds of MiB with it
		t.Skip("without the race detector")
	}
	core := &pages{Rig: apitest.Start(t)}
	const size, n = 1 << 20, 3*view.EntriesSize>>20 + 1
	for range n {
		if err := core.Remark(t.Context(), view.Remark{Text: strings.Repeat("x", size)}); err != nil {
			t.Fatal(err)
		}
	}
	h := api.New(core, api.Config{Tokens: keys})
	for query, want := range map[string]int{"": n, "&newest=1": n, "&limit=11": 11, "&newest=1&limit=11": 11,
		"&follow=1&limit=12": 12, "&after=1&newest=1": n} {
		w := call(h, "GET", "/v1/events?type=note"+query, "")
		got := strings.Split(strings.TrimSpace(w.Body.String()), "\n")
		last := uint64(0)
		for i, line := range got {
			var e view.Entry
			if err := json.Unmarshal([]byte(line), &e); err != nil || e.Type != "note" ||
				i > 0 && (e.Seq > last) == strings.Contains(query, "newest") {
				t.Errorf("%s: %v %.200s", query, err, line)
			}
			last = e.Seq
		}
		if len(got) != want {
			t.Errorf("%s: %d entries, want %d", query, len(got), want)
		}
	}
	if core.most > view.EntriesSize+2*size {
		t.Errorf("%d bytes at once", core.most)
	}
}

func TestEntriesThatAreNotJSON(t *testing.T) {
	core := garbled{apitest.Start(t)}
	h := api.New(core, api.Config{Tokens: keys})
	w := call(h, "GET", "/v1/events", "")
	var e view.Entry
	if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || e.Data.Kind() != '"' {
		t.Errorf("%v: %s", err, w.Body)
	}
}
