package cli

import (
	"context"
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/api"
	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
)

// receivesNotices is a sample with receivers.
func receivesNotices(u *apitest.Rig) {
	first := uint64(3)
	for _, in := range []op.NewNotice{
		{Name: "pager", URL: "https://hooks.example.com/services/T0/secret",
			NoticeFilter: view.NoticeFilter{Level: "error"}},
		{Name: "presses", URL: "http://127.0.0.1:9000/", Always: true, After: &first, NoticeFilter: view.NoticeFilter{
			Types: []string{"alert", "live"}, Nodes: []string{"press-*"}, Who: []string{"token/*"}}},
		{Name: "relay", URL: "http://down.example.com/", Insecure: true},
	} {
		_, err := u.Notices.Add(as(apitest.Alice), in)
		must(err)
	}
}

// receivers are told what only happens in time.
var receivers = []view.NoticeReceiver{
	{Name: "pager", URL: "https://hooks.example.com", Filter: view.NoticeFilter{Level: "error"},
		Created: apitest.Now.Add(-48 * time.Hour), By: "uid:1000(alice)", State: "ok", Cursor: 811, Delivered: 12,
		Last: apitest.Now.Add(-time.Hour), LastID: "790-8c2d1f0a4b5e6978"},
	{Name: "relay", URL: "https://10.0.0.9:8443",
		Filter: view.NoticeFilter{Level: "warning", Nodes: []string{"press-*"}}, CA: true,
		Created: apitest.Now.Add(-time.Hour), By: "token/ann", State: "failing", Cursor: 640, Lag: 171,
		Waiting: 32, Tries: 7, NextTry: apitest.Now.Add(50 * time.Second),
		Error: "it answered 503 Service Unavailable: \x1b[31mlater", ErrorAt: apitest.Now.Add(-14 * time.Second),
		Quiet: apitest.Now.Add(20 * time.Minute), LeftOut: 1},
}

func TestNotifyCommands(t *testing.T) {
	some := played(receivesNotices)
	inTime := answered(
		api.Ask(op.ListNotices, func(context.Context) (op.Notices, error) {
			return op.Notices{Receivers: receivers}, nil
		}),
		api.Bind(op.ShowNotice, func(_ context.Context, in op.NoticeIn) (view.NoticeReceiver, error) {
			return receivers[map[string]int{"pager": 0, "relay": 1}[in.Receiver]], nil
		}))
	for _, c := range []struct {
		name  string
		args  string
		state change
	}{
		{"notify-add", "notify add pager https://hooks.example.com/services/T0/secret", nil},
		{"notify-add-all", "notify add presses http://10.0.0.9/in --insecure-http --level error --type alert,live " +
			"--node press-* --who token/* --during-maintenance --after 2", nil},
		{"notify-add-where", "notify add presses https://10.0.0.9/in --where type:press", nil},
		{"notify-add-no-filter", "notify add presses https://10.0.0.9/in --where tpye:press", nil},
		{"notify-add-twice", "notify add pager https://hooks.example.com/", some},
		{"notify-add-http", "notify add pager http://hooks.example.com/secret", nil},
		{"notify-add-password", "notify add pager https://ann:secret@hooks.example.com/", nil},
		{"notify-add-no-address", "notify add pager hooks.example.com/secret", nil},
		{"notify-add-level", "notify add pager https://hooks.example.com/ --level bad", nil},
		{"notify-add-type", "notify add pager https://hooks.example.com/ --type alrt", nil},
		{"notify-add-ca", "notify add pager https://hooks.example.com/ --ca CA", nil},
		{"notify-add-after", "notify add pager https://hooks.example.com/ --after 1000000", nil},
		{"notify-add-name", "notify add a/b https://hooks.example.com/", nil},
		{"notify-add-journal-broken", "notify add pager https://hooks.example.com/",
			answered(apitest.Failing(op.AddNotice, diskFull))},
		{"notify-list", "notify list", some},
		{"notify-list-none", "notify list", nil},
		{"notify-list-in-time", "notify list", inTime},
		{"notify-show", "notify show presses", some},
		{"notify-show-ok", "notify show pager", inTime},
		{"notify-show-failing", "notify show relay", inTime},
		{"notify-show-misspelt", "notify show pagr", some},
		{"notify-test", "notify test pager", some},
		{"notify-test-down", "notify test relay", some},
		{"notify-test-unknown", "notify test nobody", some},
		{"notify-remove", "notify remove pager", some},
		{"notify-remove-unknown", "notify remove nobody", some},
		{"notify-events", "events --type note", played(receivesNotices, func(u *apitest.Rig) {
			_, err := u.Notices.Remove(as(apitest.Alice), op.NoticeIn{Receiver: "pager"})
			must(err)
		})},
		{"notify-needs-a-command", "notify", nil},
	} {
		for _, suffix := range []string{"", "-json"} {
			t.Run(c.name+suffix, func(t *testing.T) {
				t.Parallel()
				b := c.state.bench(t)
				files := strings.NewReplacer("CA", b.write("ca.pem", "no certificate"), "DIR", b.dir)
				b.golden(t, c.name, suffix, strings.Fields(files.Replace(c.args)))
			})
		}
	}
}
