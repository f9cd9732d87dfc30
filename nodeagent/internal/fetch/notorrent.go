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

func newSwarm(s *Store) (swarm, error) {
	if s.Peers.Listen != "" || len(s.Peers.Addresses) > 0 {
		s.log.Warn("the settings name other nodes to exchange resources with, and this agent is built without " +
			"BitTorrent (tag torrent): it asks none and serves none")
	}
	return noSwarm{}, nil
}

func (noSwarm) fetch(context.Context, string, *part) ([]byte, error) {
	return nil, passing(wire.CodeNotSupported, "this agent is built without BitTorrent (tag torrent): use an http or "+
		"https URL, or the full agent")
}

func (noSwarm) offer(map[plan.Key][]string) {}
func (noSwarm) close()                      {}
