package why

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/phrase"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// census counts nodes by what is wrong with them.
type census struct {
	now    time.Time
	soon   time.Time // certificates that end before are counted
	groups [rules]map[string]*group
	last   [rules]recent // what was counted last: often the next node has the same
	gone   []time.Time   // when those that are offline went
}

// recent is a group that was found a moment ago.
type recent struct {
	of string
	*group
}

// cause is one thing that may be wrong, and with what: a parameter, an error code, a version.
type cause struct {
	rule rule
	of   string
}

// group is the nodes that have a cause.
type group struct {
	nodes   int
	names   []string // the first maxGroupNames of them
	typ     string   // of all of them
	mixed   bool     // they have several types, or one of them none
	count   int      // of what the rule counts beside nodes
	first   time.Time
	approve int
}

// maxGroupNames is how many nodes a filter names; more are chosen by their state.
const maxGroupNames = 5

type rule int

// The rules of Look about nodes.
const (
	isOffline  rule = iota
	refuses         // a document, by kind and code
	inError         // by code
	unhealthy       // by what the node says
	failsCheck      // by check
	workloadsFail
	clockOff
	alerted // by parameter
	certificate
	unheard // connected, and hears nothing of the controller
	onTrial // by version
	awaited // has never connected
	rules   // how many there are
)

func newCensus(now time.Time) *census { return &census{now: now, soon: now.Add(certificateSoon)} }

// certificateSoon is how long before its end a certificate should have been renewed: nodes begin to long before.
const certificateSoon = 14 * 24 * time.Hour

// count counts a node with each thing that is wrong with it. Of one that is offline it is only that: what it told last
// may be over.
func (c *census) count(n *NodeFact) {
	switch {
	case n.State == "revoked":
		return
	case !n.Known:
		c.add(cause{rule: awaited}, n)
		return
	}
	if at := n.Certificate; !at.IsZero() && at.Before(c.soon) {
		c.add(cause{rule: certificate}, n).earliest(at)
	}
	if !n.Online {
		c.add(cause{rule: isOffline}, n)
		c.gone = append(c.gone, n.Since)
		return
	}
	for _, r := range n.Refused {
		c.add(cause{refuses, string(r.Kind) + " " + string(r.Code)}, n)
	}
	if n.InError != "" {
		c.add(cause{inError, string(n.InError)}, n)
	}
	for _, name := range n.Checks {
		c.add(cause{failsCheck, name}, n)
	}
	if n.Workloads > 0 {
		c.add(cause{rule: workloadsFail}, n).count += n.Workloads
	}
	if n.ClockOff {
		c.add(cause{rule: clockOff}, n)
	} else if n.Health == view.HealthError && n.InError == "" {
		c.add(cause{unhealthy, n.HealthText}, n)
	}
	for _, p := range n.Alerts {
		c.add(cause{alerted, p}, n)
	}
	if n.Health == view.HealthContact {
		c.add(cause{rule: unheard}, n)
	}
	if n.Trial != "" {
		g := c.add(cause{onTrial, n.Trial}, n)
		if n.Approval {
			g.approve++
		}
		if !n.TrialUntil.IsZero() {
			g.earliest(n.TrialUntil)
		}
	}
}

// Matters reports whether Look says anything of a node. Without a change of the node, only the end of its certificate
// changes that.
func (n *NodeFact) Matters(now time.Time) bool {
	c := newCensus(now)
	c.count(n)
	for range c.each {
		return true
	}
	return false
}

func (c *census) add(why cause, n *NodeFact) *group {
	last := &c.last[why.rule]
	g := last.group
	if g == nil || last.of != why.of {
		g = c.groups[why.rule][why.of]
		if g == nil {
			if c.groups[why.rule] == nil {
				c.groups[why.rule] = map[string]*group{}
			}
			g = &group{typ: n.Type}
			c.groups[why.rule][why.of] = g
		}
		*last = recent{why.of, g}
	}
	g.nodes++
	g.mixed = g.mixed || n.Type == "" || n.Type != g.typ
	if len(g.names) < maxGroupNames {
		g.names = append(g.names, n.Node)
	}
	return g
}

func (g *group) earliest(at time.Time) {
	if g.first.IsZero() || at.Before(g.first) {
		g.first = at
	}
}

// sentences are those about what was counted.
func (c *census) sentences() (all []weighed) {
	for why, g := range c.each {
		s := weighed{weight: g.nodes}
		s.Level, s.Text, s.Filter = c.say(why, g)
		s.Text += g.types()
		if f := named(g.names, g.nodes); f != "" {
			s.Filter = f
		} else if !g.mixed && s.Filter != "" {
			s.Filter += " type:" + quoted(g.typ)
		}
		all = append(all, s)
	}
	// Maps have no order.
	slices.SortFunc(all, func(a, b weighed) int { return strings.Compare(a.Text, b.Text) })
	return all
}

// each yields what was counted.
func (c *census) each(yield func(cause, *group) bool) {
	for r, groups := range c.groups {
		for of, g := range groups {
			if !yield(cause{rule(r), of}, g) {
				return
			}
		}
	}
}

// types says which type the nodes of a group have.
func (g *group) types() string {
	switch {
	case g.mixed:
		return ""
	case g.nodes == 1:
		return ", of type " + g.typ
	}
	return ", all of type " + g.typ
}

// say says what the matter is with a group, and which filter finds it if there are too many to name.
func (c *census) say(why cause, g *group) (level view.Level, text, filter string) {
	switch why.rule {
	case isOffline:
		return view.LevelError, g.subject("is", "are") + " offline" + c.wave(), "state:offline"
	case refuses:
		kindOf, code, _ := strings.Cut(why.of, " ")
		text = g.subject("did not take", "did not take") + " the newest document of " + kindOf + ": " + meaning(code)
		return view.LevelError, text, "state:failed"
	case inError:
		return view.LevelError, g.subject("is", "are") + " in error: " + meaning(why.of), "state:unwell"
	case unhealthy:
		return view.LevelError, g.subject("tells", "tell") + ": " + why.of, "health:error"
	case failsCheck:
		return view.LevelError, fmt.Sprintf("the check %s fails on %s", why.of, g.object()), "health:check"
	case workloadsFail:
		return view.LevelError, fmt.Sprintf("%s not stay up, on %s", does(g.count, "workload slot"), g.object()),
			"state:unwell"
	case clockOff:
		return view.LevelError, fmt.Sprintf("the clock is wrong on %s", g.object()), "state:unwell"
	case alerted:
		return view.LevelWarning, fmt.Sprintf("an alert on %s is raised on %s", why.of, g.object()),
			"alert:" + quoted(why.of)
	case certificate:
		return c.certificates(g)
	case unheard:
		return view.LevelWarning, g.subject("hears", "hear") + " nothing of the controller", "health:contact"
	case onTrial:
		return view.LevelWarning, c.trial(why.of, g), "health:trial"
	}
	return view.LevelInfo, g.subject("has", "have") + " never connected", "state:enrolled,joined"
}

// certificates says when certificates end that nobody has renewed.
func (c *census) certificates(g *group) (level view.Level, text, filter string) {
	if left := g.first.Sub(c.now); left > 0 {
		text = fmt.Sprintf("the certificate of %s ends soon, the first in %s", g.object(), phrase.Ahead(left))
		return view.LevelWarning, text, ""
	}
	return view.LevelError, fmt.Sprintf("the certificate of %s has ended or ends soon, the first at %s", g.object(),
		since(c.now, g.first)), ""
}

// trial says which version is on trial, when it ends and who has to approve.
func (c *census) trial(version string, g *group) string {
	text := fmt.Sprintf("version %s is on trial on %s", version, g.object())
	if left := g.first.Sub(c.now); !g.first.IsZero() && left > 0 {
		text += fmt.Sprintf(", rolled back in %s unless it may stay", phrase.Ahead(left))
	}
	if g.approve > 0 {
		text += "; approval is needed on " + kind.Many(g.approve, "node")
	}
	return text
}

// subject are the nodes of a group as the subject of a sentence.
func (g *group) subject(one, many string) string {
	if g.nodes == 1 {
		return g.names[0] + " " + one
	}
	return kind.Many(g.nodes, "node") + " " + many
}

// object are the nodes of a group as its object.
func (g *group) object() string {
	if g.nodes == 1 {
		return g.names[0]
	}
	return kind.Many(g.nodes, "node")
}

func does(n int, what string) string {
	if n == 1 {
		return kind.Many(n, what) + " does"
	}
	return kind.Many(n, what) + " do"
}

// together is within how much time nodes have gone at once.
const together = 2 * time.Minute

// wave says when those that are offline went: if most went at once, how many, and since when.
func (c *census) wave() string {
	slices.SortFunc(c.gone, time.Time.Compare)
	first, most := 0, 0
	for i, j := 0, 0; j < len(c.gone); j++ {
		for c.gone[j].Sub(c.gone[i]) > together {
			i++
		}
		if j-i+1 > most {
			first, most = i, j-i+1
		}
	}
	at := since(c.now, c.gone[first])
	switch {
	case most == len(c.gone):
		return " since " + at
	case most > len(c.gone)/2:
		return fmt.Sprintf(", %d of them since %s", most, at)
	}
	return fmt.Sprintf(", the first since %s, the last since %s", since(c.now, c.gone[0]),
		since(c.now, c.gone[len(c.gone)-1]))
}

// meaning is an error code with what it means in words.
func meaning(code string) string {
	if m := wire.Meanings[wire.Code(code)]; m != "" {
		return code + " (" + strings.TrimSuffix(strings.ToLower(m[:1])+m[1:], ".") + ")"
	}
	return code
}

// named is a filter that names nodes, if these are all of them and few; else "".
func named(names []string, all int) string {
	if len(names) == 0 || len(names) < all || all > maxGroupNames {
		return ""
	}
	return "name:" + strings.Join(slices.Sorted(slices.Values(names)), ",")
}

// quoted is a value of a filter, in quotes if it is not a plain word.
func quoted(value string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-/", r)
	}
	if value != "" && !strings.ContainsFunc(value, func(r rune) bool { return !plain(r) }) {
		return value
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(value) + `"`
}
