package oci_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	v1 "github.com/opencontainers/image-spec/specs-go/v1"

	"tandem.internal/controller/internal/oci"
	"tandem.internal/controller/internal/oci/ocitest"
)

// layered is an image with this configuration and a layer of each list of entries.
func layered(t testing.TB, c v1.ImageConfig, layers ...[]ocitest.Entry) *ocitest.Layout {
	t.Helper()
	l := ocitest.New(t)
	var all []ocitest.Layer
	for _, entries := range layers {
		all = append(all, l.Layer(ocitest.Tar(t, entries...)))
	}
	l.Index(l.Manifest(ocitest.Image(c), all, nil))
	return l
}

// TestUser: whom an image runs as, and that no link, and no file that upper layers hide, is read for it.
func TestUser(t *testing.T) {
	type layers = [][]ocitest.Entry
	passwd := func(text string) []ocitest.Entry { return []ocitest.Entry{ocitest.File("etc/passwd", text)} }
	base := []ocitest.Entry{
		ocitest.File("etc/passwd", "# users\nroot:x:0:0::/:\nbroken:x\n:x:5:5::/:\napp:x:1000:1001::/:\r\n"+
			"app:x:1:1::/:\nbig:x:2147483648:1::/:\nneg:x:-1:1::/:\ngid:x:7:4294967296::/:\nempty:x:::::\n"),
		ocitest.File("etc/group", "root:x:0:\napp:x:1002:\nvideo:x:44:app\nhigh:x:4294967296:\nnone:x::\n"),
	}
	only := layers{base}
	for _, c := range []struct {
		user, want string
		layers     layers
	}{
		{"", "0:0", nil},
		{"0", "0:0", nil},
		{"1000", "1000:0", nil},
		{"1000:7", "1000:7", nil},
		{"1000", "1000:1001", only},
		{"0:video", "0:44", only},
		{"app", "1000:1001", only},
		{"app:video", "1000:44", only},
		{"app:5", "1000:5", only},
		{"2147483647:2147483647", "2147483647:2147483647", nil},
		{"2147483648", "numbers of users and groups are at most 2147483647", nil},
		{"4294967296", "at most 2147483647", nil},
		{"1:4294967296", "at most 2147483647", nil},
		{"99999999999999999999999999", "at most 2147483647", nil},
		{"-1", "is neither a number nor a name", only},
		{"+1", "is neither a number nor a name", only},
		{":1", "is neither a number nor a name", only},
		{"1:", "is neither a number nor a name", only},
		{":", "is neither a number nor a name", only},
		{"1:1:1", "there is no such group", only},
		{"0x10", "there is no such user", only},
		{" 1", "there is no such user", only},
		{"nobody", "there is no such user in etc/passwd; a number, as in 1000:1000, needs no file", only},
		{"app:nobody", "there is no such group in etc/group", only},
		{"big", "at most 2147483647", only},
		{"neg", "is neither a number nor a name", only},
		{"gid", "at most 2147483647", only},
		{"7", "at most 2147483647", only},
		{"7:7", "7:7", only},
		{"empty", "is neither a number nor a name", only},
		{"broken", "there is no such user", only},
		{"app:high", "it has no number that is taken", only},
		{"app:none", "it has no number that is taken", only},
		{"app", "etc/passwd is not in the image", nil},
		{"1:app", "etc/group is not in the image", layers{passwd("app:x:1:1::/:")}},
		{"app", "etc/passwd is no file of its own in the image", layers{base,
			{ocitest.Symlink("etc/passwd", "../secret")}}},
		{"app", "etc/passwd is no file of its own in the image", layers{{ocitest.File("s", "app:x:0:0::/:"),
			ocitest.Hard("etc/passwd", "s")}}},
		{"app", "etc/passwd is no file of its own in the image", layers{{ocitest.Dir("etc/passwd")}}},
		{"app", "etc is no directory in the image", layers{base, {ocitest.Symlink("etc", "/proc/self/root/etc")}}},
		{"app", "2:2", layers{base, passwd("app:x:2:2::/:")}},
		{"app", "2:2", layers{{ocitest.Symlink("etc/passwd", "x")}, passwd("app:x:2:2::/:")}},
		{"app", "is not in the image", layers{base, {ocitest.File("etc/.wh.passwd", "")}}},
		{"app", "is not in the image", layers{base, {ocitest.File(".wh.etc", "")}}},
		{"app", "is not in the image", layers{base, {ocitest.File("etc/.wh..wh..opq", "")}}},
		{"app", "is not in the image", layers{base, {ocitest.File(".wh..wh..opq", "")}}},
		{"app", "3:3", layers{base, append(passwd("app:x:3:3::/:"), ocitest.File("etc/.wh..wh..opq", ""))}},
		{"app:video", "1000:44", layers{base, {ocitest.File("etc/.wh.hosts", "")}, {ocitest.Dir("etc")}}},
		{"app", "is too large to be read", layers{passwd(strings.Repeat("#\n", oci.MaxAccounts/2) + "#")}},
		{"app", "4:4", layers{passwd(strings.Repeat("#\n", oci.MaxAccounts/2-7) + "app:x:4:4:::\n")}},
	} {
		l := layered(t, v1.ImageConfig{User: c.user}, c.layers...)
		got := refused(t, l.Dir, oci.Options{})
		if got == "" {
			got = open(t, l.Dir, oci.Options{}).Platforms[0].Config.User.String()
		}
		if got != c.want && (!strings.Contains(got, c.want) || !strings.Contains(got, "User")) {
			t.Errorf("%q: %s, want %s", c.user, got, c.want)
		}
	}
}

// TestConfig: what nodes would have to trust in a configuration.
func TestConfig(t *testing.T) {
	for _, c := range []struct {
		name, want string
		config     v1.ImageConfig
	}{
		{"directory", "/a/b", v1.ImageConfig{WorkingDir: "/a//./b/"}},
		{"no directory", "/ ", v1.ImageConfig{}},
		{"directory of a descriptor",
			"WorkingDir: \"/proc/self/fd/8\" is no directory of the image: /proc is the machine's",
			v1.ImageConfig{WorkingDir: "/proc/self/fd/8"}},
		{"the same by a detour", "/proc is the machine's", v1.ImageConfig{WorkingDir: "/a/../proc/self/fd/8"}},
		{"/sys", "/sys is the machine's", v1.ImageConfig{WorkingDir: "/sys"}},
		{"/dev", "/dev is the machine's", v1.ImageConfig{WorkingDir: "/dev/fd/8"}},
		{"/process", "/process", v1.ImageConfig{WorkingDir: "/process"}},
		{"relative directory", "is no absolute path", v1.ImageConfig{WorkingDir: "proc"}},
		{"zero in a directory", "is no absolute path", v1.ImageConfig{WorkingDir: "/a\x00"}},
		{"signal", "SIGTERM", v1.ImageConfig{StopSignal: "sigterm"}},
		{"signal without SIG", "SIGUSR1", v1.ImageConfig{StopSignal: "USR1"}},
		{"number of a signal", "SIGKILL", v1.ImageConfig{StopSignal: "9"}},
		{"real-time signal", "SIGRTMIN+3", v1.ImageConfig{StopSignal: "SIGRTMIN+3"}},
		{"first of them", "SIGRTMIN", v1.ImageConfig{StopSignal: "RTMIN"}},
		{"no signal", `StopSignal: "SIG" is no signal`, v1.ImageConfig{StopSignal: "SIG"}},
		{"number 0", "is no signal", v1.ImageConfig{StopSignal: "0"}},
		{"number 65", "is no signal", v1.ImageConfig{StopSignal: "65"}},
		{"real-time signal too high", "is no signal", v1.ImageConfig{StopSignal: "RTMIN+31"}},
		{"the first of the list", "is no signal", v1.ImageConfig{StopSignal: "-"}},
		{"arguments", "[/a b c d]", v1.ImageConfig{Entrypoint: []string{"/a", "b"}, Cmd: []string{"c", "d"}}},
		{"program without a name", "the program has no name", v1.ImageConfig{Entrypoint: []string{""}}},
		{"zero in an argument", "has a zero byte", v1.ImageConfig{Cmd: []string{"/a", "b\x00c"}}},
		{"long arguments", "have 131073 bytes; at most 131072 are taken", v1.ImageConfig{
			Cmd: []string{strings.Repeat("a", 1<<16), strings.Repeat("a", 1<<16), "a"}}},
		{"variable without a value", `Env: "A" is not NAME=value`, v1.ImageConfig{Env: []string{"A"}}},
		{"variable without a name", "is not NAME=value", v1.ImageConfig{Env: []string{"=A"}}},
		{"empty variable", "[A= B==]", v1.ImageConfig{Env: []string{"A=", "B=="}}},
		{"ports", "[{53 tcp} {53 udp} {80 tcp} {8080 tcp}]", v1.ImageConfig{ExposedPorts: map[string]struct{}{
			"8080": {}, "80/tcp": {}, "53/udp": {}, "53/tcp": {}, "80": {}}}},
		{"another protocol", `ExposedPorts: "9/sctp" is left out`, v1.ImageConfig{ExposedPorts: map[string]struct{}{
			"9/sctp": {}}}},
		{"port 0", `ExposedPorts: "0/tcp" is no port`, v1.ImageConfig{ExposedPorts: map[string]struct{}{"0/tcp": {}}}},
		{"port 65536", "is no port", v1.ImageConfig{ExposedPorts: map[string]struct{}{"65536": {}}}},
		{"range of ports", "is no port", v1.ImageConfig{ExposedPorts: map[string]struct{}{"1-2/tcp": {}}}},
		{"volumes", `Volumes are not looked at: ["/a" "/b"]`, v1.ImageConfig{
			Volumes: map[string]struct{}{"/b": {}, "/a": {}}}},
	} {
		l := layered(t, c.config)
		got := refused(t, l.Dir, oci.Options{})
		if got == "" {
			p := open(t, l.Dir, oci.Options{}).Platforms[0]
			got = fmt.Sprint(p.Config, p.Config.WorkingDir, " ", p.Remarks)
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// TestPlatformOfTheConfig: the configuration says for what an image is, and the index may add to it.
func TestPlatformOfTheConfig(t *testing.T) {
	l := ocitest.New(t)
	d := simple(l, func(_ *v1.Manifest, c *v1.Image) { c.Architecture, c.OSFeatures = "arm64", []string{"b", "a"} })
	d.Platform = &v1.Platform{OS: "linux", Architecture: "arm64", Variant: "v8"}
	l.Index(d)
	p := open(t, l.Dir, oci.Options{}).Platforms[0]
	got := []any{p.OS, p.Arch, p.Variant, p.OSFeatures, p.Manifest}
	want := []any{"linux", "arm64", "v8", []string{"a", "b"}, string(d.Digest)}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
