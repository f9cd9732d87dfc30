package journal

import (
	"fmt"
	"strings"
)

// String tells people what was looked at and every problem, a line each.
func (p *Proof) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d records up to number %d, %d bodies", p.Records, p.Last, p.Bodies)
	if p.Compacted > 0 {
		fmt.Fprintf(&b, ", %d records compacted away before", p.Compacted)
	}
	b.WriteString(": ")
	if p.OK() {
		b.WriteString("the chain is whole")
		return b.String()
	}
	fmt.Fprintf(&b, "%d problems", len(p.Problems))
	for _, q := range p.Problems {
		b.WriteString("\n" + q.String())
	}
	if p.More {
		b.WriteString("\n… and more")
	}
	return b.String()
}
