package attack

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/seal"
	"tandem.internal/shared/wire"
	"tandem.internal/testenv/rawmqtt"
)

// claims are what a node that has joined, or a broker in its name, says of what it knows and when it said it.
var claims = []attempt{
	{"a document of a future epoch, with a signature of its own", aNode, func(a *try) string {
		return a.claims("b7", a.epoch()+1_000_000)
	}, everywhere("journaled: stale, unknown-key")},
	{"the report of one kind as that of another", theBroker, func(a *try) string {
		return a.invents("n1", of("n1").Reported(wire.KindHealth), a.last(of("n1").Reported(wire.KindConfig)))
	}, outside("journaled: bad-signature")},
	{"what the run before has said, once more", theBroker, func(a *try) string {
		live, info := a.last(of("n2").Live()), a.last(of("n2").Reported(wire.KindInfo))
		old := a.View("n2").Boot
		a.stop["n2"]()
		a.startAgent("n2")
		a.Until("n2 is back", func() string {
			if n := a.View("n2"); !n.Online || n.Boot == old {
				return "not yet"
			}
			return ""
		})
		boot, lives, reports := a.View("n2").Boot, len(a.Entries("live")), len(a.Entries("report"))
		for range 3 {
			for name, text := range map[string]string{of("n2").Live(): live, of("n2").Reported(wire.KindInfo): info} {
				if err := a.hand.Publish(name, text, true); err != nil {
					return why(err)
				}
			}
		}
		out := a.invents("n2", of("n2").Reported(wire.KindInfo), number(info)) // which is heard after them
		for _, e := range a.Entries("report")[reports:] {
			if strings.Contains(string(e.Data), `"boot":"`+old+`"`) {
				return "BELIEVED " + string(e.Data)
			}
		}
		for _, e := range a.Entries("live")[lives:] {
			if strings.Contains(string(e.Data), `"boot":"`+old+`"`) {
				return "BELIEVED " + string(e.Data)
			}
		}
		if now := a.View("n2").Boot; now != boot {
			return "BELIEVED boot " + now
		}
		return out
	}, outside("journaled: bad-signature")},
}

func (u *unit) epoch() uint64 {
	s, err := u.App.Unit().Status(u.t.Context())
	if err != nil {
		u.t.Fatal(err)
	}
	return s.Epoch
}

// reportKey asks the join door for a node's report key, as its agent would.
func (a *try) reportKey(name string) []byte {
	a.t.Helper()
	at, conf := a.doorstep(a.certs["node/"+name])
	client := http.Client{Timeout: rawmqtt.Patience,
		Transport: &http.Transport{TLSClientConfig: conf, DisableKeepAlives: true}}
	res, err := client.Post("https://"+at+jointoken.ReportKeyPath, "application/json", strings.NewReader("{}"))
	if err != nil {
		a.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	k, err := jointoken.DecodeReportKey(bytes.TrimSpace(text))
	if err != nil {
		a.t.Fatalf("%s: %v", text, err)
	}
	return k.Key
}

// claims has a node with a certificate and a report key of its own claim to run a document that nobody has issued, and
// show a signature of its own. The outcome is what the journal says of it; the epoch has to stay.
func (a *try) claims(name string, epoch uint64) string {
	key, before := a.reportKey(name), a.epoch()
	c := a.session("node/" + name)
	subscribe(a.t, c, of(name).Request())
	heard := wire.Heard{Epoch: before, Time: a.Now().UTC()}
	says := func(to string, message []byte) {
		if err := c.Publish(to, string(wire.Prove(key, to, message, heard)), false); err != nil {
			a.t.Fatal(err)
		}
	}
	of := of(name)
	boot := fmt.Sprintf("1-%016x", time.Now().UnixNano())
	says(of.Live(), wire.Encode(&wire.Live{V: wire.Version, Node: name, Boot: boot, Session: 1, Up: true}))
	info := wire.NodeInfo{Type: "otherType", OS: "linux", Arch: "x", AgentVersion: "1"}
	says(of.Reported(wire.KindInfo), wire.Encode(&wire.Reported{V: wire.Version, Node: name, Kind: wire.KindInfo,
		Boot: boot, Seq: 1, Detail: wire.Encode(&info)}))
	ref := wire.DocRef{Epoch: epoch, Rev: 1, Version: "9.9.9", Hash: wire.Hash(nil)}
	says(of.Reported(wire.KindConfig), wire.Encode(&wire.Reported{V: wire.Version, Node: name, Kind: wire.KindConfig,
		Boot: boot, Seq: 1, Running: &ref}))
	var asked wire.Request
	if err := c.Until("it is asked to show the document", func(all []rawmqtt.Message) bool {
		for _, m := range all {
			r, err := wire.Decode[wire.Request]([]byte(m.Payload))
			if m.Topic == of.Request() && err == nil && r.Method == wire.MethodShow {
				asked = *r
				return true
			}
		}
		return false
	}); err != nil {
		if a.epoch() != before {
			return "THE EPOCH ROSE"
		}
		return why(err)
	}
	shown := &wire.Shown{Epoch: epoch, Rev: 1, Version: ref.Version, Hash: ref.Hash, Mode: wire.ModeApply}
	own := seal.NewSigner(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)))
	shown.Sig = own.Sign(seal.DesiredPreimage(shown.Of(unitName, name, wire.KindConfig)))
	says(of.Reply(), wire.Encode(&wire.Reply{V: wire.Version, Node: name, ID: asked.ID, Result: wire.Encode(shown)}))
	out := "nothing is in the journal"
	eventually(func() bool {
		for _, e := range a.Entries("trouble") {
			if e.Node == name && strings.Contains(string(e.Data), `"stale"`) &&
				strings.Contains(string(e.Data), string(wire.CodeUnknownKey)) {
				out = "journaled: stale, unknown-key"
				return true
			}
		}
		return false
	})
	says(of.Live(), wire.Encode(&wire.Live{V: wire.Version, Node: name, Boot: boot, Session: 1}))
	if now := a.epoch(); now != before {
		return fmt.Sprintf("THE EPOCH ROSE to %d", now)
	}
	return out
}
