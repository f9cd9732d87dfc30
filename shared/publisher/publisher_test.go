package publisher_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tandem.internal/shared/publisher"
	"tandem.internal/shared/publisher/publishertest"
)

// read reads a file of testdata, which minisign 0.11 has written.
func read(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func known(t testing.TB, names ...string) (all publisher.Keys) {
	t.Helper()
	for _, n := range names {
		keys, err := publisher.ParseKeys(string(read(t, n+".pub")))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, keys...)
	}
	return all
}

func digest(data []byte) []byte {
	h := publisher.NewHash()
	h.Write(data)
	return h.Sum(nil)
}

// What minisign writes is taken where it should be, and nowhere else.
func TestSignaturesOfMinisign(t *testing.T) {
	for _, c := range []struct {
		file, signature string
		keys            publisher.Keys
		check, verify   error
	}{
		{"program", "program.one", known(t, "one"), nil, nil},
		{"program", "program.two", known(t, "one", "two"), nil, nil},
		{"empty", "empty.one", known(t, "two", "one"), nil, nil},
		{"program", "program.two", known(t, "one"), publisher.ErrUnknown, publisher.ErrUnknown},
		{"program", "program.one", nil, publisher.ErrUnknown, publisher.ErrUnknown},
		{"other", "program.one", known(t, "one"), nil, publisher.ErrOther},
		{"program", "other.one", known(t, "one"), nil, publisher.ErrOther},
	} {
		sig, err := publisher.Parse(string(read(t, c.signature+".minisig")))
		if err != nil {
			t.Fatal(c.signature, err)
		}
		if err := c.keys.Check(sig); !errors.Is(err, c.check) {
			t.Errorf("%s, without the file: %v, want %v", c.signature, err, c.check)
		}
		if err := c.keys.Verify(sig, digest(read(t, c.file))); !errors.Is(err, c.verify) {
			t.Errorf("%s of %s: %v, want %v", c.signature, c.file, err, c.verify)
		}
	}
	sig, err := publisher.Parse(string(read(t, "program.one.minisig")))
	if err != nil || sig.ID() != "2008C64205E577C8" || sig.Comment() != "service web, 1.4.0" {
		t.Errorf("%q %q %v", sig.ID(), sig.Comment(), err)
	}
	if ids := publisher.JoinIDs(known(t, "two", "one", "one").IDs(), " "); !strings.Contains(ids, "2008C64205E577C8") ||
		len(ids) != 2*16+1 || !slices.Equal(publisher.ParseIDs(ids+" x 12"), known(t, "one", "two").IDs()) {
		t.Errorf("%q", ids)
	}
	if _, err := publisher.Parse(string(read(t, "program.old.minisig"))); err == nil ||
		!strings.Contains(err.Error(), "minisign -H") {
		t.Errorf("of a file that was not hashed: %v", err)
	}
}

// Whoever takes a publisher's ID has not its key.
func TestAnotherKeyOfThatID(t *testing.T) {
	own, thief := publishertest.New(1), publishertest.New(2)
	program := []byte("program")
	sig, err := publisher.Parse(thief.As(own).Sign(program))
	if err != nil {
		t.Fatal(err)
	}
	if err := own.Keys(t).Check(sig); !errors.Is(err, publisher.ErrForged) {
		t.Errorf("%v", err)
	}
	both := slices.Concat(own.Keys(t), thief.As(own).Keys(t)) // two that chance gave one ID: either may sign
	for _, s := range []publishertest.Signer{own, thief.As(own)} {
		if sig, err = publisher.Parse(s.Sign(program)); err != nil || both.Verify(sig, digest(program)) != nil {
			t.Errorf("%v, %v", err, both.Verify(sig, digest(program)))
		}
	}
}

// No bit of a signature, its comment or its file may be another one; only the untrusted comment and the end of the last
// line count for nothing.
func TestEveryBitCounts(t *testing.T) {
	program, keys := read(t, "program"), known(t, "one")
	_, text, _ := strings.Cut(string(read(t, "program.one.minisig")), "\n")
	good := func(text string, program []byte) bool {
		sig, err := publisher.Parse(text)
		return err == nil && keys.Verify(sig, digest(program)) == nil
	}
	for _, same := range []string{text, strings.TrimSuffix(text, "\n"), "untrusted comment: x\n" + text} {
		if !good(same, program) {
			t.Errorf("refused: %q", same)
		}
	}
	for i := range len(text) - 1 {
		for bit := range 8 {
			bad := []byte(text)
			bad[i] ^= 1 << bit
			if good(string(bad), program) {
				t.Errorf("bit %d of byte %d does not count: %q", bit, i, bad)
			}
		}
	}
	for i := range program {
		bad := slices.Clone(program)
		bad[i] ^= 1
		if good(text, bad) || good(text, program[:i]) {
			t.Errorf("byte %d of the file does not count", i)
		}
	}
}

// One content has one text of a signature, within bounds.
func TestMalformed(t *testing.T) {
	lines := strings.Split(string(read(t, "program.one.minisig")), "\n")
	sig, comment, global := lines[1], lines[2], lines[3]
	join := func(l ...string) string { return strings.Join(l, "\n") }
	for text, want := range map[string]string{
		"":                                            "three lines",
		join(sig, comment):                            "three lines",
		join(sig, comment, global, global):            "three lines",
		join(lines[0], lines[0], sig, comment):        "74 bytes",
		join(sig, comment, global, "", ""):            "three lines",
		join(sig+"=", comment, global):                "74 bytes",
		join(sig[:len(sig)-4], comment, global):       "74 bytes",
		join(sig+"\r", comment, global):               "74 bytes",
		join("QUFB"+sig[4:], comment, global):         "no signature of minisign",
		join(sig, comment[1:], global):                "trusted comment:",
		join(sig, comment+"\r", global):               "control characters",
		join(sig, comment+"\x1b[2J", global):          "control characters",
		join(sig, comment, sig):                       "64 bytes",
		strings.Repeat("x", publisher.MaxSignature+1): "more than 1024 bytes",
	} {
		if _, err := publisher.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	key := strings.Split(string(read(t, "one.pub")), "\n")[1]
	for text, want := range map[string]string{
		"": "no public key", "untrusted comment: x\n": "no public key", key + key: "line 1", "\n" + sig: "line 2",
		key + "\nx": "line 2", "RU" + key[2:]: "no key of minisign",
	} {
		if _, err := publisher.ParseKeys(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// The program minisign takes what tests sign, and signs what is taken here.
func TestWithMinisign(t *testing.T) {
	minisign, err := exec.LookPath("minisign")
	if err != nil {
		t.Skip("NOT TRIED: minisign is not installed (apt-get install minisign); only signatures that it made once " +
			"were tried")
	}
	dir := t.TempDir()
	run := func(args ...string) {
		t.Helper()
		cmd := exec.Command(minisign, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	program := []byte("#!/bin/sh\nexit 0\n")
	s := publishertest.New(3)
	for name, data := range map[string]string{"program": string(program),
		"ours.minisig": "untrusted comment: x\n" + s.Sign(program) + "\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run("-V", "-P", s.Public(), "-m", "program", "-x", "ours.minisig")
	run("-G", "-W", "-p", "key.pub", "-s", "key")
	run("-S", "-s", "key", "-m", "program", "-t", "what it is")
	pub, err := os.ReadFile(filepath.Join(dir, "key.pub"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "program.minisig"))
	if err != nil {
		t.Fatal(err)
	}
	keys, err := publisher.ParseKeys(string(pub))
	if err != nil {
		t.Fatal(err)
	}
	sig, err := publisher.Parse(string(text))
	if err != nil || keys.Verify(sig, digest(program)) != nil {
		t.Errorf("%v, %v", err, keys.Verify(sig, digest(program)))
	}
}

func FuzzParse(f *testing.F) {
	for _, n := range []string{"program.one", "program.two", "program.old"} {
		f.Add(string(read(f, n+".minisig")))
	}
	keys := known(f, "one")
	f.Fuzz(func(t *testing.T, text string) {
		sig, err := publisher.Parse(text)
		if err != nil {
			return
		}
		if len(sig.ID()) != 16 || len(text) > publisher.MaxSignature || keys.Verify(sig, digest(nil)) == nil {
			t.Errorf("%q", text)
		}
	})
}
