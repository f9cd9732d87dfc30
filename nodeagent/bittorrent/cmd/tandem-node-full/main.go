// Command tandem-node-full is the node agent with BitTorrent; see tandem-node --help.
package main

import (
	"tandem.internal/nodeagent/bittorrent"
	"tandem.internal/nodeagent/cli"
)

func main() {
	cli.Main(bittorrent.New)
}
