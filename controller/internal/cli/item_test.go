package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tandem.internal/controller/internal/api/apitest"
)

const unitSample = "../../../deploy/samples/unit"

// pressThree is a node that has a place for one more sensor than that of the sample.
const pressThree = `{"node": "press-1", "type": "press", "cpu": 2000, "ram": 536870912,
	"runtimes": [{"id": "boot", "type": "bootloader", "architecture": "arm64"},
		{"id": "crun", "type": "crun", "architecture": "arm64"}],
	"resources": [{"name": "i2c", "shared": 3}]}`

// copyUnit copies the sample of a unit into the bench's directory.
func (b *bench) copyUnit() string {
	b.t.Helper()
	to := filepath.Join(b.dir, "unit")
	if err := os.CopyFS(to, os.DirFS(unitSample)); err != nil {
		b.t.Fatal(err)
	}
	return to
}

// TestItemsOffline runs the commands about items that ask no controller, for people and as JSON.
func TestItemsOffline(t *testing.T) {
	meta := func(b *bench, text string) { b.write("meta.json", text) }
	in := func(name, text string) func(*bench) {
		return func(b *bench) { b.write("unit/"+name, text) }
	}
	for _, c := range []struct {
		name, args string
		change     func(*bench)
	}{
		{"item-verify", "item verify META", nil},
		{"item-verify-free", "item verify META --offline UNIT", nil},
		{"item-verify-used", "item verify META --offline UNIT", func(b *bench) {
			meta(b, `{"codename": "sensor", "type": "service"}`)
		}},
		{"item-verify-another-type", "item verify META --offline UNIT", func(b *bench) {
			meta(b, `{"codename": "sensor", "type": "layer", "version": "1.0.0"}`)
		}},
		{"item-verify-malformed", "item verify META", func(b *bench) {
			meta(b, "{\"codename\": \"s s\", \"type\": \"servise\",\n \"quota\": {\"cpu\": 1},\n \"priority\": -1}")
		}},
		{"item-verify-no-unit", "item verify META --offline DIR/none", nil},
		{"item-verify-no-file", "item verify DIR/none.json", nil},
		{"item-verify-nothing", "item verify", nil},
		{"desired-plan", "desired plan --offline UNIT", nil},
		{"desired-plan-all", "desired plan --offline UNIT --all", in("items/sensor-1.3.0.json",
			`{"state": "ready", "id": "6f1d2f0e-58a5-4d4e-9f65-0f6b1f6f2a01",
			"urn": "urn:uuid:6f1d2f0e-58a5-4d4e-9f65-0f6b1f6f2a01",
			"meta": {"codename": "sensor", "type": "service", "version": "1.3.0"}}`)},
		{"desired-plan-other-versions", "desired plan --offline UNIT", in("items/firmware-next.json",
			`{"state": "preparation", "meta": {"codename": "firmware", "type": "component", "version": "3.0.0"}}`)},
		{"desired-plan-away", "desired plan --offline UNIT --evict-after 5m", in("nodes/gateway.json",
			`{"node": "gateway", "type": "gateway", "offlineFor": "PT6M", "cpu": 2000, "ram": 1073741824,
			"runtimes": [{"id": "crun", "type": "crun", "architecture": "amd64"}]}`)},
		{"desired-plan-room", "desired plan --offline UNIT --preempt --all", in("items/sensor-default.json",
			`{"state": "ready", "meta": {"codename": "sensor-default", "type": "service", "version": "1.0.0",
			"priority": 9, "resources": ["i2c"], "platforms": [{"architecture": "amd64"}]}}`)},
		{"desired-plan-relief", "desired plan --offline UNIT", in("nodes/press-1.json", pressThree)},
		{"desired-plan-unmeasured", "desired plan --offline UNIT", func(b *bench) {
			in("nodes/press-1.json", pressThree)(b)
			in("load.json", `{"nodes": [{"node": "gateway", "cpu": 0.93, "for": "PT10M"}]}`)(b)
		}},
		{"desired-plan-not-for-long", "desired plan --offline UNIT", in("load.json",
			`{"nodes": [{"node": "gateway", "cpu": 0.93, "for": "PT4M"}]}`)},
		{"desired-plan-percent", "desired plan --offline UNIT", in("load.json",
			`{"nodes": [{"node": "gateway", "cpu": 93}]}`)},
		{"desired-why-relief", "desired why press-1 sensor --offline UNIT", in("nodes/press-1.json", pressThree)},
		{"desired-why-relieved", "desired why gateway sensor --offline UNIT", in("nodes/press-1.json", pressThree)},
		{"desired-plan-empty", "desired plan --offline DIR/empty", func(b *bench) {
			if err := os.Mkdir(filepath.Join(b.dir, "empty"), 0o700); err != nil {
				b.t.Fatal(err)
			}
		}},
		{"desired-plan-malformed", "desired plan --offline UNIT", func(b *bench) {
			in("subjects/line-4.json", `{"codename": "line-4", "type": "grup", "itmes": []}`)(b)
			in("unit.json", `{"formatVersion": "7", "version": "1", "nodes": []}`)(b)
		}},
		{"desired-plan-clash", "desired plan --offline UNIT", in("items/sensor-again.json",
			`{"state": "ready", "meta": {"codename": "sensor", "type": "service", "version": "1.4.0"}}`)},
		{"desired-plan-misspelt", "desired plan --offline UNIT", in("curent.json", `{}`)},
		{"desired-plan-no-json", "desired plan --offline UNIT", in("nodes/gateway.yaml", `{}`)},
		{"desired-plan-file", "desired plan --offline META", nil},
		{"desired-plan-nothing", "desired plan", nil},
		{"desired-why-here", "desired why gateway sensor --offline UNIT", nil},
		{"desired-why-elsewhere", "desired why gateway firmware --offline UNIT", nil},
		{"desired-why-layer", "desired why press-1 python --offline UNIT", nil},
		{"desired-why-suppressed", "desired why press-1 sensor-default --offline UNIT", nil},
		{"desired-why-type", "desired why press-1 sensor --offline UNIT --type component", nil},
		{"desired-why-two", "desired why press-1 sensor --offline UNIT", in("items/sensor-layer.json",
			`{"state": "ready", "meta": {"codename": "sensor", "type": "layer", "version": "1.0.0"}}`)},
		{"desired-why-no-node", "desired why pres-1 sensor --offline UNIT", nil},
		{"desired-why-no-item", "desired why press-1 senser --offline UNIT", nil},
		{"desired-why-no-type", "desired why press-1 sensor --offline UNIT --type servise", nil},
		{"desired-why-nothing", "desired why press-1 --offline UNIT", nil},
	} {
		for _, suffix := range []string{"", "-json"} {
			t.Run(c.name+suffix, func(t *testing.T) {
				b := newBench(t, apitest.StartSample(t))
				b.env["TANDEM_SOCKET"] = b.dir + "/none" // no controller is asked
				files := strings.NewReplacer("UNIT", b.copyUnit(), "META", b.write("meta.json",
					`{"codename": "camera", "type": "service", "version": "1.0.0"}`), "DIR", b.dir)
				if c.change != nil {
					c.change(b)
				}
				args := words(c.args)
				for i := range args {
					args[i] = files.Replace(args[i])
				}
				b.golden(t, c.name, suffix, args)
			})
		}
	}
}

// TestItemExamples: the commands in the document print what stands below them.
func TestItemExamples(t *testing.T) {
	text, err := os.ReadFile("../../../shared/docs/items.md")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Dir(unitSample))
	b := newBench(t, apitest.StartSample(t))
	b.env["TANDEM_SOCKET"] = b.dir + "/none"
	ran := 0
	for i, block := range strings.Split(string(text), "```") {
		rest, isExample := strings.CutPrefix(block, "\n$ tandem ")
		if i%2 == 0 || !isExample {
			continue
		}
		line, want, _ := strings.Cut(rest, "\n")
		stdout, stderr, _ := b.run("", words(line)...)
		if got := strings.TrimSpace(stdout + stderr); got != strings.TrimSpace(want) {
			t.Errorf("tandem %s\n--- prints\n%s\n--- the document has\n%s", line, got, want)
		}
		ran++
	}
	if ran != 3 {
		t.Errorf("%d examples were found", ran)
	}
}
