// Command tandem-node is the node agent; see tandem-node --help.
package main

import "tandem.internal/nodeagent/cli"

func main() {
	cli.Main(cli.Extras{})
}
