// Package access owns the commands about who may do what, and where: contexts of controllers, operators' tokens, the
// unit's signing keys and CAs, the identities of nodes and others, publishers' keys and root keys. It prints a secret
// once and never repeats one that it was given.
package access

import (
	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
)

// Commands are the commands of this package that stand at the top.
func Commands(a *command.App) []*cobra.Command {
	return []*cobra.Command{contextCommands(a), dashboard(a), identities(a), tokenCommands(a), keys(a), cas(a),
		publishers(a), roots(a)}
}
