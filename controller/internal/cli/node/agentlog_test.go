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

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/term"
)

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
