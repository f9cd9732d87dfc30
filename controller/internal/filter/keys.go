package filter

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"tandem.internal/controller/internal/roster"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/near"
	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
)

// Facts are what is known of a node.
type Facts struct {
	Node   *view.Node
	Row    view.Row // of it, as package roster makes it
	Alerts []string // parameters of those that are raised
	Now    time.Time
}

// value is what a word asks for.
type value struct {
	text  string // in lower case
	exact bool   // without wildcards
	part  bool   // it may stand anywhere

	order   string        // of a version: "", "<", "<=", ">" or ">="
	version string        // that it is compared with
	atLeast time.Duration // of offline-for
}

// fits reports whether a text is what is asked for.
func (v *value) fits(text string) bool {
	text = strings.ToLower(text)
	if v.part {
		if v.exact || !strings.ContainsAny(v.text, "*?") {
			return strings.Contains(text, v.text)
		}
		return glob("*"+v.text+"*", text)
	}
	if v.exact {
		return text == v.text
	}
	return glob(v.text, text)
}

// glob reports whether a text matches a pattern in which * is any characters and ? is one.
func glob(pattern, text string) bool {
	p, t := []rune(pattern), []rune(text)
	star, from := -1, 0
	i, j := 0, 0
	for j < len(t) {
		switch {
		case i < len(p) && p[i] == '*':
			star, from = i, j
			i++
		case i < len(p) && (p[i] == '?' || p[i] == t[j]):
			i++
			j++
		case star >= 0:
			from++
			i, j = star+1, from
		default:
			return false
		}
	}
	for i < len(p) && p[i] == '*' {
		i++
	}
	return i == len(p)
}

// key is what a word may ask about.
type key struct {
	name  string
	holds func(*Facts, *word, *value) bool
	check func(*value) string // completes a value, or says what is wrong with it
}

const labelPrefix = "label."

// labelKey is the key of every label.
var labelKey = key{name: labelPrefix, check: anything, holds: func(x *Facts, w *word, v *value) bool {
	if x.Node.Info == nil {
		return false
	}
	for name, text := range x.Node.Info.Attributes {
		if strings.EqualFold(name, w.label) && v.fits(text) {
			return true
		}
	}
	return false
}}

// keys are the others, the name first.
var keys = []key{
	{"name", ofText(func(x *Facts) string { return x.Node.Node }), anything},
	{"state", func(x *Facts, _ *word, v *value) bool { return isIn(x, v.text) }, oneOf("state", states)},
	{"class", func(x *Facts, _ *word, v *value) bool { return v.text == hyphened(x.Row.Class) },
		oneOf("class", classes)},
	{"type", ofText(func(x *Facts) string { return x.Node.Type }), anything},
	{"version", ofVersion(func(x *Facts) string { return x.Row.Version }), versioned},
	{"desired", ofVersion(func(x *Facts) string { return x.Row.Desired }), versioned},
	{"agent", ofVersion(func(x *Facts) string {
		if x.Node.Info == nil {
			return ""
		}
		return x.Node.Info.AgentVersion
	}), versioned},
	{"online", func(x *Facts, _ *word, v *value) bool { return x.Node.Online == (v.text == "yes") },
		oneOf("online", []string{"yes", "no"})},
	{"offline-for", func(x *Facts, _ *word, v *value) bool {
		return !x.Node.Online && !x.Node.FirstSeen.IsZero() && x.Now.Sub(x.Node.Since) >= v.atLeast
	}, lasting},
	{"health", func(x *Facts, _ *word, v *value) bool {
		if x.Node.Health == nil {
			return v.text == string(view.HealthUnknown)
		}
		return v.text == string(x.Node.Health.State)
	}, oneOf("health", healths)},
	{"alert", func(x *Facts, _ *word, v *value) bool {
		return slices.ContainsFunc(x.Alerts, v.fits)
	}, anything},
}

func anything(*value) string { return "" }

func ofText(text func(*Facts) string) func(*Facts, *word, *value) bool {
	return func(x *Facts, _ *word, v *value) bool { return v.known(text(x)) }
}

// known is fits for what a node may not have told: that is "" only, and not *.
func (v *value) known(text string) bool {
	if text == "" {
		return v.exact && v.text == ""
	}
	return v.fits(text)
}

// hyphened is a class as the language has it: in-step.
func hyphened(c view.Class) string {
	var b strings.Builder
	for _, r := range string(c) {
		if r >= 'A' && r <= 'Z' {
			b.WriteByte('-')
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}

var (
	classes = []string{"in-step", "on-the-way", "unwell", "failed", "offline", "revoked"}
	states  = []string{
		"offline", "in-step", "behind", "on-the-way", "failed", "revoked", "unwell", "waiting", "unconfigured",
		"enrolled", "joined", string(wire.StateReceived), string(wire.StateRejected), string(wire.StateApplying),
		string(wire.StateTrying), string(wire.StateInstalled), string(wire.StateRolledBack),
		string(wire.StateSuperseded),
	}
	healths = []string{
		string(view.HealthRestart), string(view.HealthTrial), string(view.HealthCheck), string(view.HealthError),
		string(view.HealthContact), string(view.HealthOK), string(view.HealthUnknown),
	}
)

// States are the words that state: takes.
func States() []string { return slices.Clone(states) }

// isIn reports whether a node is in a state. Those that are no states of a document may be true at once.
func isIn(x *Facts, state string) bool {
	n, revoked := x.Node, x.Row.Class == view.ClassRevoked
	switch state {
	case "offline":
		return !n.Online && !revoked
	case "in-step":
		return n.InSync && !revoked
	case "behind":
		return !n.InSync && !revoked
	case "on-the-way":
		return x.Row.Class == view.ClassOnTheWay
	case "failed":
		return !revoked && roster.Failed(n)
	case "unwell":
		return !revoked && roster.Unwell(n)
	case "revoked":
		return revoked
	}
	return x.Row.State == state
}

// oneOf checks that a value is one of those that there are.
func oneOf(what string, all []string) func(*value) string {
	return func(v *value) string {
		if slices.Contains(all, v.text) {
			return ""
		}
		if joined := strings.ReplaceAll(v.text, "-", ""); !v.exact { // inStep, as in the API
			for _, known := range all {
				if strings.ReplaceAll(known, "-", "") == joined {
					v.text = known
					return ""
				}
			}
		}
		return "there is no " + what + " " + strconv.Quote(v.text) +
			near.Suggest(near.All(v.text, all), "known are "+strings.Join(all, ", "))
	}
}

// versioned takes the order before a version. A version that is compared may lack its last parts: <2.1 is <2.1.0.
func versioned(v *value) string {
	if v.exact {
		return ""
	}
	for _, order := range []string{"<=", ">=", "<", ">", "="} {
		rest, is := strings.CutPrefix(v.text, order)
		if !is {
			continue
		}
		core, after := rest, ""
		if i := strings.IndexAny(rest, "-+"); i >= 0 {
			core, after = rest[:i], rest[i:]
		}
		for strings.Count(core, ".") < 2 && core != "" {
			core += ".0"
		}
		full := core + after
		if _, err := unitconfig.Compare(full, full); err != nil {
			return strconv.Quote(rest) + " is no version such as 2, 2.1 or 2.1.0-rc.1, which " + order + " needs"
		}
		v.order, v.version = order, full
		return ""
	}
	return ""
}

// ofVersion compares a version, or a text if no order is asked for. What is no version is neither less nor more.
func ofVersion(text func(*Facts) string) func(*Facts, *word, *value) bool {
	return func(x *Facts, _ *word, v *value) bool {
		has := text(x)
		if v.order == "" {
			return v.known(has)
		}
		c, err := unitconfig.Compare(strings.ToLower(has), v.version)
		if err != nil {
			return false
		}
		switch v.order {
		case "<":
			return c < 0
		case "<=":
			return c <= 0
		case ">":
			return c > 0
		case ">=":
			return c >= 0
		}
		return c == 0
	}
}

// lasting reads a length of time: a whole number and s, m, h or d.
func lasting(v *value) string {
	units := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}
	if len(v.text) > 1 {
		unit := units[v.text[len(v.text)-1:]]
		n, err := strconv.ParseUint(v.text[:len(v.text)-1], 10, 16)
		if err == nil && unit > 0 {
			v.atLeast = time.Duration(n) * unit
			return ""
		}
	}
	return strconv.Quote(v.text) + " is no length of time: a whole number up to 65535 and s, m, h or d, such as 30m"
}
