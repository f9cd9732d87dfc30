package access

import (
	"cmp"
	"context"
	"strings"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/apitoken"
	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

func tokenCommands(a *command.App) *cobra.Command {
	return command.Group("token", "Say who may come in over TCP, and to do what",
		"  tandem token create ann --role operate\n  tandem token list\n  tandem token revoke ann",
		createToken(a), listTokens(a), revokeToken(a))
}

func roleNames() []string { return command.Texts(op.Roles) }

// checkToken refuses a name that no token can have.
func checkToken(cmd *cobra.Command, name string) error {
	if !wire.ValidName(name) {
		return command.Usage("%s: %.80q cannot name a token: letters, digits, and . _ - after the first, at most 63",
			cmd.CommandPath(), name)
	}
	return nil
}

func checkRole(cmd *cobra.Command, role string) error {
	all := strings.Join(roleNames(), ", ")
	switch {
	case role == "":
		return command.Lacks(cmd, "--role: "+all)
	case !op.Role(role).Valid():
		meant := command.Suggest(role, roleNames(), "there are "+all)
		return command.Usage("%s: %.80q is no role%s", cmd.CommandPath(), role, meant)
	}
	return nil
}

// checkPage is checkRole for who is to open the dashboard.
func checkPage(cmd *cobra.Command, role string) error {
	if role == string(op.Metrics) {
		return command.Usage("%s: the role metrics opens no dashboard; view does", cmd.CommandPath())
	}
	return checkRole(cmd, role)
}

func createToken(a *command.App) *cobra.Command {
	var role string
	var life command.Duration
	var link bool
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Make a token for a person or a program, and show it once",
		Long: `Make a token for a person or a program, and show it once.

Roles: metrics reads GET /metrics alone; view reads; operate also submits, confirms,
rolls back and restores, sets timers of health and orders nodes to reboot; admin also
makes and revokes tokens, lets nodes join, certifies, changes signing keys and CAs, and
copies the journal. The journal names the token beside everything that is done with it.

With --link it is one line, the address of the dashboard: it logs in once, the first who
opens it. That session has the name, role and end of the token.`,
		Example: "  tandem token create ann --role operate\n" +
			"  tandem token create dashboard --role view --expires 90d\n  tandem token create wall --role view --link",
		Args: command.Args("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkToken(cmd, args[0]); err != nil {
				return err
			}
			check := checkRole
			if link {
				check = checkPage
			}
			if err := check(cmd, role); err != nil {
				return err
			}
			in := op.NewToken{Name: args[0], Role: role, TTL: life.ISO(), Once: link}
			show := printGrant
			if link {
				show = printLink
			}
			return command.Ask(cmd.Context(), a, op.CreateToken, in, show)
		},
	}
	cmd.Flags().StringVar(&role, "role", "", "`role`, what it may do: metrics, view, operate or admin (required)")
	cmd.Flags().Var(&life, "expires", "how long it counts, such as 12h or 90d (default: until it is revoked)")
	cmd.Flags().BoolVar(&link, "link", false, "print an address of the dashboard that logs in once")
	return cmd
}

// printLink shows a token as an address of the dashboard, which logs in once.
func printLink(a *command.App, g view.Grant) {
	if g.URL == "" {
		printGrant(a, g)
		return
	}
	a.Print("%s/#once=%s\n", term.Clean(g.URL), term.Clean(g.Secret))
}

// printGrant shows a token as one line that is all that another machine needs.
func printGrant(a *command.App, g view.Grant) {
	until := "until it is revoked"
	if !g.Expires.IsZero() {
		until = "until " + a.Clock(g.Expires)
	}
	name := term.Clean(g.Name)
	a.Print("%s has the role %s %s. This is shown once; whoever has it is %s:\n\n",
		name, term.Clean(g.Role), until, name)
	if g.URL == "" {
		a.Print("  %s\n\nThis controller serves its unix socket only; to use the token, "+
			"start it with --http ADDRESS.\n", term.Clean(g.Secret))
		return
	}
	a.Print("  export TANDEM_URL=%s TANDEM_TOKEN=%s", term.Clean(g.URL), term.Clean(g.Secret))
	if g.CA != "" {
		a.Print(" TANDEM_CA=%s", term.Clean(g.CA))
	}
	where := "anywhere"
	if command.Loopback(g.URL) {
		where = "on this machine" // the door is not open to others
	}
	if g.Role == string(op.Metrics) {
		a.Print("\n\nThe token reads %s/metrics, as Prometheus does %s, and opens nothing else.\n", term.Clean(g.URL),
			where)
		return
	}
	a.Print("\n\nWith that line in a shell %s, tandem works there. The dashboard is at %s/\n", where, term.Clean(g.URL))
}

func listTokens(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "Show every token: its name, role and end, never the token itself",
		Example: "  tandem token list", Args: command.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return command.Ask(cmd.Context(), a, op.ListTokens, op.None{}, printTokens)
		},
	}
}

func printTokens(a *command.App, all op.Tokens) {
	if len(all.Tokens) == 0 {
		a.Print("there are no tokens; tandem token create makes one\n")
		return
	}
	t := &term.Table{Head: []string{"NAME", "ROLE", "MADE", "BY", "EXPIRES"}}
	for _, k := range all.Tokens {
		end := term.Cell{Text: "never"}
		if !k.Expires.IsZero() {
			end.Text = a.Clock(k.Expires)
		}
		if k.Expired {
			end = term.Red.Cell("expired " + a.Ago(k.Expires))
		}
		t.Add(k.Name, k.Role, a.Ago(k.Created), cmp.Or(k.By, "-"), end)
	}
	a.Table(t)
}

func revokeToken(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use: "revoke NAME", Short: "End a token, and whatever is under way with it, at once",
		Example: "  tandem token revoke ann", Args: command.Args("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if strings.HasPrefix(args[0], apitoken.Prefix) { // never echoed
				return command.Usage("%s takes the name of a token, not the token itself; "+
					"tandem token list shows the names", cmd.CommandPath())
			}
			if err := checkToken(cmd, args[0]); err != nil {
				return err
			}
			return command.Ask(cmd.Context(), a, op.RevokeToken, op.TokenIn{Token: args[0]}, printRevoked,
				command.Nearest(args[0], "tandem token list shows them", tokenNames))
		},
	}
}

func printRevoked(a *command.App, t view.Token) {
	a.Print("%s is revoked: its token does not count any more\n", term.Clean(t.Name))
}

func tokenNames(ctx context.Context, c *client.Client) (names []string, err error) {
	all, err := client.Call(ctx, c, op.ListTokens, op.None{})
	for _, t := range all.Tokens {
		names = append(names, t.Name)
	}
	return names, err
}
