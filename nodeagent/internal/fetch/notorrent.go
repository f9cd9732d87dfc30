//go:build !torrent

package fetch

import (
	"context"

	"tandem.internal/nodeagent/internal/fetch/plan"
	"tandem.internal/shared/wire"
)

// BitTorrent says whether this agent is built with it.
const BitTorrent = false

type noSwarm struct{}

func newSwarm(*Store) (swarm, error) { return noSwarm{}, nil }

func (noSwarm) fetch(context.Context, string, *part) ([]byte, error) {
	return nil, passing(wire.CodeNotSupported, "this agent is built without BitTorrent (tag torrent): use an http or https URL, or the full agent")
}

func (noSwarm) offer(map[plan.Key][]string) {}
func (noSwarm) close()                      {}
