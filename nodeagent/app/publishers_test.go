package app

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tandem.internal/shared/publisher"
	"tandem.internal/shared/publisher/publishertest"
)

// --publisher-key takes keys and files with keys; what is neither stops the start.
func TestPublisherKeys(t *testing.T) {
	one, two := publishertest.New(1), publishertest.New(2)
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file := write("keys.pub", "untrusted comment: a\n"+one.Public()+"\nuntrusted comment: b\n"+two.Public()+"\n")
	many := []string{}
	for i := range publisher.MaxKeys + 1 {
		many = append(many, publishertest.New(byte(i)).Public())
	}
	for _, c := range []struct {
		given []string
		ids   string
		want  string
	}{
		{nil, "", ""},
		{[]string{two.Public()}, "0202020202020202", ""},
		{[]string{file, one.Public()}, "0101010101010101 0202020202020202", ""},
		{[]string{filepath.Join(dir, "none")}, "", "neither a public key of minisign"},
		{[]string{write("bad", "x\n")}, "", "line 1 is no public key"},
		{[]string{write("empty", "")}, "", "there is no public key in it"},
		{[]string{write("large", strings.Repeat("\n", publisher.MaxFile)+one.Public())}, "", "neither"},
		{many, "", "13 keys, of at most 12"},
	} {
		keys, err := PublisherSetting{PublisherKeys: c.given}.Read()
		if c.want != "" {
			if e, ok := errors.AsType[*UsageError](err); !ok || e.Setting != "publisher-key" ||
				!strings.Contains(e.Message, c.want) {
				t.Errorf("%v: %v, want %s", c.given, err, c.want)
			}
			continue
		}
		if got := publisher.JoinIDs(keys.IDs(), " "); err != nil || got != c.ids {
			t.Errorf("%v: %q %v", c.given, got, err)
		}
	}
	for floor, ok := range map[string]bool{"": true, "1.2.0": true, "1.2": false, "none": false} {
		_, err := PublisherSetting{Floor: floor}.Read()
		if e, is := errors.AsType[*UsageError](err); (err == nil) != ok || is && e.Setting != "floor" {
			t.Errorf("--floor %q: %v", floor, err)
		}
	}
}

// Commands at the node find what the newest start was given, and no more than that.
func TestSharedPublishers(t *testing.T) {
	dir, one := t.TempDir(), publishertest.New(1).Keys(t)
	for _, c := range []struct {
		keys  publisher.Keys
		floor string
	}{{one, "1.2.0"}, {nil, "1.0.0"}, {one, ""}, {nil, ""}} {
		if err := sharePublishers(dir, c.keys, c.floor, nil); err != nil {
			t.Fatal(err)
		}
		keys, floor, err := SharedPublishers(dir)
		if err != nil || len(keys) != len(c.keys) || floor != c.floor {
			t.Errorf("%v %q %v, want %+v", keys, floor, err, c)
		}
	}
}
