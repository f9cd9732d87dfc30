package node

import (
	"bufio"
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/kinds"
	"tandem.internal/controller/internal/term"
)

// Elsewhere than on a terminal a change that is not seen in its line has none; one of the health is seen.
func TestWatchHasNoLineTwice(t *testing.T) {
	row := func(health string) string {
		return `{"node":{"node":"n1","online":true,"inSync":true,"health":` + health + `}}` + "\n" + `{"complete":true}`
	}
	good, bad := `{"state":"ok","text":"ok"}`, `{"state":"check","text":"check disk"}`
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-ndjson")
		fmt.Fprintln(w, strings.Join([]string{row(good), row(good), row(bad), row(bad), row(good)}, "\n"))
	}))
	defer s.Close()
	c, err := client.New(client.Options{URL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var out bytes.Buffer
	a := &command.App{Kinds: kinds.All(), Screen: &term.Screen{Out: bufio.NewWriter(&out), Zone: time.UTC,
		Now: func() time.Time { return time.Unix(0, 0) }}}
	err = watchNodes(t.Context(), a, c, false)
	_, lines, _ := strings.Cut(out.String(), "1 in step\n")
	if n := strings.Count(lines, "\n"); n != 2 || !strings.Contains(lines, "; health: check disk\n") {
		t.Errorf("%d lines, %v: %s", n, err, out.String())
	}
}
