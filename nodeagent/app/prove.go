package app

import (
	"context"
	"sync"

	"tandem.internal/nodeagent/internal/report"
	"tandem.internal/shared/wire"
)

// prover publishes what the node says, each message with its proof if there is a report key.
type prover struct {
	link report.Publisher

	mu    sync.Mutex
	key   []byte
	heard wire.Heard
}

func (p *prover) setKey(key []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.key = key
}

func (p *prover) setHeard(h wire.Heard) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heard = h
}

// proves reports whether messages have a proof, and what it says that was heard.
func (p *prover) proves() (heard wire.Heard, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.heard, len(p.key) > 0
}

// Publish publishes a message of the node.
func (p *prover) Publish(ctx context.Context, topic string, payload []byte, retain bool) error {
	p.mu.Lock()
	key, heard := p.key, p.heard
	p.mu.Unlock()
	if len(key) > 0 {
		payload = wire.Prove(key, topic, payload, heard)
	}
	return p.link.Publish(ctx, topic, payload, retain)
}
