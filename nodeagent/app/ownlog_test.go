package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"tandem.internal/shared/runlog"
	"tandem.internal/shared/wire"
)

// logged is what an agent has logged, and may go on logging.
type logged struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// logging gives the agent a log that obeys its level.
func (r *rig) logging() *logged {
	out := &logged{}
	r.deps.Level = runlog.NewLevel(zap.InfoLevel, nil)
	r.deps.Log = zap.New(zapcore.NewCore(runlog.Encoder(), zapcore.AddSync(out), r.deps.Level))
	return out
}

// agentLog asks for a piece of the agent's log.
func (r *rig) agentLog(p wire.AgentLogParams) *wire.AgentLog {
	r.Helper()
	reply := r.request(wire.MethodAgentLog, wire.Encode(&p))
	if reply.Error != nil {
		r.Fatal(reply.Error)
	}
	return decode[wire.AgentLog](r, reply.Result)
}

// The agent shows its log piece by piece, and says what of it is gone.
func TestOwnLog(t *testing.T) {
	bubble(t, func(r *rig) {
		r.logging()
		r.start()
		all := r.agentLog(wire.AgentLogParams{})
		if len(all.Lines) < 3 || all.Level != "info" || !all.Until.IsZero() || all.More || all.Lost > 0 ||
			all.Restarted {
			t.Fatalf("%+v", all)
		}
		if !strings.Contains(all.Lines[0], `"msg":"node agent started"`) {
			t.Errorf("the first line is %s", all.Lines[0])
		}
		two := r.agentLog(wire.AgentLogParams{Lines: 2})
		if len(two.Lines) != 2 || two.Lines[1] != all.Lines[len(all.Lines)-1] {
			t.Errorf("the last two of %q are %q", all.Lines, two.Lines)
		}
		none := r.agentLog(wire.AgentLogParams{Cursor: two.Cursor})
		if len(none.Lines) != 0 || none.Cursor != two.Cursor {
			t.Errorf("nothing was written, and there is %+v", none)
		}
		r.desire(doc(1, 1))
		next := r.agentLog(wire.AgentLogParams{Cursor: two.Cursor})
		if text := strings.Join(next.Lines, "\n"); !strings.Contains(text, `"state":"installed"`) ||
			!strings.Contains(text, `"kind":"config"`) || !strings.Contains(text, `"rev":1`) {
			t.Errorf("what came since: %s", text)
		}
		if errors := r.agentLog(wire.AgentLogParams{Level: "error"}); len(errors.Lines) != 0 {
			t.Errorf("errors: %q", errors.Lines)
		}
		boot, _, _ := strings.Cut(two.Cursor, ":")
		for params, path := range map[string]string{
			`{"cursor":"` + boot + `:x"}`: "/params/cursor", `{"level":"loud"}`: "/params/level",
			`{"lines":1001}`: "/params/lines", `{"lines":1,"cursor":"a:1"}`: "/params/lines",
		} {
			if e := r.request(wire.MethodAgentLog, []byte(params)).Error; e == nil || e.Path != path {
				t.Errorf("%s: %v", params, e)
			}
		}
		r.restart()
		if again := r.agentLog(wire.AgentLogParams{Cursor: next.Cursor}); !again.Restarted || len(again.Lines) == 0 ||
			!strings.Contains(again.Lines[0], `"msg":"node agent started"`) {
			t.Errorf("after a restart: %+v", again)
		}
	})
}

// A piece is bounded, and what does not fit follows; the answers that are kept for repeated requests are, too.
func TestOwnLogInPieces(t *testing.T) {
	bubble(t, func(r *rig) {
		r.logging()
		r.cfg.OnApply = "" // nothing but the documents is logged
		r.start()
		start := r.agentLog(wire.AgentLogParams{})
		for rev := range uint64(150) {
			r.desire(doc(1, rev+1))
		}
		count, cursor, lost := 0, start.Cursor, uint64(0)
		for more := true; more; {
			p := r.agentLog(wire.AgentLogParams{Cursor: cursor})
			size := 0
			for _, l := range p.Lines {
				size += len(l)
			}
			if size > wire.MaxAgentLog || p.More && size < wire.MaxAgentLog/2 {
				t.Errorf("a piece has %d bytes", size)
			}
			count, cursor, more, lost = count+len(p.Lines), p.Cursor, p.More, lost+p.Lost
		}
		shown := uint64(count + len(start.Lines))
		if _, total, _ := strings.Cut(cursor, ":"); fmt.Sprint(shown+lost) != total || lost == 0 {
			t.Errorf("%d lines were shown and %d lost, of %s", shown, lost, total)
		}
	})
}

func TestAnswersAreBounded(t *testing.T) {
	s := newAnswers()
	for n := range 100 {
		s.add(fmt.Sprint(n), bytes.Repeat([]byte("x"), 20<<10))
		s.add(fmt.Sprint(n), bytes.Repeat([]byte("x"), 30<<10)) // an answer to the same request takes its place
	}
	size := 0
	for _, b := range s.byID {
		size += len(b)
	}
	if size > maxAnswerBytes || size < maxAnswerBytes-30<<10 || size != s.size || len(s.ids) != len(s.byID) {
		t.Errorf("%d answers with %d bytes, counted as %d", len(s.byID), size, s.size)
	}
	if _, ok := s.find("99"); !ok {
		t.Error("the newest answer is gone")
	}
	s.add("huge", make([]byte, maxAnswerBytes+1))
	if _, ok := s.find("huge"); !ok || len(s.ids) != 1 {
		t.Errorf("%d answers beside a huge one", len(s.ids)-1)
	}
}

// The level changes for a while, and goes back by itself, by hand, and at a restart.
func TestOwnLogLevel(t *testing.T) {
	bubble(t, func(r *rig) {
		out := r.logging()
		r.start()
		set := func(level, within string) *wire.Error {
			return r.request(wire.MethodLogLevel, wire.Encode(&wire.LogLevelParams{Level: level, For: within})).Error
		}
		level := func(want string) {
			t.Helper()
			if l := r.agentLog(wire.AgentLogParams{Lines: 1}); l.Level != want || (want == "info") != l.Until.IsZero() {
				t.Errorf("the level is %s until %s, want %s", l.Level, l.Until, want)
			}
		}
		level("info")
		if err := set("debug", "PT10M"); err != nil {
			t.Fatal(err)
		}
		level("debug")
		if !strings.Contains(out.String(), `"logged":"debug"`) {
			t.Error("the log does not tell of it")
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		level("info")
		if err := set("warn", "PT24H"); err != nil {
			t.Fatal(err)
		}
		level("warn")
		if err := set("", ""); err != nil {
			t.Fatal(err)
		}
		level("info")
		for _, c := range [][3]string{{"loud", "PT1M", "/params/level"}, {"debug", "", "/params/for"},
			{"debug", "PT24H1S", "/params/for"}, {"debug", "-PT1H", "/params/for"}, {"", "PT1H", "/params/for"}} {
			if err := set(c[0], c[1]); err == nil || err.Path != c[2] {
				t.Errorf("%v: %v", c, err)
			}
		}
		level("info")
	})
}

// Every line of the agent has its unit and its node, once, and what is of a kind has that.
func TestLinesHaveUnitAndNode(t *testing.T) {
	bubble(t, func(r *rig) {
		out := r.logging()
		r.deps.Level.Set(zap.DebugLevel, time.Hour)
		r.start()
		r.desire(doc(1, 1))
		r.hub.Cut("node/n1")
		synctest.Wait()
		r.cfg.OnApply = "false"
		r.restart()
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		for _, line := range lines {
			var l map[string]any
			if err := json.Unmarshal([]byte(line), &l); err != nil {
				t.Fatal(err)
			}
			if l["unit"] != "u1" || l["node"] != "n1" || strings.Count(line, `"unit"`) != 1 ||
				strings.Count(line, `"node":"n1"`) != 1 {
				t.Errorf("%s", line)
			}
			if l["msg"] == "document" && (l["kind"] == nil || l["rev"] == nil) {
				t.Errorf("%s", line)
			}
		}
		if len(lines) < 8 {
			t.Errorf("%d lines", len(lines))
		}
	})
}
