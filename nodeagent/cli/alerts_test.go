package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tandem.internal/shared/alert"
)

const samplesDir = "../../deploy/samples/"

func command(t *testing.T, ctx context.Context, args ...string) (status int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	status = new(program).run(ctx, args, &stdout, &stderr)
	return status, stdout.String(), stderr.String()
}

// Every recording that ships can be read to its end.
func TestShippedSamples(t *testing.T) {
	files, err := filepath.Glob(samplesDir + "*.csv")
	if err != nil || len(files) < 2 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		r, err := alert.NewReader(f)
		for err == nil {
			_, err = r.Next()
		}
		if err != io.EOF {
			t.Errorf("%s: %v", file, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestAlertsRefuse(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"play"}, `unexpected argument "play"`},
		{[]string{"sampel"}, "did you mean sample?"},
		{[]string{"sample", "--count", "-1"}, "--count"},
		{[]string{"sample", "--period", "1ms"}, "below 100ms"},
		{[]string{"sample", "--interface", "eth["}, "interface pattern"},
	} {
		status, out, errs := command(t, t.Context(), append([]string{"alerts"}, c.args...)...)
		if status != exitUsage || out != "" || !strings.HasPrefix(errs, "tandem-node: ") ||
			!strings.Contains(errs, c.want) {
			t.Errorf("%q: status %d, %q, %q; want %q", c.args, status, out, errs, c.want)
		}
	}
	if status, out, _ := command(t, t.Context(), "alerts", "--help"); status != 0 ||
		!strings.Contains(out, "Example:") {
		t.Errorf("%d, %s", status, out)
	}
}

// What sample prints is what replays read.
func TestSampleIsRead(t *testing.T) {
	status, out, errs := command(t, t.Context(), "alerts", "sample", "--count", "3", "--period", "100ms", "--partition",
		"data="+t.TempDir(), "--partition", "gone=/nowhere")
	if status != 0 || strings.Count(out, "\n") != 4 ||
		!strings.HasPrefix(out,
			"time,cpu,ram,download,upload,partition:data,inodes:data,partition:gone,inodes:gone\n") {
		t.Fatalf("status %d\n%s%s", status, out, errs)
	}
	if !strings.Contains(errs, "partition:gone is not known") || strings.Count(errs, "gone: ") != 2 {
		t.Errorf("%s", errs)
	}
	r, err := alert.NewReader(strings.NewReader(out))
	n := 0
	for ; err == nil; n++ {
		_, err = r.Next()
	}
	if err != io.EOF || n != 4 {
		t.Errorf("%d samples, %v", n-1, err)
	}
}

func TestSampleStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if status, out, errs := command(t, ctx, "alerts", "sample"); status != 0 || errs != "" ||
		strings.Count(out, "\n") != 1 {
		t.Errorf("status %d, %q, %q", status, out, errs)
	}
	var stderr bytes.Buffer
	if status := new(program).run(t.Context(), []string{"alerts", "sample"}, full{}, &stderr); status != exitError ||
		!strings.Contains(stderr.String(), "output: disk full") {
		t.Errorf("status %d, %s", status, stderr.String())
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("disk full") }
