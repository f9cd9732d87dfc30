package bundle

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
)

func read(data []byte) (Bundle, error) { return Read(bytes.NewReader(data), int64(len(data))) }

// What was appended to a program is found, whatever the program ends with, and nothing is where nothing was.
func TestBundle(t *testing.T) {
	for _, program := range []string{"x", "\n", Mark, "program\n" + Mark + "1.0.0 5\n",
		strings.Repeat("code\n", 1000)} {
		for _, settings := range []string{"beat: 30s\n", "beat: 30s", "", "\n", Mark + "9.9.9 3\n",
			strings.Repeat("#", MaxSettings-1)} {
			b := Bundle{"1.5.1-rc.1+b2", []byte(settings)}
			tail, err := b.Tail()
			if err != nil {
				t.Fatal(err)
			}
			want := settings
			if want != "" && !strings.HasSuffix(want, "\n") {
				want += "\n"
			}
			got, err := read(slices.Concat([]byte(program), tail))
			if err != nil || got.Version != b.Version || string(got.Settings) != want {
				t.Errorf("%.20q with %.20q: %.100q %v", program, settings, got, err)
			}
		}
	}
	for _, plain := range []string{"", "x", "\n", "program\n", Mark + "1.0.0 1", "tandem-settings\n",
		"x" + Mark + "1.0.0 1\n", strings.Repeat("x", 300) + "\n"} {
		if b, err := read([]byte(plain)); err != nil || b.Version != "" {
			t.Errorf("%.20q: %+v %v", plain, b, err)
		}
	}
}

// What is no bundle, and ends like one, is none by mistake.
func TestBundleMistakes(t *testing.T) {
	for _, b := range []Bundle{{"", nil}, {"1.5", nil}, {"1.5.0 2", nil}, {"1.5.0-" + strings.Repeat("a", 100), nil},
		{"1.5.0", make([]byte, MaxSettings)}} {
		if tail, err := b.Tail(); err == nil {
			t.Errorf("%.50q", tail)
		}
	}
	for _, bad := range []string{
		"program\nbeat: 1s\ntandem-settings/2 1.0.0 9\n", // a later format
		"program\nbeat: 1s\n" + Mark + "1.0.0\n",
		"program\nbeat: 1s\n" + Mark + "1.0.0 -1\n",
		"program\nbeat: 1s\n" + Mark + "1.0.0 8\n",
		"program\nbeat: 1s\n" + Mark + "1.0.0 10\n",
		"program\nbeat: 1s\n" + Mark + "1.0.0 09\n",
		"program\nbeat: 1s\n" + Mark + "1.0.0 9 \n",
		"program\nbeat: 1s\n" + Mark + "1.0 9\n",
		"program\nbeat: 1s\n" + Mark + "1.0.0 99\n",
		"beat: 1s\n" + Mark + "1.0.0 9\n", // without a program
		"\n" + Mark + "1.0.0 0\n",         // of no bytes
		strings.Repeat("a", MaxSettings+9) + "\n" + Mark + "1.0.0 16385\n",
		"programbeat: 1s\n" + Mark + "1.0.0 9\n",
	} {
		b, err := read([]byte(bad))
		if err == nil || b.Version != "" || !strings.Contains(err.Error(), "its last line") {
			t.Errorf("%q: %+v %v", bad, b, err)
		}
	}
}

// Whatever is read is what Tail makes, so no file has a second reading.
func FuzzRead(f *testing.F) {
	f.Add([]byte("program\nbeat: 1s\n" + Mark + "1.0.0 9\n"))
	f.Add([]byte("\n\n" + Mark + "1.0.0-a+b 0\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := read(data)
		if err != nil || b.Version == "" {
			return
		}
		tail, err := b.Tail()
		if err != nil || !bytes.HasSuffix(data, tail) || len(tail) == len(data) {
			t.Errorf("%q %+v %v", data, b, err)
		}
	})
}

// The page for users lists what may come so, and nothing else.
func TestListOnThePage(t *testing.T) {
	page, err := os.ReadFile("../docs/policies.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, found := strings.Cut(string(page), "**What may come so** is ")
	list, _, _ = strings.Cut(list, ". ")
	var names []string
	for i, part := range strings.Split(list, "`") {
		if i%2 == 1 {
			names = append(names, part)
		}
	}
	if !found || !slices.Equal(names, May) || !slices.IsSorted(May) {
		t.Errorf("%q, want %q", names, May)
	}
}
