package trust

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	controller "tandem.internal/controller/app"
	node "tandem.internal/nodeagent/app"
	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/publisher/publishertest"
	"tandem.internal/shared/rootlist"
)

// rootSigned is the list of the CAs as they are now, signed with a root key. It names the root keys of these.
func (r *Rig) rootSigned(by publishertest.Signer, roots ...publishertest.Signer) controller.SignedList {
	r.t.Helper()
	var in controller.ExportCAs
	for _, root := range roots {
		in.Roots = append(in.Roots, root.Public())
	}
	draft, err := r.App.Unit().ExportCAs(controller.As(r.t.Context(), "ann"), in)
	if err != nil {
		r.t.Fatal(err)
	}
	l, err := rootlist.Parse([]byte(draft.List))
	if err != nil {
		r.t.Fatal(err)
	}
	return controller.SignedList{List: draft.List, Signature: by.SignAs([]byte(draft.List), l.Comment())}
}

func (r *Rig) importList(lists ...controller.SignedList) error {
	_, err := r.App.Unit().ImportCAs(controller.As(r.t.Context(), "ann"), controller.ImportCAs{Lists: lists})
	return err
}

// rooted has the unit's list signed and imported, and waits until as many nodes have taken it.
func (r *Rig) rooted(nodes int, by publishertest.Signer, roots ...publishertest.Signer) controller.SignedList {
	r.t.Helper()
	r.Pass(time.Second) // numbers are seconds
	s := r.rootSigned(by, roots...)
	if err := r.importList(s); err != nil {
		r.t.Fatal(err)
	}
	r.Until("the list is taken", func() string {
		v, err := r.App.Unit().ShowCAs(r.t.Context())
		if err != nil || v.Root == nil || v.Root.Nodes != nodes || v.Root.Behind {
			return fmt.Sprintf("%+v %v", v.Root, err)
		}
		return ""
	})
	return s
}

// replaceCA goes from one CA to the next with one node, whoever else is left behind.
func (r *Rig) replaceCA(with string) (from, to string) {
	r.t.Helper()
	ids := r.rotateCA(false)
	r.Until(with+" believes the next CA", func() string {
		v, err := r.App.Unit().ShowCAs(r.t.Context())
		if err != nil || slices.Contains(v.CAs[1].Missing, with) {
			return fmt.Sprintf("%+v %v", v, err)
		}
		return ""
	})
	r.rotateCA(true)
	r.certifiedBy(with, ids[1])
	if err := r.retireCA(ids[0], true); err != nil {
		r.t.Fatal(err)
	}
	return ids[0], ids[1]
}

// provesAgain waits until nodes prove what they say.
func (r *Rig) provesAgain(nodes ...string) {
	r.t.Helper()
	r.Until("proofs", func() string {
		for _, n := range nodes {
			if r.View(n).Identity.Proves.IsZero() {
				return n + " proves nothing"
			}
		}
		return ""
	})
	r.allProved(nodes...)
}

// lostSight waits until a node refuses the controller.
func (r *Rig) lostSight(name string) {
	r.t.Helper()
	r.Until(name+" refuses the controller", func() string {
		for _, e := range r.Logs.FilterMessageSnippet("no session with the broker").All() {
			if strings.Contains(fmt.Sprint(e.ContextMap()), "certificate signed by unknown authority") {
				return ""
			}
		}
		return "it has not said so"
	})
}

// Nodes that were away through the whole rotation, or longer, follow by what the root key has signed: what they learned
// of it from the controller while they believed that, or were given. Nobody else gets in by it.
func TestRootKeyBringsNodesBack(t *testing.T) {
	r := NewRig(t)
	root := publishertest.New(1)
	stop := map[string]func(){}
	names := []string{"n1", "n2", "gone", "given", "none"}
	for _, n := range names {
		r.Joined(n)
	}
	for _, n := range []string{"n1", "n2", "gone"} {
		stop[n] = r.Agent(n)
		r.Online(n, true)
	}
	r.apply("1.0.0")
	r.runs("1.0.0", "n1", "n2", "gone")
	before := r.rooted(3, root, root)
	thief := r.stolenCA("ca-key.pem")
	serial, err := x509.ParseCertificate(r.certificate("n2").Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []string{"n2", "gone"} {
		stop[n]()
		r.Online(n, false)
	}
	r.Pass(2 * time.Minute) // who has just joined does not renew at once
	old, now := r.replaceCA("n1")
	if _, err := r.App.Unit().Revoke(controller.As(t.Context(), "ann"), controller.RevokeIn{
		NodeIn: controller.NodeIn{Node: "gone"}}); err != nil {
		t.Fatal(err)
	}
	// What was signed before leads nobody anywhere.
	stop["n2"] = r.Agent("n2")
	r.lostSight("n2")
	if err := r.importList(before); err == nil || !strings.Contains(err.Error(), "no newer") {
		t.Errorf("a list is taken twice: %v", err)
	}
	v, err := r.App.Unit().ShowCAs(t.Context())
	if err != nil || !v.Root.Behind {
		t.Errorf("%+v %v", v.Root, err)
	}
	stop["n2"]()

	r.rooted(1, root)
	stop["n2"], stop["gone"] = r.Agent("n2"), r.Agent("gone")
	stop["given"] = r.Agent("given", func(c *node.Config) { c.RootKeys = []string{root.Public()} })
	stop["none"] = r.Agent("none")
	r.apply("2.0.0")
	for _, n := range []string{"n2", "given"} {
		r.certifiedBy(n, now)
		r.Online(n, true)
	}
	r.runs("2.0.0", "n1", "n2", "given")
	r.provesAgain("n1", "n2", "given")
	r.certifiedBy("gone", old)
	r.certifiedBy("none", old)
	if r.View("gone").Online || r.View("none").Online {
		t.Error("who was revoked, or knows no root key, is in again")
	}
	r.thiefOfACA(thief, serial.SerialNumber)
	// A restart finds all of it.
	for _, f := range stop {
		f()
	}
	r.Stop()
	r.Start(nil)
	for _, n := range []string{"n1", "n2", "given"} {
		r.Agent(n)
		r.Online(n, true)
	}
}

// certificate is what a machine shows.
func (r *Rig) certificate(machine string) tls.Certificate {
	own, _ := r.Credentials(machine)
	return own
}

// thiefOfACA has whoever stole a retired CA ask for a certificate by the number of one that counts, without its key.
func (r *Rig) thiefOfACA(thief stolenCA, serial *big.Int) {
	t := r.t
	t.Helper()
	key := newKey(t)
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	body, err := jointoken.Encode(&jointoken.RenewRequest{CSR: csr})
	if err != nil {
		t.Fatal(err)
	}
	_, pool := r.Credentials("n1")
	v, err := r.App.Unit().ShowCAs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var fp jointoken.Fingerprint
	if n, err := hex.Decode(fp[:], []byte(strings.TrimPrefix(v.CAs[0].Fingerprint, "sha256:"))); n != len(fp) {
		t.Fatal(n, err)
	}
	tried := byte(0)
	for _, path := range []string{jointoken.RenewPath, jointoken.KeysPath, jointoken.CAPath, jointoken.ReportKeyPath} {
		for _, subject := range []string{"node/n2", "operator/ann", "controller"} {
			tried++ // from an address of its own: failures of one are few
			from := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 2, tried)}}
			c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: from.DialContext,
				TLSClientConfig: &tls.Config{
					InsecureSkipVerify: true, RootCAs: pool, ServerName: jointoken.KeyedName(fp), Time: r.Now,
					Certificates: []tls.Certificate{thief.certify(t, subject, "", serial)}}}}
			what := []byte("{}")
			if path == jointoken.RenewPath {
				what = body
			}
			res, err := c.Post(r.App.JoinURL()+path, "application/json", bytes.NewReader(what))
			if err != nil {
				t.Errorf("%s as %s: %v", path, subject, err)
				continue
			}
			answer, err := io.ReadAll(res.Body)
			if cerr := res.Body.Close(); err != nil || cerr != nil {
				t.Error(err, cerr)
			}
			if res.StatusCode != http.StatusForbidden {
				t.Errorf("%s as %s: %d %s", path, subject, res.StatusCode, answer)
			}
		}
	}
}

// The gateway is gone, and somebody else has it, with the CA and the signing key. A new one begins with a copy of the
// journal and keys of its own: nodes follow by the root key, and believe the thief nothing any more.
func TestRootKeyAfterTheGatewayIsLost(t *testing.T) {
	r := NewRig(t)
	first, second := publishertest.New(1), publishertest.New(2)
	stop := map[string]func(){}
	for _, n := range []string{"n1", "n2"} {
		r.Joined(n)
		stop[n] = r.Agent(n)
		r.Online(n, true)
	}
	r.apply("1.0.0")
	r.runs("1.0.0", "n1", "n2")
	r.rooted(2, first, first)
	// The root key changes to the next while n2 is away.
	stop["n2"]()
	r.Online("n2", false)
	r.rooted(1, first, first, second)
	r.rooted(1, second, second)
	r.Pass(2 * time.Minute)
	stop["n1"]()
	r.Online("n1", false)
	r.Stop()
	lost, kept := filepath.Join(r.Dir, "controller"), filepath.Join(r.Dir, "stolen")
	if err := os.Rename(lost, kept); err != nil {
		t.Fatal(err)
	}
	r.copyJournal(kept, lost)
	r.Start(func(c *controller.Config) { c.NewCA, c.NewKey = true, true })
	stop["n1"], stop["n2"] = r.Agent("n1"), r.Agent("n2")
	r.lostSight("n1")
	r.Pass(time.Second)
	if err := r.importList(r.rootSigned(first)); err == nil {
		t.Error("a root key of before counts")
	}
	if err := r.importList(r.rootSigned(second)); err != nil {
		t.Fatal(err)
	}
	v, err := r.App.Unit().ShowCAs(t.Context())
	if err != nil || len(v.CAs) != 1 {
		t.Fatalf("%+v %v", v, err)
	}
	r.apply("2.0.0")
	for _, n := range []string{"n1", "n2"} {
		r.certifiedBy(n, v.CAs[0].ID)
	}
	r.runs("2.0.0", "n1", "n2")
	r.provesAgain("n1", "n2")
	for _, n := range []string{"n1", "n2"} {
		stop[n]()
	}
	r.Stop()
	if err := os.Rename(lost, filepath.Join(r.Dir, "new")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(kept, lost); err != nil {
		t.Fatal(err)
	}
	r.Start(nil)
	if err := r.importList(r.rootSigned(publishertest.New(3), publishertest.New(3))); err == nil {
		t.Error("the thief's own root key counts")
	}
	seen := r.Logs.Len()
	stop["n1"] = r.Agent("n1")
	r.Until("n1 refuses the thief", func() string {
		for _, e := range r.Logs.All()[seen:] {
			if strings.Contains(fmt.Sprint(e.Message, e.ContextMap()), "certificate signed by unknown authority") {
				return ""
			}
		}
		return "it has not said so"
	})
	r.certifiedBy("n1", v.CAs[0].ID)
	stop["n1"]()
}

// copyJournal makes a state directory of a backup.
func (r *Rig) copyJournal(from, to string) {
	r.t.Helper()
	if err := os.MkdirAll(to, 0o700); err != nil {
		r.t.Fatal(err)
	}
	files, err := os.ReadDir(from)
	if err != nil {
		r.t.Fatal(err)
	}
	var copied []string
	for _, f := range files {
		if !strings.HasPrefix(f.Name(), "journal") {
			continue
		}
		data, err := os.ReadFile(filepath.Join(from, f.Name()))
		if err == nil {
			err = os.WriteFile(filepath.Join(to, f.Name()), data, 0o600)
		}
		if err != nil {
			r.t.Fatal(err)
		}
		copied = append(copied, f.Name())
	}
	if !slices.Contains(copied, "journal.db") {
		r.t.Fatalf("there is no journal among %v", files)
	}
}
