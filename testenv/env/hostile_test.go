package env_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"tandem.internal/shared/link"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
	"tandem.internal/testenv/env"
)

type msg = link.Message

// deep is JSON that is nested too deeply for anything that recurses.
func deep(n int) []byte {
	return []byte(strings.Repeat("[", n) + strings.Repeat("]", n))
}

// A node that sends garbage to everything it may write, and tries everything it may not, hurts
// nobody: the others get their documents meanwhile, and the journal tells of it but does not fill.
func TestHostileNode(t *testing.T) {
	both(t, func(t *testing.T, s env.Setup) {
		env.Run(t, s, func(e *env.Env) {
			e.Apply(env.Doc("1.0.0"))
			e.Reached("1.0.0")
			evil := e.Client("node/evil")
			own, other := topic.ForNode(env.Unit, "evil"), topic.ForNode(env.Unit, "n1")
			random := make([]byte, 4096)
			if _, err := rand.Read(random); err != nil {
				t.Fatal(err)
			}
			foreign := wire.Live{V: wire.Version, Node: "n1", Boot: "b", Session: 99}
			payloads := [][]byte{
				random, []byte("{"), []byte("null"), []byte("[]"), []byte(`"x"`), deep(100_000), []byte(`{"v":1e999}`),
				wire.Encode(&foreign),
				[]byte(`{"v":1,"node":"evil","kind":"config","boot":"b","seq":18446744073709551615,"running":{` +
					`"epoch":18446744073709551615,"rev":18446744073709551615,"version":"1.0.0",` +
					`"hash":"sha256:` + strings.Repeat("0", 64) + `"}}`),
				bytes.Repeat([]byte("x"), 200<<10), bytes.Repeat([]byte("x"), 10<<20),
			}
			topics := []string{
				own.Live(), own.Reply(), own.Event(), own.Reported(wire.KindConfig), own.Reported(wire.KindInfo),
				own.Reported("odd"),
				other.Live(), other.Reported(wire.KindConfig), other.Reply(), other.Event(), // not its own
				own.Desired(wire.KindConfig), other.Desired(wire.KindConfig), other.Request(),
				topic.ForController(env.Unit),
				topic.ForInbox(env.Unit, "config"), topic.ForOutbox(env.Unit, "config"), "tandem/1/u2/controller",
				"$SYS/x", "odd",
			}
			before := epoch(e)
			done := make(chan struct{})
			go func() {
				defer close(done)
				for range 3 {
					for _, name := range topics {
						for _, p := range payloads {
							evil.Insist(name, p)
						}
					}
					time.Sleep(time.Second)
				}
			}()
			for i := 2; i < 8; i++ {
				v := fmt.Sprintf("%d.0.0", i)
				at := time.Now()
				e.Apply(env.Doc(v))
				e.Reached(v, "n1", "n2", "n3")
				if took := time.Since(at); took > 10*time.Second {
					t.Errorf("%s took %v while a node misbehaved", v, took)
				}
				e.Pass(2 * time.Second)
			}
			<-done
			e.Pass(time.Minute)
			trouble := 0
			for _, r := range e.Entries("trouble") {
				if r.Node == "evil" {
					trouble++
				}
			}
			all := e.Entries()
			if trouble == 0 || trouble > 20 {
				t.Errorf("%d records of trouble for %d bad messages", trouble, 3*len(topics)*len(payloads))
			}
			if len(all) > 400 {
				t.Errorf("the journal has grown to %d records", len(all))
			}
			if now := epoch(e); now != before {
				t.Errorf("a lie carried the epoch from %d to %d", before, now)
			}
			evil.Close()
			e.Calm()
		})
	})
}

// What does not even speak MQTT, or speaks it without measure, only loses its own connection.
func TestHostileConnections(t *testing.T) {
	both(t, func(t *testing.T, s env.Setup) {
		env.Run(t, s, func(e *env.Env) {
			e.Apply(env.Doc("1.0.0"))
			e.Reached("1.0.0")
			connect := []byte("\x10\x1c\x00\x04MQTT\x04\x02\x00\x3c\x00\x09node/evil")
			connect = append([]byte{0x10, byte(len(connect) - 2)}, connect[2:]...)
			huge := append([]byte{0x32, 0x80, 0x80, 0x80, 0x05}, make([]byte, 10<<20)...) // a PUBLISH of 10 MiB
			inputs := [][]byte{
				[]byte("GET / HTTP/1.1\r\n\r\n"), {0xff, 0xff, 0xff, 0xff, 0xff}, bytes.Repeat([]byte{0}, 1<<20), huge,
				append(bytes.Clone(connect), huge...), append(bytes.Clone(connect), 0x82, 0x03, 0x00, 0x01, 0x00), {},
			}
			for round := range 3 {
				for i, input := range inputs {
					c, err := e.Dial(context.Background())
					if err != nil {
						t.Fatal(err)
					}
					if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
						t.Fatal(err)
					}
					go func() { _, _ = io.Copy(io.Discard, c) }() // ends with the connection
					_, _ = c.Write(input)                         // may be cut off in the middle
					if i == 0 {
						v := fmt.Sprintf("%d.0.0", round+2)
						e.Apply(env.Doc(v))
						e.Reached(v)
					}
					e.Pass(time.Second)
					_ = c.Close()
				}
			}
			if s := e.Status(); s.Progress.Online != 3 {
				t.Errorf("%d nodes are online", s.Progress.Online)
			}
			e.Calm()
		})
	})
}

// Submissions are hostile, too.
func TestHostileSubmissions(t *testing.T) {
	env.Run(t, env.Setup{}, func(e *env.Env) {
		e.Apply(env.Doc("1.0.0"))
		e.Reached("1.0.0")
		var many []env.Entry
		for i := range 2000 {
			many = append(many, env.Entry{Node: fmt.Sprintf("x%d", i)})
		}
		big := env.Doc("2.0.0", many...)
		for name, doc := range map[string][]byte{
			"deep": deep(100_000), "large": bytes.Repeat([]byte(" "), 10<<20), "none": nil,
			"late error": append(bytes.Clone(bytes.TrimRight(big, "\n}")), ",]}"...),
		} {
			if r, err := e.Submit(submission(doc)); err == nil && r.State != "refused" {
				t.Errorf("%s is %s", name, r.State)
			}
		}
		if !e.Runs("n1", "1.0.0") {
			t.Errorf("n1 runs %s", e.Node("n1").File())
		}
		e.Apply(big)
		e.Calm()
	})
}
