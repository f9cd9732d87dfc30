package distribute_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/controller/internal/caller"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// sent is the body of an upload.
type sent struct{ io.Reader }

func (sent) Interrupt() {}

// add has ann add an artefact, and returns its digest.
func (u *seedUnit) add(content string) string {
	u.Helper()
	ctx, digest := caller.Named(u.Context(), "ann", "cli"), wire.Hash([]byte(content))
	s := u.core.Artefacts()
	v, err := s.Begin(ctx, op.NewArtefact{Digest: digest, Size: int64(len(content)), Name: content})
	if err == nil && v.State == view.UploadOpen {
		_, err = s.Write(ctx, digest, v.Offset, sent{bytes.NewReader([]byte(content)[v.Offset:])})
	}
	if err == nil {
		v, err = s.Complete(ctx, digest)
	}
	if err != nil || v.State != view.UploadAdded {
		u.Fatalf("%+v %v", v, err)
	}
	return digest
}

// artefacts are those of the store, as name:size@who.
func (u *seedUnit) artefacts() string {
	u.Helper()
	v, err := u.core.Artefacts().List(u.Context())
	if err != nil {
		u.Fatal(err)
	}
	var all []string
	for _, a := range v.Artefacts {
		all = append(all, fmt.Sprintf("%s:%d@%s", a.Name, a.Size, a.Who))
	}
	for _, up := range v.Uploads {
		all = append(all, fmt.Sprintf("%s %d/%d", up.Name, up.Offset, up.Size))
	}
	return strings.Join(all, " ")
}

// naming is a set of instances "service@node content": each has the content as its program.
func naming(entries ...string) []byte {
	var all []string
	for _, e := range entries {
		slot, content, _ := strings.Cut(e, " ")
		sum := strings.TrimPrefix(wire.Hash([]byte(content)), wire.HashPrefix)
		all = append(all, fmt.Sprintf(`{"@class":"Instance","configurationId":%q,"slot":%q,"resources":{`+
			`"iss_hook_start":{"@class":"Resource","urls":["https://elsewhere/x"],"size":0,`+
			`"verification":{"checksum":"SHA256:%s","checkPeriod":"0d0h0m"}}}}`, content, slot, strings.ToUpper(sum)))
	}
	return []byte("[" + strings.Join(all, ",") + "]")
}

// TestArtefactsSurvive: what was added, and an upload that was under way, are there after a restart, and after one from
// a checkpoint; the journal says who did what.
func TestArtefactsSurvive(t *testing.T) {
	inSeedUnit(t, func(t *testing.T, u *seedUnit) {
		u.start()
		u.add("one")
		time.Sleep(time.Second)
		two := u.add("two")
		ctx := caller.Named(t.Context(), "bob", "cli")
		digest := wire.Hash([]byte("three"))
		_, err := u.core.Artefacts().Begin(ctx, op.NewArtefact{Digest: digest, Size: 5, Name: "three"})
		if err == nil {
			_, err = u.core.Artefacts().Write(ctx, digest, 0, sent{strings.NewReader("th")})
		}
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second begins from the checkpoint of the first
			if got := u.artefacts(); got != "one:3@ann two:3@ann three 2/5" {
				t.Errorf("%s", got)
			}
			u.audit()
			u.restart()
		}
		gone := op.RemoveArtefactIn{ArtefactIn: op.ArtefactIn{Digest: two}}
		if _, err := u.core.Artefacts().Remove(ctx, gone); err != nil {
			t.Error(err)
		}
		u.restart()
		if got := u.artefacts(); got != "one:3@ann three 2/5" {
			t.Errorf("%s", got)
		}
		time.Sleep(26 * time.Hour) // nobody goes on with it
		synctest.Wait()
		if got := u.artefacts(); got != "one:3@ann" {
			t.Errorf("%s", got)
		}
		for typ, want := range map[string]int{"artefact-added": 2, "artefact-leased": 3, "artefact-removed": 2} {
			if n := u.entries(typ); n != want {
				t.Errorf("%d entries %s, want %d", n, typ, want)
			}
		}
		u.audit()
	})
}

// TestWhoMayFetch: a node may fetch what its own documents name, that which it runs and that which it should; nothing
// by saying that it runs another one's. What a document names is in use, also of a node that has never come.
func TestWhoMayFetch(t *testing.T) {
	inSeedUnit(t, func(t *testing.T, u *seedUnit) {
		u.start()
		one, two := u.worker("n1"), u.worker("n2")
		r := u.workloads(view.Submission{Document: naming("web@n1 a", "web@n2 b", "web@n9 c")})
		if r.State != "accepted" {
			t.Fatalf("%+v", r)
		}
		synctest.Wait()
		digests := map[string]string{}
		for _, content := range []string{"a", "b", "c", "d", "a2"} {
			digests[content] = u.add(content)
		}
		may := func(want string) {
			t.Helper()
			var got []string
			for _, node := range []string{"n1", "n2", "n9", "nobody"} {
				for _, content := range []string{"a", "b", "c", "d", "a2"} {
					ok, err := u.core.MayFetch(context.Background(), node, digests[content])
					if err != nil {
						t.Fatal(err)
					}
					if ok {
						got = append(got, node+" "+content)
					}
				}
			}
			if strings.Join(got, ", ") != want {
				t.Errorf("%s\nwant %s", got, want)
			}
		}
		inUse := func(content string) string {
			t.Helper()
			_, err := u.core.Artefacts().Remove(t.Context(),
				op.RemoveArtefactIn{ArtefactIn: op.ArtefactIn{Digest: digests[content]}})
			if err == nil {
				return ""
			}
			_, by, _ := strings.Cut(err.Error(), "in use: ")
			return by
		}
		may("n1 a, n2 b")
		if got := inUse("c"); got != "the workloads of n9" {
			t.Errorf("c is in use by %q", got)
		}
		if got := inUse("d"); got != "" {
			t.Errorf("d is in use by %q", got)
		}
		// n1 lies about what it runs.
		one.mu.Lock()
		own := one.work.running
		two.mu.Lock()
		one.work.running = two.work.running
		two.mu.Unlock()
		one.mu.Unlock()
		one.work.report(one)
		synctest.Wait()
		may("n1 a, n2 b")
		one.mu.Lock()
		one.work.running = own
		one.mu.Unlock()
		one.work.report(one)
		synctest.Wait()
		// While a node is away, what it runs is in use, and what it is to run as well.
		one.stop()
		if r := u.workloads(view.Submission{Document: naming("web@n1 a2", "web@n2 b")}); r.State != "accepted" {
			t.Fatalf("%+v", r)
		}
		synctest.Wait()
		may("n1 a, n1 a2, n2 b")
		u.restart()
		may("n1 a, n1 a2, n2 b")
		if a, a2 := inUse("a"), inUse("a2"); a != "the workloads of n1" || a2 != a {
			t.Errorf("a is in use by %q, a2 by %q", a, a2)
		}
		one.start()
		synctest.Wait()
		may("n1 a2, n2 b")
		if got := inUse("a"); got != "" {
			t.Errorf("a is in use by %q", got)
		}
		if got := inUse("c"); got != "" {
			t.Errorf("c is in use by %q", got)
		}
		u.audit()
	})
}

// TestReleasedArtefacts: a version of the agent is offered from the store only if that has it, stays in use while it is
// on offer and while a document names it, and is for the nodes that a policy offers it to.
func TestReleasedArtefacts(t *testing.T) {
	inSeedUnit(t, func(t *testing.T, u *seedUnit) {
		u.start()
		u.worker("n1")
		synctest.Wait()
		release := func(version, content, arch string, size int64) error {
			_, err := u.core.ReleaseAgent(u.Context(), op.ReleaseIn{AgentVersionIn: op.AgentVersionIn{Version: version},
				AgentBuilds: op.AgentBuilds{Builds: []view.AgentBuild{{Arch: arch, Hash: wire.Hash([]byte(content)),
					Size: size, Stored: true}}}})
			return err
		}
		if err := release("1.5.0", "new", "arm64", 3); err == nil ||
			!strings.Contains(err.Error(), "the controller's store has no artefact") {
			t.Errorf("what is not there is on offer: %v", err)
		}
		digest, other := u.add("new"), u.add("other")
		if err := release("1.5.0", "new", "arm64", 4); err == nil || !strings.Contains(err.Error(), "has 3 bytes") {
			t.Errorf("another size: %v", err)
		}
		for version, err := range map[string]error{"1.5.0": release("1.5.0", "new", "arm64", 3),
			"1.6.0": release("1.6.0", "other", "amd64", 5)} {
			if err != nil {
				t.Fatalf("%s: %v", version, err)
			}
		}
		check := func(want bool, users string) {
			t.Helper()
			synctest.Wait()
			for _, c := range []struct {
				node, digest string
				want         bool
			}{{"n1", digest, want}, {"n1", other, false}, {"n2", digest, false}} {
				if ok, err := u.core.MayFetch(u.Context(), c.node, c.digest); err != nil || ok != c.want {
					t.Errorf("%s may fetch %s: %v %v", c.node, c.digest, ok, err)
				}
			}
			used, err := u.core.ArtefactsUsed(u.Context())
			if got := strings.Join(used[digest], ", "); err != nil || got != users {
				t.Errorf("in use by %q %v, want %q", got, err, users)
			}
		}
		const onOffer = "version 1.5.0 of the agent, which is on offer"
		check(false, onOffer)
		if _, err := u.core.ApplyPolicy(u.Context(), op.ApplyPolicyIn{PolicyIn: op.PolicyIn{Policy: "p"},
			AllNodes: true, Document: []byte(`{"enabled":true,"agentUpgradePolicy":{}}`)}); err != nil {
			t.Fatal(err)
		}
		check(true, "the policies of n1, "+onOffer)
		u.restart()
		check(true, "the policies of n1, "+onOffer)
		if _, err := u.core.WithdrawAgent(u.Context(), op.AgentVersionIn{Version: "1.5.0"}); err != nil {
			t.Fatal(err)
		}
		check(false, "")
		u.audit()
	})
}

// TestDamagedArtefactIsTold: the journal and the status say that an artefact is damaged.
func TestDamagedArtefactIsTold(t *testing.T) {
	inSeedUnit(t, func(t *testing.T, u *seedUnit) {
		u.start()
		digest := u.add("one")
		name := strings.TrimPrefix(digest, wire.HashPrefix)
		file := filepath.Join(u.dir, "artefacts", "sha256", name[:2], name)
		if err := os.WriteFile(file, []byte("ons"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := u.core.Artefacts().Scrub(t.Context(), digest); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		s, err := u.core.Status(t.Context())
		if err != nil || !strings.Contains(strings.Join(s.Trouble, "\n"), digest+" (one) is damaged") {
			t.Errorf("%q %v", s.Trouble, err)
		}
		if n := u.entries("trouble"); n != 1 {
			t.Errorf("%d entries of trouble", n)
		}
		u.add("one")
		if s, err := u.core.Status(t.Context()); err != nil || strings.Contains(strings.Join(s.Trouble, "\n"), digest) {
			t.Errorf("%q %v", s.Trouble, err)
		}
	})
}
