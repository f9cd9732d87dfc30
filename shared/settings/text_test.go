package settings

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

type kept struct {
	Name   string            `name:"name" default:"x"`
	Wait   time.Duration     `name:"wait" default:"5s"`
	On     bool              `name:"on"`
	Hosts  []string          `name:"hosts"`
	Secret map[string]string `name:"secret" secret:"true"`
	inner
}

type inner struct {
	Rate float64 `name:"rate" default:"2"`
}

func (*inner) Help() map[string]string { return map[string]string{"rate": "r"} }

func (*kept) Help() map[string]string {
	return map[string]string{"name": "n", "wait": "w", "on": "o", "hosts": "h", "secret": "s"}
}

// TestText: what is not at its default is in the text, secrets too, and whoever reads it has the same settings.
func TestText(t *testing.T) {
	was := kept{Name: "a \"b\"\n#", Wait: 5 * time.Second, On: true, Hosts: []string{"h1", "h,2"},
		Secret: map[string]string{"cloud/eu": "p: w"}, inner: inner{Rate: 0.5}}
	text := Text(&was)
	if strings.Contains(string(text), "wait") || !strings.Contains(string(text), "p: w") {
		t.Errorf("%s", text)
	}
	file := filepath.Join(t.TempDir(), "x.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	var is kept
	if _, err := Load("x", &is, []string{"--config", file}, func(string) (string, bool) { return "", false },
		nil); err != nil || !reflect.DeepEqual(is, was) {
		t.Errorf("%v\n%+v\n%+v\n%s", err, is, was, text)
	}
}

// TestShow: each setting is there, and no secret is: neither one that is a setting, nor one in an address.
func TestShow(t *testing.T) {
	all := Show(&kept{Name: "mqtt://u:p4ss@host", Wait: 5 * time.Second, Secret: map[string]string{"a": "p4ss"}})
	want := []Shown{{"name", `"mqtt://***@host"`, true}, {"wait", "5s", false}, {"on", "false", false},
		{"hosts", "[]", false}, {"secret", "***", true}, {"rate", "0", true}}
	if !slices.Equal(all, want) {
		t.Errorf("%+v", all)
	}
}
