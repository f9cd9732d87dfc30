package node

import (
	"bufio"
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/term"
)

// The details of events are shown as they are, not as text in text; what is ambiguous stays in quotes.
func TestLineOfAnAgentsLog(t *testing.T) {
	a := &command.App{Screen: &term.Screen{Zone: time.UTC, Now: func() time.Time { return time.Unix(0, 0) }}}
	for _, c := range [][2]string{
		{`{"time":"1970-01-01T00:00:01Z","level":"warn","msg":"event","detail":"{\"a\":\"b c\"}"}`,
			`00:00:01 warn  event detail={"a":"b c"}`},
		{`{"level":"warn","msg":"event","detail":"{cut \"off"}`, ` warn  event detail="{cut \"off"`},
		{`{"level":"info","msg":"x","text":"no session"}`, ` info  x text="no session"`},
	} {
		line, want := c[0], c[1]
		if got := logLine(a, line); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// An agent that says again and again that there is more keeps nobody.
func TestLogOfAnAgentEnds(t *testing.T) {
	var asked atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n := asked.Add(1)
		w.Header().Set("Content-Type", "application/json")
		if n <= 2*command.MaxLogPieces { // else the test would not end either
			fmt.Fprintf(w, `{"node":"n1","lines":["line %d"],"cursor":"c","level":"info","more":true}`, n)
		}
	}))
	defer s.Close()
	c, err := client.New(client.Options{URL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var out, warned bytes.Buffer
	a := &command.App{Screen: &term.Screen{Out: bufio.NewWriter(&out), Err: &warned}}
	in := op.NodeLogIn{NodeIn: op.NodeIn{Node: "n1"}}
	if err := printAgentLog(t.Context(), a, c, in, false); err != nil {
		t.Error(err)
	}
	last := fmt.Sprintf("line %d\n", command.MaxLogPieces)
	if n := asked.Load(); n != command.MaxLogPieces || !strings.HasSuffix(out.String(), last) ||
		!strings.Contains(warned.String(), "there is more") {
		t.Errorf("asked %d times: %q, %q", n, out.String(), warned.String())
	}
}
