package workload

import (
	"slices"
	"strings"

	"tandem.internal/shared/strictjson"
)

// piece is one value of a configuration, with the filler that it comes from. The value is artifact or limit, or text if
// both are nil.
type piece struct {
	from     string // name of the filler; "": the slot's own entry
	text     string
	artifact *Artifact
	limit    *Limit
}

// equal reports whether two pieces have the same value.
func (p piece) equal(o piece) bool {
	if p.artifact != nil {
		a, b := p.artifact, o.artifact
		return a.Class == b.Class && a.UUID == b.UUID && slices.Equal(a.URLs, b.URLs) && a.Cached == b.Cached &&
			a.Size == b.Size && a.Verification == b.Verification && a.Unpack.Equal(b.Unpack) &&
			a.Encrypted.Equal(b.Encrypted)
	}
	if p.limit != nil {
		return p.limit.equal(*o.limit)
	}
	return p.text == o.text
}

// equal reports whether two limits have the same values; an absent value differs from 0.
func (l Limit) equal(o Limit) bool {
	same := func(a, b *int64) bool { return (a == nil) == (b == nil) && value(a) == value(b) }
	return same(l.MinRestartPeriodMs, o.MinRestartPeriodMs) && same(l.MaxRestartPeriodMs, o.MaxRestartPeriodMs) &&
		same(l.RestartPeriodScaleMs, o.RestartPeriodScaleMs) && same(l.MaxExecutionTimeMs, o.MaxExecutionTimeMs) &&
		(l.RestartPeriodBackoff == nil) == (o.RestartPeriodBackoff == nil) &&
		value(l.RestartPeriodBackoff) == value(o.RestartPeriodBackoff)
}

// pieces are the values of a configuration, by JSON pointer.
type pieces map[string]piece

const (
	atClass       = "/@class"
	atID          = "/configurationId"
	atContainer   = "/container"
	atConstraints = "/container/constraints"
	atRuntime     = "/container/runtime"
	atNetwork     = "/container/network"
	atProperties  = "/properties"
	atResources   = "/resources"
	atLimits      = "/timeLimits"
)

// templatePieces returns the values of t as pieces of the filler from.
func templatePieces(t Template, from string) pieces {
	ps := pieces{}
	if t.Class != "" {
		ps[atClass] = piece{from: from, text: string(t.Class)}
	}
	if t.ConfigurationID != "" {
		ps[atID] = piece{from: from, text: t.ConfigurationID}
	}
	texts := func(at string, all map[string]string) {
		for n, v := range all {
			ps[strictjson.Member(at, n)] = piece{from: from, text: v}
		}
	}
	if c := t.Container; c != nil {
		texts(atConstraints, c.Constraints)
		for at, v := range map[string]string{atRuntime: c.Runtime, atNetwork: c.Network} {
			if v != "" {
				ps[at] = piece{from: from, text: v}
			}
		}
	}
	texts(atProperties, t.Properties)
	for n, v := range t.Resources {
		ps[strictjson.Member(atResources, n)] = piece{from: from, artifact: &v}
	}
	for n, v := range t.TimeLimits {
		ps[strictjson.Member(atLimits, n)] = piece{from: from, limit: &v}
	}
	return ps
}

// ownPieces returns the values that a configuration has itself.
func ownPieces(c *Config) pieces {
	return templatePieces(
		Template{c.Class, c.ConfigurationID, c.Container, c.Properties, c.Resources, c.TimeLimits}, "")
}

// unescape decodes one token of a JSON pointer (RFC 6901, section 4).
func unescape(token string) string {
	return strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
}

// assemble returns the configuration of a slot with these values. It is the inverse of ownPieces.
func (ps pieces) assemble(slot Slot) Config {
	c := Config{Class: Instance, Slot: slot, Resources: map[string]Artifact{}}
	put := func(dst *map[string]string, name, v string) {
		if *dst == nil {
			*dst = map[string]string{}
		}
		(*dst)[name] = v
	}
	for at, p := range ps {
		i := strings.LastIndexByte(at, '/')
		name := unescape(at[i+1:])
		switch at[:i] {
		case atContainer:
			if c.Container == nil {
				c.Container = &Container{}
			}
			if at == atRuntime {
				c.Container.Runtime = p.text
			} else {
				c.Container.Network = p.text
			}
		case atProperties:
			put(&c.Properties, name, p.text)
		case atConstraints:
			if c.Container == nil {
				c.Container = &Container{}
			}
			put(&c.Container.Constraints, name, p.text)
		case atResources:
			c.Resources[name] = *p.artifact
		case atLimits:
			if c.TimeLimits == nil {
				c.TimeLimits = map[string]Limit{}
			}
			c.TimeLimits[name] = *p.limit
		default:
			if at == atClass {
				c.Class = Class(p.text)
			} else {
				c.ConfigurationID = p.text
			}
		}
	}
	return c
}

// size estimates the bytes that a piece takes in a document.
func (p piece) size() int {
	if p.limit != nil {
		return 100
	}
	if a := p.artifact; a != nil {
		n := 100 + len(a.UUID) + len(a.Verification.Minisign)
		for _, u := range a.URLs {
			n += len(u)
		}
		return n
	}
	return len(p.text)
}
