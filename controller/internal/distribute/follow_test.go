package distribute_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/caller"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/items"
	"tandem.internal/shared/link"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// release has a version of a service in the unit, ready.
func (u *seedUnit) release(name, version string) {
	u.Helper()
	ctx := caller.Named(u.Context(), "ann", "cli")
	meta := fmt.Sprintf(`{"codename":%q,"type":"service","version":%q,"runtimes":["process"]}`, name, version)
	content := name + version
	digest := u.add(content)
	if _, err := u.core.Item(ctx, op.ItemIn{Type: "service", Item: name}); err != nil {
		if _, err := u.core.CreateItem(ctx, op.CreateItemIn{Document: []byte(meta)}); err != nil {
			u.Fatal(err)
		}
	}
	if _, err := u.core.ReleaseItem(ctx, op.ReleaseItemIn{ItemIn: op.ItemIn{Type: "service", Item: name},
		ItemRelease: op.ItemRelease{Meta: []byte(meta), State: items.Ready, Content: fmt.Appendf(nil,
			`{"form":"file","builds":[{"blobs":[{"digest":%q,"size":%d}]}]}`, digest, len(content))}}); err != nil {
		u.Fatal(err)
	}
}

// wish is a desired status of services "web 1.0.0", each once, and more members.
func wish(more string, services ...string) string {
	var all, instances []string
	for _, s := range services {
		name, version, _ := strings.Cut(s, " ")
		all = append(all, fmt.Sprintf(`{"item":{"codename":%q,"type":"service"},"version":%q}`, name, version))
		instances = append(instances, fmt.Sprintf(`{"item":{"codename":%q},"subject":{"codename":"hall"},`+
			`"numInstances":1}`, name))
	}
	return `{"messageType":"desiredStatus",` + more + `"items":[` + strings.Join(all, ",") + `],"instances":[` +
		strings.Join(instances, ",") + `],"subjects":[{"identity":{"codename":"hall"},"type":"group"}]}`
}

// desires submits a desired status as the cloud side, and returns the state of the answer, or its error.
func (u *seedUnit) desires(id, document string) string {
	u.Helper()
	m := wire.Submission{V: wire.Version, ID: id, From: "cloud", Document: jsontext.Value(document)}
	u.core.Handler().Message(link.Message{Topic: topic.ForInbox(seedName, "desired"), Payload: wire.Encode(&m)})
	time.Sleep(10 * time.Second)
	synctest.Wait()
	payload, _ := u.hub.Retained(topic.ForOutbox(seedName, "desired"))
	a, err := wire.Decode[wire.Answer](payload)
	switch {
	case err != nil:
		u.Fatal(err)
	case a.ID != id:
		return "no answer"
	case a.Error != nil:
		return a.Error.Error()
	}
	return a.State
}

// has is the unit status, as far as items go.
func (u *seedUnit) has() string {
	u.Helper()
	s, err := u.core.UnitStatus(u.Context(), op.UnitStatusIn{Report: true})
	if err != nil {
		u.Fatal(err)
	}
	var all []string
	for _, i := range s.Report.Items {
		all = append(all, fmt.Sprintf("%s %s %s", i.Item.Codename, i.Version, i.State))
	}
	return s.Report.CorrelationID + ": " + strings.Join(all, ", ")
}

func (u *seedUnit) now(when, want string) {
	u.Helper()
	if got := u.has(); got != want {
		u.Errorf("%s: %s, want %s", when, got, want)
	}
}

// TestDesiredStatusIsFollowed: what the cloud side sends is answered, decided, submitted and told of; the same again is
// nothing new; a newer one supersedes; after a restart all goes on, also if that comes before anything was done; and
// nobody else says what runs.
func TestDesiredStatusIsFollowed(t *testing.T) {
	inSeedUnit(t, func(t *testing.T, u *seedUnit) {
		u.steers = true
		u.start()
		n := u.worker("n1")
		u.release("web", "1.0.0")
		u.now("before anything was sent", ": ")
		if got := u.desires("d-0", `{"items":{}}`); !strings.Contains(got, "/items") {
			t.Errorf("%s", got)
		}
		if got := u.desires("d-empty", `{}`); !strings.Contains(got, "/messageType") {
			t.Errorf("%s", got)
		}
		config := `"correlationId":"c-1","unitConfig":{"formatVersion":"7","version":"1.0.0","nodes":[]},`
		if got := u.desires("d-1", wish(config, "web 1.0.0")); got != "accepted" {
			t.Fatalf("%s", got)
		}
		u.now("first", "c-1: web 1.0.0 installed")
		if st := u.status(); st.Version != "1.0.0" {
			t.Errorf("the unit configuration is %+v", st)
		}
		if got := n.gets(); !strings.Contains(got, "[web.hall.0:") || strings.Count(got, "[") != 1 {
			t.Errorf("n1 got %s", got)
		}
		before := u.entries("accepted") + u.entries("settings")
		if got := u.desires("d-2", wish(config, "web 1.0.0")); got != "accepted" {
			t.Errorf("the same again: %s", got)
		}
		u.restart()
		if got := u.desires("d-3", wish(config, "web 1.0.0")); got != "accepted" || n.gets() != "" ||
			u.entries("accepted")+u.entries("settings") != before+2 {
			t.Errorf("the same after a restart: %s, %s", got, n.gets())
		}
		if got := u.desires("d-2", wish(config, "web 1.0.0")); u.entries("accepted")+u.entries("settings") != before+2 {
			t.Errorf("what was judged before the restart: %s", got)
		}
		u.now("the same", "c-1: web 1.0.0 installed")

		if got := u.desires("d-4", wish("", "web 1.0.0", "api 1.0.0")); got != "accepted" {
			t.Errorf("%s", got)
		}
		u.now("one is not there", ": web 1.0.0 installed, api 1.0.0 failed")
		if s, err := u.core.Status(t.Context()); err != nil || s.Cloud == nil || s.Cloud.Rev == 0 ||
			!strings.Contains(s.Cloud.Who, "cloud") || !strings.Contains(strings.Join(s.Cloud.Failures, "\n"),
			"service api 1.0.0: not-found: the unit has no such item") {
			t.Errorf("%+v %v", s.Cloud, err)
		}
		u.stop() // what is wanted is in the journal; that there is more to do is found again
		u.start()
		u.release("api", "1.0.0")
		time.Sleep(10 * time.Second)
		u.now("it was released", ": api 1.0.0 installed, web 1.0.0 installed")
		u.audit()

		ctx := caller.Named(t.Context(), "ann", "cli")
		if _, err := u.core.ApplyDesired(ctx, op.ApplyDesiredIn{Of: wire.KindWorkloads}); wire.CodeOf(
			wire.AsError(err)) != wire.CodeNotAllowed {
			t.Errorf("desired apply: %v", err)
		}
		if _, err := u.core.Submit(ctx, view.Submission{Kind: wire.KindWorkloads,
			Document: []byte("[]")}); wire.CodeOf(wire.AsError(err)) != wire.CodeNotAllowed {
			t.Errorf("workload apply: %v", err)
		}
		if _, err := u.core.Rollback(ctx, wire.KindWorkloads, op.Rollback{Version: "1.0.0", As: "9.0.0"}); wire.CodeOf(
			wire.AsError(err)) != wire.CodeNotAllowed {
			t.Errorf("workload rollback: %v", err)
		}
		subject := op.SubjectIn{Subject: "hall"}
		set, err := u.core.ApplySubject(ctx, op.ApplySubjectIn{SubjectIn: subject, Document: []byte(
			`{"codename":"hall","type":"group","items":[{"type":"component","codename":"web"}]}`)})
		if text := strings.Join(set.Warnings, "\n"); err != nil || !strings.Contains(text, "does not count") ||
			!strings.Contains(text, `there is no item component/web; did you mean service/web?`) {
			t.Errorf("subject apply: %s %v", text, err)
		}
		if gone, err := u.core.RemoveSubject(ctx, subject); err != nil || len(gone.Warnings) != 1 {
			t.Errorf("subject remove: %+v %v", gone, err)
		}
		if p, err := u.core.PlanDesired(ctx, op.DecideIn{}); err != nil || p.Changes.Keep != 2 {
			t.Errorf("desired plan: %+v %v", p.Changes, err)
		}
		if got := u.desires("d-5", wish("")); got != "accepted" {
			t.Errorf("%s", got)
		}
		u.now("nothing is wanted", ": ")
		if got := n.gets(); !strings.HasSuffix(got, "[]") {
			t.Errorf("n1 got %s", got)
		}
	})
}

// TestRefusedConfigHoldsUpNothing: a unit configuration that cannot be taken is told of, and what else is wanted comes.
func TestRefusedConfigHoldsUpNothing(t *testing.T) {
	inSeedUnit(t, func(t *testing.T, u *seedUnit) {
		u.steers = true
		u.start()
		u.worker("n1")
		u.release("web", "1.0.0")
		if got := u.desires("d-1", wish(`"unitConfig":{"formatVersion":"6","version":"1.0.0","nodes":[]},`,
			"web 1.0.0")); got != "accepted" {
			t.Fatalf("%s", got)
		}
		u.now("with a bad configuration", ": web 1.0.0 installed")
		s, err := u.core.UnitStatus(t.Context(), op.UnitStatusIn{Report: true})
		if err != nil || len(s.Report.UnitConfig) != 2 || s.Report.UnitConfig[1].State != "failed" ||
			!strings.Contains(strings.Join(s.Trouble, "\n"), "tried again") {
			t.Errorf("%+v %v %v", s.Report.UnitConfig, s.Trouble, err)
		}
		refused := u.entries("refused")
		time.Sleep(time.Hour)
		if n := u.entries("refused") - refused; n < 5 || n > 12 {
			t.Errorf("it was tried %d times in an hour", n)
		}
	})
}

// TestRefusedSetIsTold: what nodes refuse is told of with their reason, as items and instances, until what is wanted is
// what is installed, though nothing was submitted.
func TestRefusedSetIsTold(t *testing.T) {
	inSeedUnit(t, func(t *testing.T, u *seedUnit) {
		u.steers = true
		u.start()
		n := u.worker("n1")
		u.release("web", "1.0.0")
		u.desires("d-1", wish("", "web 1.0.0", "api 1.0.0"))
		n.mu.Lock()
		n.refuse = func(string) *wire.Error { return wire.New(wire.CodeNotAllowed, "", "not today") }
		n.mu.Unlock()
		u.release("api", "1.0.0")
		time.Sleep(20 * time.Second)
		u.now("refused", ": web 1.0.0 installed, api 1.0.0 failed")
		told := func() (in, of int) {
			s, err := u.core.UnitStatus(t.Context(), op.UnitStatusIn{Report: true})
			if err != nil {
				t.Fatal(err)
			}
			for _, g := range s.Report.Instances {
				for _, i := range g.Instances {
					if i.ErrorInfo != nil && strings.Contains(i.ErrorInfo.Message, "not today") {
						of++
					}
				}
			}
			return strings.Count(strings.Join(s.Trouble, "\n"), "not today"), of
		}
		if in, of := told(); in != 1 || of != 1 {
			t.Errorf("the reason is told of as trouble %d times, of %d instances", in, of)
		}
		if _, err := u.core.DeprecateItem(caller.Named(t.Context(), "ann", "cli"), op.ItemVersionIn{
			ItemIn: op.ItemIn{Type: "service", Item: "api"}, Version: "1.0.0"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if in, of := told(); in+of > 0 {
			t.Errorf("it is over, and told of %d and %d times", in, of)
		}
	})
}

// TestDesiredStatusIsRefusedWhereOthersSteer: it is not taken unless the controller was started so.
func TestDesiredStatusIsRefusedWhereOthersSteer(t *testing.T) {
	inSeedUnit(t, func(t *testing.T, u *seedUnit) {
		u.start()
		if got := u.desires("d-1", wish("", "web 1.0.0")); !strings.Contains(got, "--steering cloud") {
			t.Errorf("%s", got)
		}
		u.steers = true
		u.restart()
		if _, err := u.core.PlanDesired(t.Context(), op.DecideIn{}); err == nil ||
			!strings.Contains(err.Error(), "has sent no desired status yet") {
			t.Errorf("%v", err)
		}
	})
}
