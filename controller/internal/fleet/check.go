package fleet

import (
	"bytes"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// pending is a submission that the online nodes are judging: each is asked about every kind of documents
// that it would get.
type pending struct {
	Submit
	src      *source
	asks     []check
	began    time.Time
	deadline time.Time
	open     map[string]*owed // nodes that have not answered everything
	awaited  int              // of them, those that are not known to be silent
	asked    int
	agreed   int
	refused  []view.NodeError
	silent   []string
	offline  []string
	placed   *view.Placed // what the document comes to
}

// check is what nodes are asked about one kind.
type check struct {
	id      string // prefix of the requests' IDs
	output  *output
	content kind.Content
	nodes   []string
}

// owed is what a node has to answer yet.
type owed struct {
	open            uint64 // a bit for each of pending.asks that is not answered
	refused, silent bool
	quiet           bool // the node did not answer the check before, see Node.quiet
}

// quietShare is the part of the time for a check that nodes get which did not answer the one before.
const quietShare = 10

// answered takes a node out of those that have to answer. What is left may be nodes that are known to be silent: they
// are not waited for as long as the others.
func (s *step) answered(node string) {
	p := s.pending
	if !p.open[node].quiet {
		p.awaited--
	}
	delete(p.open, node)
	if len(p.open) == 0 {
		s.judge()
		return
	}
	p.hurry(s.opt.CheckTimeout)
}

// hurry ends the check early if it waits for nodes only that are known to be silent.
func (p *pending) hurry(timeout time.Duration) {
	if p.awaited == 0 {
		p.deadline = p.began.Add(timeout / quietShare)
	}
}

// consult asks the online nodes about a submission, or judges it at once if there are none.
func (s *step) consult(p *pending) {
	for _, o := range s.madeFrom(p.src) {
		id := s.questions.nextID(s.now, wire.MethodCheck)
		p.asks = append(p.asks, check{id: id, output: o, content: s.proposed(o, p)})
	}
	p.began, p.deadline = s.now, s.now.Add(s.opt.CheckTimeout)
	revoked := s.revoked()
	for _, n := range s.sorted() {
		if revoked[n.Name] {
			continue
		}
		concerned, absent := false, !n.Up || n.Info == nil
		var against []*wire.Error // an offline node's document
		for i := range p.asks {
			c := &p.asks[i]
			if c.content == nil || !c.output.Everyone && c.content.For(n.facts(c.output.Looks)) == nil {
				continue
			}
			concerned = true
			if absent && n.Info != nil && c.output.Known != nil && !p.Sub.Offline {
				against = append(against, c.output.Known(c.content, n.facts(c.output.Looks))...)
			}
			if absent || p.Sub.Offline {
				continue
			}
			c.nodes = append(c.nodes, n.Name)
			if p.open[n.Name] == nil {
				p.open[n.Name] = &owed{quiet: n.quiet}
				if !n.quiet {
					p.awaited++
				}
			}
			p.open[n.Name].open |= 1 << i
		}
		if len(against) > 0 {
			p.refuse(n.Name, against...)
		} else if concerned && absent {
			p.offline = append(p.offline, n.Name)
		}
	}
	p.asked = len(p.open)
	if p.asked == 0 {
		s.judge()
		return
	}
	for _, c := range p.asks {
		if len(c.nodes) > 0 {
			s.effect(Ask{ID: c.id, Nodes: c.nodes, Method: wire.MethodCheck, NotAfter: p.deadline.Add(requestLife),
				Params: s.checkParams(&c, p.Version)})
		}
	}
	p.hurry(s.opt.CheckTimeout)
}

// proposed is what a kind would be made from if the submission were accepted.
func (s *step) proposed(o *output, p *pending) kind.Content {
	if o.Build == nil {
		return p.Content
	}
	parts := map[wire.Kind]kind.Content{}
	for _, src := range o.from {
		if c := src.installed; src == p.src {
			parts[src.Name] = p.Content
		} else if c != nil {
			parts[src.Name] = c
		}
	}
	return o.Build(parts)
}

// checkParams encodes the request's params once for each body. What it returns is called elsewhere, so
// it holds on to nothing that changes.
func (s *step) checkParams(c *check, version string) func(string) []byte {
	facts := make(map[string]kind.Facts, len(c.nodes))
	for _, name := range c.nodes {
		facts[name] = s.nodes[name].facts(c.output.Looks)
	}
	encoded := map[*kind.Body][]byte{}
	name, content := c.output.Name, c.content
	return func(node string) []byte {
		body := content.For(facts[node])
		p, ok := encoded[body]
		if !ok {
			p = wire.Encode(&wire.CheckParams{Kind: name, Version: version, Body: body.Bytes})
			encoded[body] = p
		}
		return p
	}
}

// checkAnswered counts an answer to the check under way.
func (s *step) checkAnswered(h *Heard) {
	p := s.pending
	if p == nil || p.open[h.Node] == nil {
		return
	}
	i := slices.IndexFunc(p.asks, func(c check) bool { return h.Reply.ID == c.id+h.Node })
	open := p.open[h.Node]
	if i < 0 || open.open&(1<<i) == 0 {
		return
	}
	open.open &^= 1 << i
	c := &p.asks[i]
	switch r := h.Reply; {
	case r.Error != nil && r.Error.Code == wire.CodeNotSupported && c.output.TooOld != "":
		agent := ""
		if n := s.nodes[h.Node]; n != nil && n.Info != nil && n.Info.AgentVersion != "" {
			agent = ", version " + n.Info.AgentVersion + ","
		}
		p.refuse(h.Node, wire.New(r.Error.Code, "", "the agent there"+agent+" "+c.output.TooOld))
	case r.Error != nil && refuses(r.Error.Code):
		p.refuse(h.Node, r.Error)
	case r.Error != nil:
		open.silent = true
	case bytes.Equal(r.Result, agreed):
	default:
		if err := p.judged(h.Node, r.Result); err != nil {
			open.silent = true
			s.bad(Bad{Node: h.Node, Topic: string(topic.Reply), Err: err})
		}
	}
	if open.open != 0 {
		return
	}
	switch {
	case open.refused:
	case open.silent:
		p.silent = append(p.silent, h.Node)
	default:
		p.agreed++
	}
	s.answered(h.Node)
}

// judged reads a node's verdict. What cannot be read is none, and is returned as an error.
func (p *pending) judged(node string, result []byte) *wire.Error {
	res, err := wire.Decode[wire.CheckResult](result)
	if err != nil {
		return wire.AsError(err)
	}
	var given struct {
		OK *bool `json:"ok"`
	}
	if err := json.Unmarshal(result, &given); err != nil {
		return wire.AsError(err)
	}
	switch {
	case given.OK == nil:
		return wire.New(wire.CodeMissing, "/ok", "required")
	case res.OK:
	case len(res.Errors) == 0:
		p.refuse(node, wire.New(wire.CodeBadValue, "", "the node refuses without a reason"))
	default:
		p.refuse(node, res.Errors...)
	}
	return nil
}

func (p *pending) checks() view.Checks {
	c := view.Checks{Asked: p.asked, Agreed: p.agreed, Refused: p.refused, Silent: p.silent, Unchecked: p.offline}
	for name := range p.open {
		c.Silent = append(c.Silent, name)
	}
	slices.Sort(c.Silent)
	slices.Sort(c.Unchecked)
	c.Omitted = kind.Clip(&c.Refused, kind.MaxNamed) + kind.Clip(&c.Silent, kind.MaxNamed) +
		kind.Clip(&c.Unchecked, kind.MaxNamed)
	return c
}

// refuses tells the errors of a reply that are a verdict: they find fault with the document. After any other
// one, also one that is not known here, the node counts as silent and judges the document when it is issued.
func refuses(c wire.Code) bool {
	switch c {
	case wire.CodeMalformed, wire.CodeUnknownField, wire.CodeDuplicate, wire.CodeMissing, wire.CodeBadValue,
		wire.CodeTooLarge, wire.CodeWrongVersion, wire.CodeInvalidArgument, wire.CodeAlreadyExists,
		wire.CodeWrongState, wire.CodeNotAllowed, wire.CodeApplyFailed:
		return true
	}
	return false
}

func (p *pending) refuse(node string, errs ...*wire.Error) {
	if len(errs) > maxNodeErrors {
		errs = errs[:maxNodeErrors]
	}
	e := *errs[0]
	e.Node = node
	errs = slices.Clone(errs)
	errs[0] = &e
	if o := p.open[node]; o != nil {
		o.refused = true
	}
	p.refused = append(p.refused, view.NodeError{Node: node, Errors: errs})
}

// maxNodeErrors bounds what one node may add to a verdict.
const maxNodeErrors = 8
