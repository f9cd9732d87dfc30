package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/rootlist"
)

// rootDesk is a unit, and a root key that is called NAME.
func rootDesk(t *testing.T, b *bench, name string) (key, public string) {
	t.Helper()
	key = filepath.Join(b.dir, name)
	out, errs, exit := b.run("", "root", "create", key, "--no-password", "--json")
	var made struct{ ID, Key, SecretFile, PublicFile string }
	if err := json.Unmarshal([]byte(out), &made, json.MatchCaseInsensitiveNames(true)); err != nil || exit != 0 ||
		made.SecretFile != key || made.PublicFile != key+".pub" {
		t.Fatalf("%d %s%s: %v", exit, out, errs, err)
	}
	return key, made.Key
}

// runs has a command succeed, and returns what it prints.
func (b *bench) runs(args ...string) string {
	b.t.Helper()
	out, errs, exit := b.run("", args...)
	if exit != 0 {
		b.t.Fatalf("%v: %d %s%s", args, exit, out, errs)
	}
	return out
}

// TestRootKey: export, sign, import; then the next root key takes over, and the first one signs nothing any more. What
// is signed is shown, and minisign takes the signature.
func TestRootKey(t *testing.T) {
	b := newBench(t, apitest.StartSample(t))
	first, public := rootDesk(t, b, "first.key")
	second, _ := rootDesk(t, b, "second.key")
	var ca view.CAs
	if err := json.Unmarshal([]byte(b.runs("ca", "show", "--json")), &ca); err != nil || ca.Root != nil {
		t.Fatal(err, ca.Root)
	}
	list := func(name string, roots ...string) string {
		t.Helper()
		path := filepath.Join(b.dir, name)
		args := []string{"ca", "export", path}
		for _, r := range roots {
			args = append(args, "--root", r)
		}
		b.runs(args...)
		return path
	}
	one := list("one.json", first+".pub")
	shown := b.runs("root", "sign", one, "--key", first)
	if !strings.Contains(shown, ca.CAs[0].Fingerprint+", certifies") || !strings.Contains(shown, "wrote "+one) {
		t.Errorf("what is signed is not shown:\n%s", shown)
	}
	text, err := os.ReadFile(one + ".minisig")
	if err != nil {
		t.Fatal(err)
	}
	_, signature, _ := strings.Cut(string(text), "\n")
	minisignTakes(t, b.dir, public, one, signature)
	if out := b.runs("ca", "import", one); !strings.Contains(out, "has signed a list of") {
		t.Errorf("%s", out)
	}
	both := list("both.json", first+".pub", second+".pub")
	b.runs("root", "sign", both, "--key", first)
	b.runs("ca", "import", both)
	last := list("last.json", second+".pub")
	b.runs("root", "sign", last, "--key", second)
	b.runs("ca", "import", last)
	next := list("next.json")
	data, err := os.ReadFile(next)
	if err != nil {
		t.Fatal(err)
	}
	l, err := rootlist.Parse(data)
	if err != nil || len(l.Roots) != 1 {
		t.Errorf("%+v %v", l, err)
	}
	if out, errs, exit := b.run("", "root", "sign", next, "--key", first); exit == 0 ||
		!strings.Contains(errs, "it is not for this key to sign") {
		t.Errorf("%d %s%s", exit, out, errs)
	}
	if _, err := os.Stat(next + ".minisig"); err == nil {
		t.Error("there is a signature that counts for nothing")
	}
	if !strings.Contains(b.runs("journal", "export"), `"type":"root"`) {
		t.Error("the journal does not say so")
	}
}

// TestRootRefuses: no file is replaced unasked, nothing is signed that is no list, or one from a time to come, and
// nothing is imported that no root key has signed.
func TestRootRefuses(t *testing.T) {
	b := newBench(t, apitest.StartSample(t))
	key, _ := rootDesk(t, b, "r.key")
	good := filepath.Join(b.dir, "cas.json")
	b.runs("ca", "export", good, "--root", key+".pub")
	data, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	l, err := rootlist.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	l.Number += 90000
	later, err := l.Encode()
	if err != nil {
		t.Fatal(err)
	}
	late, odd := b.write("late.json", string(later)), b.write("odd.json", "[]")
	junk := bytes.Replace(data, []byte(`"unit"`), []byte(`"unit": "", "unit"`), 1)
	for _, name := range []string{late, odd} {
		b.write(filepath.Base(name)+".minisig", "none")
	}
	noCA := b.write("junk.json", string(junk))
	for _, c := range []struct{ args, want string }{
		{"root create " + key + " --no-password", "already-exists"},
		{"root create " + key + "2", "the key's password is needed"},
		{"root sign " + good, "needs --key FILE"},
		{"root sign " + good + " --key " + good, "it cannot be used as a key to sign with"},
		{"root sign " + late + " --key " + key, "already-exists"},
		{"root sign " + late + " --replace --key " + key, "a time to come"},
		{"root sign " + odd + " --replace --key " + key, "not a list of CAs"},
		{"root sign " + noCA + " --key " + key, "not a list of CAs"},
		{"root sign " + filepath.Join(b.dir, "none") + " --key " + key, "no such file"},
		{"ca export " + good + " --root " + key + ".pub", "already-exists"},
		{"ca export " + good + "2", "no root key has signed anything here yet"},
		{"ca export " + good + "2 --root nokey", "neither a public key"},
		{"ca export " + good + "2 --root " + good, "--root: file"},
		{"ca import " + good, "no such file"},
		{"ca import", "needs LIST"},
		{"ca import " + odd, "not a list of CAs"},
		{"ca import " + late, "its signature"},
	} {
		out, errs, exit := b.run("", strings.Fields(c.args)...)
		if exit == 0 || out != "" && !strings.HasPrefix(out, "unit ") || !strings.Contains(errs, c.want) {
			t.Errorf("%s: %d, want %s\n%s%s", c.args, exit, c.want, out, errs)
		}
	}
}
