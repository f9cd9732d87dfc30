package fetch

import (
	"context"

	"tandem.internal/nodeagent/internal/fetch/plan"
	"tandem.internal/shared/durable"
)

// swarm is BitTorrent. An agent built without the tag torrent has one that says so.
type swarm interface {
	// fetch writes all of what url names to f. info is the torrent's info dictionary, to be kept with
	// the copy so that it can be served.
	fetch(ctx context.Context, url string, f *part) (info []byte, err error)
	// offer serves these copies, and no others, to whoever may ask. It does not wait.
	offer(kept map[plan.Key][]string)
	// close ends everything and waits for it.
	close()
}

func (d *disk) writeInfo(k plan.Key, info []byte) error {
	return durable.WriteFile(d.copyPath(k)+asInfo, info, 0o600, d.steps)
}
