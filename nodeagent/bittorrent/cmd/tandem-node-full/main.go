// Command tandem-node-full is the node agent with BitTorrent and age; see tandem-node --help.
package main

import (
	"tandem.internal/nodeagent/bittorrent"
	"tandem.internal/nodeagent/bittorrent/decrypt"
	"tandem.internal/nodeagent/cli"
)

func main() {
	cli.Main(cli.Extras{Torrents: bittorrent.New, Decrypter: decrypt.New})
}
