package wire_test

import (
	"crypto/ed25519"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"tandem.internal/shared/event"
	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/rootlist"
	"tandem.internal/shared/seal"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
)

func contract(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("../docs/wire.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// fences returns the fenced blocks of one language with the word after it.
func fences(doc, language string) (out [][2]string) {
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"(?: (\\w+))?\n(.*?)^```$").FindAllStringSubmatch(doc,
		-1) {
		out = append(out, [2]string{m[1], m[2]})
	}
	return out
}

func nodeConfig(text string) (any, error) {
	c, problems := unitconfig.ParseNode([]byte(text))
	if len(problems) > 0 {
		return nil, problems[0]
	}
	return c, nil
}

func decode[M wire.Message](text string) (any, error) { return wire.Decode[M]([]byte(text)) }

// Every example is a message that the real decoder takes, every message has an example, and what
// is signed verifies with the key of the beacon's example.
func TestContractExamples(t *testing.T) {
	decoders := map[string]func(string) (any, error){
		"Desired": decode[wire.Desired], "Reported": decode[wire.Reported], "Live": decode[wire.Live],
		"Event":   decode[wire.Event],
		"Request": decode[wire.Request], "Reply": decode[wire.Reply], "Beacon": decode[wire.Beacon],
		"Submission": decode[wire.Submission],
		"Answer":     decode[wire.Answer], "CheckParams": decode[wire.CheckParams],
		"CheckResult":  decode[wire.CheckResult],
		"EventsParams": decode[wire.EventsParams], "NewestParams": decode[wire.NewestParams],
		"ConfirmParams": decode[wire.ConfirmParams],
		"NodeInfo":      decode[wire.NodeInfo],
		"Health":        decode[wire.Health], "HealthSettings": decode[wire.HealthSettings],
		"RebootParams": decode[wire.RebootParams],
		"TryParams":    decode[wire.TryParams], "ApproveParams": decode[wire.ApproveParams],
		"Workloads": decode[wire.Workloads], "LogsParams": decode[wire.LogsParams],
		"LogsResult":     decode[wire.LogsResult],
		"RestartParams":  decode[wire.RestartParams],
		"AgentLogParams": decode[wire.AgentLogParams], "AgentLog": decode[wire.AgentLog],
		"LogLevelParams": decode[wire.LogLevelParams], "Samples": decode[wire.Samples],
		"ShowParams": decode[wire.ShowParams], "Shown": decode[wire.Shown],
		"JoinRequest": func(text string) (any, error) { return jointoken.DecodeJoin([]byte(text)) },
		"Admission":   func(text string) (any, error) { return jointoken.DecodeAdmission([]byte(text)) },
		"KeyList":     func(text string) (any, error) { return jointoken.DecodeKeys([]byte(text)) },
		"CAList":      func(text string) (any, error) { return jointoken.DecodeCAs([]byte(text)) },
		"Chain":       func(text string) (any, error) { return rootlist.DecodeChain([]byte(text)) },
		"ReportKey":   func(text string) (any, error) { return jointoken.DecodeReportKey([]byte(text)) },
		"NodeConfig":  nodeConfig,
		"UnitStatus":  decode[wire.UnitStatus],
		"Policies":    decode[wire.Policies], "PoliciesReport": decode[wire.PoliciesReport],
		"Components": decode[wire.Components], "ComponentsReport": decode[wire.ComponentsReport],
	}
	doc := contract(t)
	trust := seal.Trust{}
	for _, f := range fences(doc, "json") {
		if f[0] != "Beacon" {
			continue
		}
		b, err := wire.Decode[wire.Beacon]([]byte(f[1]))
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range b.Keys {
			if seal.KeyID(k.Ed25519) != k.ID {
				t.Errorf("key %s is called %s", seal.KeyID(k.Ed25519), k.ID)
			}
			trust[k.ID] = ed25519.PublicKey(k.Ed25519)
		}
	}
	printed := map[string]string{}
	for _, f := range fences(doc, "text") {
		printed[f[0]] = f[1]
	}
	seen, paths := map[string]bool{}, 0
	for _, f := range fences(doc, "json") {
		name, text := f[0], strings.TrimSpace(f[1])
		if name == "Proof" {
			message, p := wire.SplitProof([]byte(text))
			const key = "0123456789abcdef0123456789abcdef"
			if p == nil || !p.Verify([]byte(key), topic.ForNode("unit-7", "ecu-1").Live(), message) {
				t.Errorf("the proof of the example does not hold: %s", text)
			}
			name, text = "Live", string(message)
		}
		if decoders[name] == nil {
			t.Errorf("an example of %q", name)
			continue
		}
		m, err := decoders[name](text)
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
			continue
		}
		first := !seen[name]
		seen[name] = true
		var preimage []byte
		var sig *wire.Signature
		switch m := m.(type) {
		case *wire.Desired:
			preimage, sig = seal.DesiredPreimage(m), m.Sig
			if m.Body != nil && wire.Hash(m.Body) != m.Hash {
				t.Errorf("the body has hash %s", wire.Hash(m.Body))
			}
			paths += len(sig.Path)
			if m.Kind == wire.KindConfig {
				if _, err := nodeConfig(string(m.Body)); err != nil {
					t.Errorf("the body of the example: %v", err)
				}
			}
		case *wire.Shown: // of the document above
			name, first = "Desired", true
			preimage, sig = seal.DesiredPreimage(m.Of("unit-7", "ecu-1", wire.KindConfig)), m.Sig
		case *wire.Request:
			preimage, sig = seal.RequestPreimage(m), m.Sig
		case *wire.Beacon:
			preimage, sig = seal.BeaconPreimage(m), m.Sig
		default:
			continue
		}
		if first && printed[name] != string(preimage) {
			t.Errorf("%s has the preimage\n%s\nand the contract prints\n%s", name, preimage, printed[name])
		}
		if err := trust.Verify(preimage, sig); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if paths == 0 || len(seen) != len(decoders) || len(printed) != 4 {
		t.Errorf("messages with an example: %v; preimages: %d; bytes of Merkle paths: %d", seen, len(printed), paths)
	}
}

// rows returns the cells of the table that has this header.
func rows(t *testing.T, doc, header string) [][]string {
	t.Helper()
	_, rest, ok := strings.Cut(doc, header+"\n")
	if !ok {
		t.Fatalf("no table %s", header)
	}
	var out [][]string
	for line := range strings.Lines(rest) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			break
		}
		if strings.HasPrefix(line, "|---") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		out = append(out, cells)
	}
	return out
}

func TestContractTables(t *testing.T) {
	doc := contract(t)
	codes := rows(t, doc, "| code | meaning |")
	if len(codes) != len(wire.Meanings) {
		t.Errorf("%d codes in the contract, %d in the code", len(codes), len(wire.Meanings))
	}
	for _, c := range codes {
		if want := wire.Meanings[wire.Code(strings.Trim(c[0], "`"))]; c[1] != want || want == "" {
			t.Errorf("%s means %q in the contract, %q in the code", c[0], c[1], want)
		}
	}
	states := rows(t, doc, "| state | meaning | settled |")
	if len(states) != 8 {
		t.Errorf("%d states", len(states))
	}
	for _, s := range states {
		state := wire.State(strings.Trim(s[0], "`"))
		if !state.Known() || state.Settled() != (s[2] == "yes") {
			t.Errorf("%s: known %v, settled %v", state, state.Known(), state.Settled())
		}
	}
	named := map[wire.PolicyState]bool{}
	for _, r := range rows(t, doc, "| policy state | meaning |") {
		for name := range strings.SplitSeq(r[0], ",") {
			named[wire.PolicyState(strings.Trim(name, " `"))] = true
		}
	}
	for _, s := range wire.PolicyStates() {
		if !named[s] || len(named) != len(wire.PolicyStates()) {
			t.Errorf("the contract names %v, not just %v", named, wire.PolicyStates())
		}
	}
	var limits []string
	for _, l := range rows(t, doc, "| limit | value |") {
		limits = append(limits, strings.TrimSuffix(l[1], " bytes"))
	}
	want := fmt.Sprintf("%d %d %d %d %d %d %d %d %d %d", wire.MaxPayload, wire.MaxPacket, wire.MaxBody, wire.MaxDepth,
		wire.MaxName, wire.MaxText,
		wire.MaxMessage, wire.MaxPath, wire.MaxKinds, wire.MaxList)
	if got := strings.Join(limits, " "); got != want {
		t.Errorf("limits %s in the contract, %s in the code", got, want)
	}
	methods := map[wire.Method]bool{}
	for _, m := range rows(t, doc, "| method | params | what the node does | result |") {
		methods[wire.Method(strings.Trim(m[0], "`"))] = true
	}
	for _, m := range []wire.Method{wire.MethodCheck, wire.MethodReport, wire.MethodEvents, wire.MethodConfirm,
		wire.MethodReboot, wire.MethodTry, wire.MethodApprove, wire.MethodNewest, wire.MethodCA,
		wire.MethodShow, wire.MethodAgentLog, wire.MethodLogLevel, wire.MethodSamples} {
		if !methods[m] || len(methods) != 13 {
			t.Errorf("methods %v", methods)
		}
	}
}

// Every topic of the table is one that package topic knows.
func TestContractTopics(t *testing.T) {
	doc := contract(t)
	fill := strings.NewReplacer("`", "", "{unit}", "unit-7", "{shard}", "7a", "{node}", "ecu-1", "{kind}", "config",
		"{what}", "config")
	leaves := map[topic.Leaf]bool{}
	for _, r := range rows(t, doc, "| topic | written by | retained | message |") {
		p, err := topic.Parse(fill.Replace(r[0]))
		if err != nil {
			t.Error(err)
		}
		leaves[p.Leaf] = true
	}
	if len(leaves) != 9 {
		t.Errorf("%d leaves: %v", len(leaves), leaves)
	}
}

// The contract names every event; what an agent in another language has to know of joining is what the product reads.
func TestContractJoiningAndEvents(t *testing.T) {
	doc := contract(t)
	for _, f := range fences(doc, "text") {
		if f[0] != "Token" {
			continue
		}
		token, err := jointoken.Parse(f[1])
		if err != nil || token.Node != "ecu-1" {
			t.Errorf("the token of the example: %v %v", token, err)
		}
		for _, j := range fences(doc, "json") {
			want := jointoken.NewJoinRequest(token, nil).Secret
			if j[0] == "JoinRequest" && !strings.Contains(j[1], want) {
				t.Errorf("the request of the example has another secret than its token: %s", j[1])
			}
		}
	}
	if !strings.Contains(doc, "`"+jointoken.ServerName+"`") {
		t.Errorf("the contract does not name %s", jointoken.ServerName)
	}
	named := map[string]bool{}
	for _, r := range rows(t, doc, "| types | members of the detail |") {
		for name := range strings.SplitSeq(r[0], ",") {
			named[strings.Trim(name, " `")] = true
		}
	}
	for _, name := range event.Types() {
		if !named[name] {
			t.Errorf("the contract does not name the event %s", name)
		}
		delete(named, name)
	}
	if len(named) > 0 {
		t.Errorf("the contract names events that there are not: %v", named)
	}
}
