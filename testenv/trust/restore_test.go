package trust

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	controller "tandem.internal/controller/app"
	"tandem.internal/shared/jointoken"
)

func client(cert tls.Certificate, pool *x509.CertPool) *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: pool, ServerName: jointoken.ServerName}
}

// lostAfter has a unit's machine be lost after something has happened since its backup, and restores it on another one,
// on which its controller runs then.
func lostAfter(t *testing.T, r *Rig, happens func(), revoked ...string) {
	t.Helper()
	key, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	r.Stop()
	to := func(c *controller.Config) { c.BackupTo = []string{key.Recipient().String()} }
	r.Start(to)
	if err := r.App.Unit().BackupUnit(controller.As(t.Context(), "ann"), controller.BackupIn{}, &file); err != nil {
		t.Fatal(err)
	}
	happens()
	r.Stop()
	dir := filepath.Join(r.Dir, "controller")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	restore := controller.Restore{Dir: dir, Now: r.Now, Revoked: revoked}
	if _, err := restore.Run(t.Context(), &file, []age.Identity{key}); err != nil {
		t.Fatal(err)
	}
	r.Start(to)
}

// TestRestoredUnitKnowsItsNodes: nodes that have joined or renewed since a backup are let in by the unit that is
// restored from it, and prove what they say. Who is named as revoked is not, nor is a token of the backup of any use.
func TestRestoredUnitKnowsItsNodes(t *testing.T) {
	r := NewRig(t)
	for _, name := range []string{"same", "renews", "replaced", "stolen"} {
		r.Joined(name)
	}
	r.Pass(61 * 24 * time.Hour) // from now on agents renew
	unused := r.Enroll("late")
	thief, _ := r.Credentials("replaced")
	lostAfter(t, r, func() {
		r.Joined("new")
		r.Joined("new-stolen")
		stop := r.Agent("renews")
		r.Until("renews", func() string {
			if r.Logs.FilterMessage("certificate renewed").Len() == 0 {
				return "it has not renewed"
			}
			return ""
		})
		stop()
		if err := os.RemoveAll(filepath.Join(r.Dir, "replaced")); err != nil {
			t.Fatal(err)
		}
		r.Joined("replaced") // other hardware
	}, "node/stolen", "node/new-stolen")
	for _, name := range []string{"renews", "replaced", "new", "same"} {
		r.Agent(name)
		r.Online(name, true)
		r.Until(name+" proves what it says", func() string {
			if r.View(name).Identity.Proves.IsZero() {
				return "no proof"
			}
			return ""
		})
	}
	for _, name := range []string{"stolen", "new-stolen"} {
		cert, pool := r.Credentials(name)
		if err := r.session("node/"+name, "node/"+name, "tls", client(cert, pool)); err == nil {
			t.Errorf("%s is let in", name)
		}
	}
	_, pool := r.Credentials("replaced")
	if err := r.session("node/replaced", "node/replaced", "tls", client(thief, pool)); err == nil {
		t.Error("hardware that was replaced is let in")
	}
	if err := r.Join("late", unused); err == nil || !strings.Contains(err.Error(), "withdrawn") {
		t.Errorf("a token of the backup: %v", err)
	}
}

// TestReplacementStaysAfterARestore: the certificate of a machine that was stolen is of after the backup. Once it was
// revoked and another machine has joined in its place, the stolen one is not let in, and throws nobody out.
func TestReplacementStaysAfterARestore(t *testing.T) {
	for _, named := range []bool{true, false} {
		r := NewRig(t)
		r.Joined("press-3")
		var stolen tls.Certificate
		revoked := []string{"node/press-3"}
		if !named {
			revoked = nil
		}
		lostAfter(t, r, func() {
			if err := os.RemoveAll(filepath.Join(r.Dir, "press-3")); err != nil {
				t.Fatal(err)
			}
			r.Joined("press-3")
			stolen, _ = r.Credentials("press-3")
		}, revoked...)
		if !named {
			var in controller.RevokeIn
			in.Node = "press-3"
			if _, err := r.App.Unit().Revoke(controller.As(t.Context(), "ann"), in); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.RemoveAll(filepath.Join(r.Dir, "press-3")); err != nil {
			t.Fatal(err)
		}
		r.Joined("press-3")
		cert, pool := r.Credentials("press-3")
		for range 2 {
			if err := r.session("node/press-3", "node/press-3", "tls", client(stolen, pool)); err == nil {
				t.Errorf("named %v: the stolen machine is let in", named)
			}
			if err := r.session("node/press-3", "node/press-3", "tls", client(cert, pool)); err != nil {
				t.Errorf("named %v: the replacement: %v", named, err)
			}
		}
	}
}
