package steer_test

import (
	"testing"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/shared/items"
	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// TestEncryptedItems: what is encrypted is fetched as the file that it is in, and known by its content.
func TestEncryptedItems(t *testing.T) {
	u := newUnit(t)
	u.sealed = true
	u.node("n1", "press", "amd64", func(i *wire.NodeInfo) {
		i.Runtimes = append(i.Runtimes, wire.Runtime{ID: "os", Type: "os", Architecture: "amd64"})
	})
	u.hooks = []string{"iss_hook_start"}
	u.has(items.Meta{Type: items.Service, Codename: "web", Version: "1.0.0"}, items.Tree)
	u.has(items.Meta{Type: items.Component, Codename: "base", Version: "2.0.0", Runtimes: []string{"os"}}, items.File)
	u.Subject(items.Subject{Codename: "press", Type: items.NodeType, Items: []items.Attachment{
		{Type: items.Service, Codename: "web"}, {Type: items.Component, Codename: "base"}}})
	u.Apply()
	sealed := func(name string) (string, wire.Encrypted) {
		digest := wire.Hash([]byte(name + ".age"))
		return jointoken.ArtefactURL(digest), wire.Encrypted{Digest: digest, Size: 5}
	}
	url, file := sealed("web1.0.0")
	r := u.slots("n1")["web.press.0"].Resources[workload.HookStart]
	if r.URLs[0] != url || r.Encrypted == nil || *r.Encrypted != file ||
		r.Verification.Checksum != "SHA256:"+wire.Hash([]byte("web1.0.0"))[7:] {
		t.Errorf("%+v %+v", r, r.Encrypted)
	}
	url, file = sealed("base2.0.0")
	c, err := wire.Decode[wire.Components](u.Contents[wire.KindComponents].For(kind.Facts{Node: "n1"}).Bytes)
	if err != nil || len(c.Components) != 1 {
		t.Fatalf("%v %+v", err, c)
	}
	if one := c.Components[0]; one.URLs[0] != url || one.Encrypted == nil || *one.Encrypted != file ||
		one.Hash != wire.Hash([]byte("base2.0.0")) {
		t.Errorf("%+v %+v", one, one.Encrypted)
	}
}
