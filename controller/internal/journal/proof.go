package journal

import (
	"fmt"
	"strings"
)

// String tells people what was looked at and every problem, a line each.
func (p *Proof) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s up to number %d, %s", count(p.Records, "record", "records"), p.Last,
		count(p.Bodies, "body", "bodies"))
	if p.Compacted > 0 {
		fmt.Fprintf(&b, ", %s compacted away before", count(p.Compacted, "record", "records"))
	}
	b.WriteString(": ")
	if p.OK() {
		b.WriteString("the chain is whole")
		p.addTrims(&b)
		return b.String()
	}
	b.WriteString(count(len(p.Problems), "problem", "problems"))
	for _, q := range p.Problems {
		b.WriteString("\n" + q.String())
	}
	if p.More {
		b.WriteString("\n… and more")
	}
	p.addTrims(&b)
	return b.String()
}

// addTrims adds what was trimmed, the newest first.
func (p *Proof) addTrims(b *strings.Builder) {
	for i := range p.Trims {
		b.WriteString("\n" + p.Trims[len(p.Trims)-1-i].String())
	}
	if more := p.Trimmed - len(p.Trims); more > 0 {
		fmt.Fprintf(b, "\n… and %s before", count(more, "trim", "trims"))
	}
}

// count is a number with what it counts.
func count[N int | uint64](n N, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}
