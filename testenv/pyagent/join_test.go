package pyagent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	controller "tandem.internal/controller/app"
	"tandem.internal/testenv/proc"
	"tandem.internal/testenv/trust"
)

// With the token of a batch the agent asks under its own name until it is approved, with one key also when it was
// killed in between; then it is a node like others.
func TestBatchInPython(t *testing.T) {
	needPython(t)
	u := &unit{Rig: trust.Idle(t), t: t, args: []string{"--type", "mainType", "--max-priority", fmt.Sprint(limit)}}
	port := proc.Port(t)
	u.Start(func(c *controller.Config) {
		c.ListenTLS, c.JoinListen = fmt.Sprintf("127.0.0.1:%d", port), fmt.Sprintf("127.0.0.1:%d", port+1)
	})
	admin := controller.As(t.Context(), "ann")
	grant, err := u.App.Unit().CreateBatch(admin, controller.NewBatch{Name: "line4", Count: 1,
		From: []string{"127.0.0.0/8"}, Names: []string{"ecu-*"}})
	if err != nil {
		t.Fatal(err)
	}
	if out := proc.Run(t, u.Dir, nil, u.joins(u.Enroll("ecu-2"), "--node", node)...); out.Status == 0 ||
		!strings.Contains(out.Errors, "the token is for the node ecu-2, not "+node) {
		t.Errorf("a token of another node: %+v", out)
	}
	if out := proc.Run(t, u.Dir, nil, u.joins(grant.Token, "--node", "other")...); out.Status == 0 ||
		!strings.Contains(out.Errors, "the controller refuses: ") {
		t.Errorf("a name that the batch has not: %+v", out)
	}
	key := ""
	waits := func() *proc.Process {
		p := proc.Start(t, "join", nil, u.joins(grant.Token, "--node", node, "--wait", "0.2")...)
		u.Until("it waits", func() string {
			if !strings.Contains(p.Log(), "unavailable") {
				return "it has said: " + p.Log()
			}
			return ""
		})
		all, err := u.App.Unit().Pending(t.Context())
		if err != nil || len(all.Nodes) != 1 || all.Nodes[0].Node != node || key != "" && all.Nodes[0].Key != key {
			t.Fatalf("%+v, not with the key %s: %v", all, key, err)
		}
		key = all.Nodes[0].Key
		return p
	}
	waits().Kill()
	p := waits()
	if _, err := u.App.Unit().ApproveJoin(admin, controller.JoinOrder{
		Nodes: []controller.NodeKey{{Node: node, Key: key}}}); err != nil {
		t.Fatal(err)
	}
	if status := p.Wait(time.Minute); status != 0 {
		t.Fatalf("%d: %s", status, p.Log())
	}
	if _, err := os.Stat(filepath.Join(u.dir(), "joining.pem")); !os.IsNotExist(err) {
		t.Errorf("its key lies there twice: %v", err)
	}
	u.start()
	u.agent.Stop()
	u.Stop()
}
