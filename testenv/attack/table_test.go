package attack

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"tandem.internal/testenv/proc"
)

// programs runs the tests with the programs at hand.
type programs struct{ *testing.M }

func (p programs) Run() int { return proc.Main(p.M) }

func TestMain(m *testing.M) {
	proc.NotAKeeper()
	goleak.VerifyTestMain(programs{m}, goleak.Cleanup(func(status int) { os.Exit(status) }),
		goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server.init.0.func1"))
}

// attacker is who makes an attempt.
type attacker string

const (
	nobody     attacker = "none"           // can reach the doors, and has no credentials
	aNode      attacker = "a node"         // with a certificate of its own, node/mallory
	aRevoked   attacker = "revoked node"   // node/gone
	anExpired  attacker = "expired node"   // node/old, a stolen disk
	theCloud   attacker = "cloud"          // cloud/eu
	anOperator attacker = "operator"       // operator/spy, who may read and not write
	theBroker  attacker = "hostile broker" // says whatever it likes to whomever it likes
	aClient    attacker = "http client"    // at the HTTP and join doors
	aThief     attacker = "stolen gateway" // has the controller's state, with the key that signs
)

// attempt is one row of the table. run returns the refusal as it was seen, in the words of outcome.go;
// it has to be the one that want names for the kind of broker.
type attempt struct {
	name string
	by   attacker
	run  func(a *try) string
	want refusals
}

// refusals are what is expected on each kind. One that begins with "not here: " says why the attempt
// does not apply, or cannot be made, there.
type refusals struct{ embedded, mosquitto, nats string }

const notHere = "not here: "

// everywhere is the same refusal on all three.
func everywhere(s string) refusals { return refusals{s, s, s} }

// doors is for attempts that never come near the broker.
func doors(s string) refusals {
	const same = notHere + "this door is the same whatever the broker is"
	return refusals{s, same, same}
}

// outside is for what only a broker of the site can do: the embedded one is the controller itself.
func outside(s string) refusals {
	return refusals{notHere + "the embedded broker is the controller: whoever has it has everything", s, s}
}

// Refusals that many attempts come to, where the brokers differ.
var (
	unheard  = refusals{denied, silent, denied}
	borrowed = refusals{"CONNACK 5", itself, itself} // the others take it for whom its certificate names
)

func (r refusals) on(k kind) string {
	return map[kind]string{embedded: r.embedded, mosquitto: r.mosquitto, nats: r.nats}[k]
}

// table is every attempt.
func table() []attempt {
	return slices.Concat(identities, publishes, subscriptions, plantings, wills, submissions, packets, payloads,
		documents, inventions, claims, unpublished, untried, httpDoor, roots, joinDoor, revocation)
}

// TestTable: the table is as large as it has to be, and says all that a row has to say.
func TestTable(t *testing.T) {
	seen, made := map[string]bool{}, map[kind]int{}
	by := map[attacker]int{}
	for _, a := range table() {
		if a.name == "" || seen[a.name] || a.run == nil {
			t.Errorf("a row without a name of its own, or that does nothing: %q", a.name)
		}
		seen[a.name] = true
		by[a.by]++
		somewhere := false
		for _, k := range kinds {
			want := a.want.on(k)
			switch why, not := strings.CutPrefix(want, notHere); {
			case want == "" || not && why == "":
				t.Errorf("%s: neither a refusal nor a reason on %s", a.name, k)
			case !not:
				made[k]++
				somewhere = true
			}
		}
		if !somewhere {
			t.Errorf("%s is made nowhere", a.name)
		}
	}
	if len(seen) < 40 {
		t.Errorf("%d attempts, at least 40 are asked for", len(seen))
	}
	for _, k := range kinds {
		if made[k] < 30 {
			t.Errorf("%d attempts on %s, at least 30 are asked for", made[k], k)
		}
	}
	for _, who := range []attacker{nobody, aNode, aRevoked, anExpired, theCloud, anOperator, theBroker, aClient,
		aThief} {
		if by[who] == 0 {
			t.Errorf("nothing is tried by: %s", who)
		}
	}
	t.Logf("%d attempts; made on %v; by %v", len(seen), made, by)
}

// TestAttacks makes every attempt of the table on each kind of broker.
func TestAttacks(t *testing.T) {
	for _, k := range kinds {
		t.Run(string(k), func(t *testing.T) {
			t.Parallel()
			u := newUnit(t, k)
			u.besiege()
			for i, a := range table() {
				want := a.want.on(k)
				if strings.HasPrefix(want, notHere) || k == nats && a.by == aRevoked { // TestRevokedAtNATS makes those
					continue
				}
				t.Run(a.name, func(t *testing.T) { u.attempt(t, i, a, want) })
			}
			u.relieve()
			u.whole()
		})
	}
}

// attempt makes one attempt while a new configuration is on its way, and sees that it arrives.
func (u *unit) attempt(t *testing.T, number int, a attempt, want string) {
	v := u.submit(t)
	if a.by == theBroker { // what it says must not be overtaken by what is just being said
		u.installed(t, v)
	}
	x := &try{unit: u, t: t, number: byte(number), since: u.Logs.Len(), poison: fmt.Sprintf("poison %d.", number)}
	got := a.run(x)
	if got != want {
		t.Errorf("by %s: it came to %q, and should have to %q", a.by, got, want)
	}
	if a.by == theBroker {
		v = u.submit(t)
	}
	u.installed(t, v)
	for _, f := range x.later {
		f()
	}
	for _, w := range u.witnesses {
		for _, m := range w.Heard() {
			if strings.Contains(m.Payload, x.poison) {
				t.Errorf("by %s: %q was heard on %q, retained: %v", a.by, x.poison, m.Topic, m.Retained)
			}
		}
	}
}
