package record

import (
	"bytes"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"tandem.internal/nodeagent/internal/boot"
	"tandem.internal/shared/wire"
)

// What a newer version has added survives an older launcher.
func TestUnknownMembersStay(t *testing.T) {
	_, body, _ := bytes.Cut(committed(t).Encode(), []byte("\n"))
	later := strings.Replace(string(body), "{", `{"later":{"x":1},`, 1)
	back, err := Decode(encodeBody(recordHead, []byte(later)))
	if err != nil {
		t.Fatal(err)
	}
	back = back.Start(Evidence{Kernel: "k"}, fine)
	if got := string(back.Encode()); !strings.Contains(got, `"later"`) || strings.Contains(got, "Rest") {
		t.Errorf("%s", got)
	}
}

func TestDecodeRefuses(t *testing.T) {
	good := string(committed(t).Encode())
	bad := func(change func(*Record)) string {
		r := committed(t)
		change(&r)
		return string(r.Encode())
	}
	for name, c := range map[string]struct{ data, want string }{
		"empty":          {"", "empty"},
		"long":           {strings.Repeat("x", MaxSize+1), "longer"},
		"another format": {strings.Replace(good, "slots 1", "slots 2", 1), "does not begin"},
		"cut":            {good[:40], "cut short"},
		"cut later":      {good[:len(good)-9], "checksum"},
		"altered":        {strings.Replace(good, `"good": "a"`, `"good": "b"`, 1), "checksum"},
		"no such slot":   {bad(func(r *Record) { r.Good = "c" }), "contradicts"},
		"two roles":      {bad(func(r *Record) { r.Trying = A }), "contradicts"},
		"tries":          {bad(func(r *Record) { r.Tries = -1 }), "contradicts"},
		"empty trial":    {bad(func(r *Record) { r.Trying = B }), "contradicts"},
		"no hash":        {bad(func(r *Record) { r.A.Hash = "sha256:x" }), "contradicts"},
		"previous":       {bad(func(r *Record) { r.Previous = B }), "contradicts"},
	} {
		if _, err := Decode([]byte(c.data)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Details of any length and content leave a record that can be read again.
func TestLongTexts(t *testing.T) {
	r := committed(t)
	for range 2 * boot.MaxUnreported {
		r.Mark(Mark{Reason: wire.BootFatal, Detail: strings.Repeat("\x01\"\\\xff", 1000)})
		r = r.Start(Evidence{Kernel: "k"}, func(id ID) error { return errors.New(strings.Repeat("\x02\"", 1000)) })
	}
	if data := r.Encode(); len(data) > MaxSize/2 {
		t.Errorf("%d bytes", len(data))
	} else if _, err := Decode(data); err != nil {
		t.Error(err)
	}
}

func FuzzRecord(f *testing.F) {
	f.Add(New().Encode())
	f.Add(committed(f).Encode())
	f.Add(armed(f, staged(f, committed(f), "2"), B, 3).Start(Evidence{Kernel: "k"}, fine).Encode())
	f.Add([]byte(`{"seq":1,"good":"factory","previous":"factory"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		// The body as it is, and with the checksum that it would need.
		for _, d := range [][]byte{data, encodeBody(recordHead, data)} {
			r, err := Decode(d)
			if err != nil {
				continue
			}
			again, err := Decode(r.Encode())
			if err != nil || string(again.Encode()) != string(r.Encode()) {
				t.Fatalf("%v: %s", err, r.Encode())
			}
			if next := r.Start(Evidence{Kernel: "k"}, broken(A)); next.Boot.Slot == None || next.Validate() != nil {
				t.Fatalf("%v: %+v", next.Validate(), next)
			}
		}
	})
}

func FuzzManifest(f *testing.F) {
	f.Add(Manifest{Version: "1", Hash: hash("0"), Size: 3, Committed: 4}.Encode())
	f.Add([]byte(`{"version":"1","hash":"x","size":-1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, d := range [][]byte{data, encodeBody(manifestHead, data)} {
			m, err := DecodeManifest(d)
			if err != nil {
				continue
			}
			if again, err := DecodeManifest(m.Encode()); err != nil || again.Hash != m.Hash {
				t.Fatalf("%v: %s", err, m.Encode())
			}
		}
	})
}

// Launchers of all releases read and write the record: every member of the first format keeps its name and meaning.
func TestFormatOfTheFirstRelease(t *testing.T) {
	data, err := os.ReadFile("testdata/first-format")
	if err != nil {
		t.Fatal(err)
	}
	r, err := Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	h := "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	start := boot.Start{Number: 9, Reboots: 2, Crashes: 1, Reason: wire.BootFatal, Detail: "d", Slot: A, Trial: true,
		Note: "n", Kernel: "k", OOMKills: 3, Panic: "p"}
	want := Record{Seq: 41, Good: A, Previous: B, Why: "it was committed after a trial",
		Trying: B, Tries: 2, Booted: true, Spared: 1,
		A:        Slot{Version: "1", Hash: h, Size: 7, Verdict: Good, Committed: 40},
		B:        Slot{Version: "0", Hash: h, Size: 6, Verdict: Good, Committed: 3},
		Approved: Approval{Trial: "a-40", By: "x"},
		History: boot.History{Next: &Mark{Reason: wire.BootUpdate, Detail: "to try slot b", Planned: true},
			Boot: start, Unreported: []boot.Start{{Number: 8, Reason: wire.BootStop}, start}, Dropped: 4},
		Last: Outcome{Seq: 40, Slot: A, Version: "1", Hash: h, Committed: true}}
	_, again, _ := bytes.Cut(r.Encode(), []byte("\n"))
	if string(r.Rest) != `{"Rest":null}` { // a member that the first release wrote by mistake
		t.Errorf("not understood: %s", r.Rest)
	}
	if r.Rest = nil; !reflect.DeepEqual(r, want) {
		t.Errorf("read as %+v, want %+v", r, want)
	}
	var old, now map[string]any
	_, body, _ := bytes.Cut(data, []byte("\n"))
	err = errors.Join(json.Unmarshal(body, &old), json.Unmarshal(again, &now))
	if err != nil || !reflect.DeepEqual(old, now) {
		t.Errorf("written as %v, want %v: %v", now, old, err)
	}
}
