package env_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tandem.internal/testenv/env"
)

// A node whose state file is damaged while its agent is away comes back to what it should run unaided, whether that
// has changed meanwhile or not. The controller knows of it by an event, and by the node's trouble until somebody has
// removed the damaged file.
func TestStateOfANodeIsDamaged(t *testing.T) {
	damages := []struct {
		name   string
		change func(data []byte) []byte
	}{
		{"cut", func(data []byte) []byte { return data[:len(data)/3] }},
		{"empty", func([]byte) []byte { return []byte{} }},
		{"zeros", func(data []byte) []byte {
			clear(data[2*os.Getpagesize():]) // all but the meta pages
			return data
		}},
		{"another version", func(data []byte) []byte {
			return bytes.ReplaceAll(data, []byte(`"version":"2.`), []byte(`"version":"9.`))
		}},
		{"gone", func([]byte) []byte { return nil }},
	}
	both(t, func(t *testing.T, s env.Setup) {
		env.Run(t, s, func(e *env.Env) {
			e.Apply(env.Doc("1.0.0"))
			e.Apply(env.Doc("2.0.0"))
			e.Reached("2.0.0")
			n := e.Node("n1")
			now := "2.0.0"
			for i, d := range damages {
				n.Stop()
				n.Damage(d.change)
				if i%2 == 1 {
					now = fmt.Sprintf("2.%d.0", i)
					e.Apply(env.Doc(now))
				}
				n.Start()
				e.Until(time.Minute, d.name+": it runs "+now+" again", func() bool {
					v, ok := e.View("n1")
					doc := v.Documents["config"]
					return ok && v.Online && doc.InSync && doc.Running != nil && doc.Running.Version == now &&
						n.Holds(now)
				})
				told := e.Entries("event")
				lost := 0
				for _, entry := range told {
					if entry.Kind == "state-lost" && entry.Node == "n1" {
						lost++
					}
				}
				if lost != i+1 {
					t.Errorf("%s: %d events say that the state is lost", d.name, lost)
				}
				kept, err := filepath.Glob(filepath.Join(n.Dir, "state.db.bad-*"))
				if err != nil {
					t.Fatal(err)
				}
				// Reports come one after the other: that the configuration is in step may be from before the stop.
				e.Until(time.Minute, fmt.Sprintf("%s: the trouble tells of %v", d.name, kept), func() bool {
					v, _ := e.View("n1")
					trouble := v.Info.Error
					return (trouble != nil) == (len(kept) > 0) &&
						(trouble == nil || strings.Contains(trouble.Message, "then remove "+filepath.Base(kept[0])))
				})
				for _, path := range kept {
					if err := os.Remove(path); err != nil {
						t.Fatal(err)
					}
				}
			}
			e.Apply(env.Doc("3.0.0"))
			e.Reached("3.0.0")
			e.Calm()
		})
	})
}
