package cli

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/tokens"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

func (a *app) token() *cobra.Command {
	return a.group("token", "Say who may come in over TCP, and to do what",
		"  tandem token create ann --role operate\n  tandem token list\n  tandem token revoke ann",
		a.createToken(), a.listTokens(), a.revokeToken())
}

func roleNames() []string {
	var names []string
	for _, r := range tokens.Roles {
		names = append(names, string(r))
	}
	return names
}

// checkToken refuses a name that no token can have.
func checkToken(cmd *cobra.Command, name string) error {
	if !wire.ValidName(name) {
		return usage("%s: %.80q cannot name a token: letters, digits, and . _ - after the first, at most 63", cmd.CommandPath(), name)
	}
	return nil
}

func (a *app) createToken() *cobra.Command {
	var role string
	var life durationFlag
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Make a token for a person or a program, and show it once",
		Long: `Make a token for a person or a program, and show it once.

Roles: view reads; operate also submits, confirms, rolls back and restores, sets timers
of health and orders nodes to reboot; admin also makes and revokes tokens, lets nodes
join, certifies, changes signing keys, and copies the journal. The
journal names the token beside everything that is done with it.`,
		Example: "  tandem token create ann --role operate\n  tandem token create dashboard --role view --expires 90d", Args: want("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkToken(cmd, args[0]); err != nil {
				return err
			}
			switch {
			case role == "":
				return usage("%s needs --role: %s; for example:\n%s", cmd.CommandPath(), strings.Join(roleNames(), ", "), cmd.Example)
			case !tokens.Role(role).Valid():
				return usage("%s: %.80q is no role%s", cmd.CommandPath(), role, suggestion(role, roleNames(), "there are "+strings.Join(roleNames(), ", ")))
			}
			return a.with(func(c *client.Client) error {
				g, err := c.CreateToken(cmd.Context(), args[0], role, time.Duration(life))
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(g)
				}
				a.printGrant(g)
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&role, "role", "", "`role`, what it may do: view, operate or admin (required)")
	cmd.Flags().Var(&life, "expires", "how long it counts, such as 12h or 90d (default: until it is revoked)")
	return cmd
}

// printGrant shows a token as one line that is all that another machine needs.
func (a *app) printGrant(g view.Grant) {
	until := "until it is revoked"
	if !g.Expires.IsZero() {
		until = "until " + a.clock(g.Expires)
	}
	a.print("%s has the role %s %s. This is shown once; whoever has it is %s:\n\n", clean(g.Name), clean(g.Role), until, clean(g.Name))
	if g.URL == "" {
		a.print("  %s\n\nThis controller serves its unix socket only; to use the token, start it with --http ADDRESS.\n", clean(g.Secret))
		return
	}
	a.print("  export TANDEM_URL=%s TANDEM_TOKEN=%s", clean(g.URL), clean(g.Secret))
	if g.CA != "" {
		a.print(" TANDEM_CA=%s", clean(g.CA))
	}
	where := "anywhere"
	if loopback(g.URL) {
		where = "on this machine" // the door is not open to others
	}
	a.print("\n\nWith that line in a shell %s, tandem works there. The dashboard is at %s/\n", where, clean(g.URL))
}

func (a *app) listTokens() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "Show every token: its name, role and end, never the token itself", Example: "  tandem token list", Args: want(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(func(c *client.Client) error {
				all, err := c.Tokens(cmd.Context())
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(all)
				}
				if len(all.Tokens) == 0 {
					a.print("there are no tokens; tandem token create makes one\n")
					return nil
				}
				t := &table{head: []string{"NAME", "ROLE", "MADE", "BY", "EXPIRES"}}
				for _, k := range all.Tokens {
					end := cell{text: "never"}
					if !k.Expires.IsZero() {
						end.text = a.clock(k.Expires)
					}
					if k.Expired {
						end = cell{"expired " + a.ago(k.Expires), red}
					}
					t.rows = append(t.rows, []cell{{text: k.Name}, {text: k.Role}, {text: a.ago(k.Created)}, {text: cmp.Or(k.By, "-")}, end})
				}
				a.printTable(t)
				return nil
			})
		},
	}
}

func (a *app) revokeToken() *cobra.Command {
	return &cobra.Command{
		Use: "revoke NAME", Short: "End a token, and whatever is under way with it, at once", Example: "  tandem token revoke ann", Args: want("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if strings.HasPrefix(args[0], tokens.Prefix) { // never echoed
				return usage("%s takes the name of a token, not the token itself; tandem token list shows the names", cmd.CommandPath())
			}
			if err := checkToken(cmd, args[0]); err != nil {
				return err
			}
			return a.with(func(c *client.Client) error {
				t, err := c.RevokeToken(cmd.Context(), args[0])
				if err != nil {
					return a.similarToken(cmd.Context(), c, args[0], err)
				}
				if a.json {
					return a.printJSON(t)
				}
				a.print("%s is revoked: its token does not count any more\n", clean(t.Name))
				return nil
			})
		},
	}
}

// similarToken adds to an error about a token that does not exist which one may have been meant.
func (a *app) similarToken(ctx context.Context, c *client.Client, name string, err error) error {
	f := asFailure(err)
	if f.err.Code != wire.CodeNotFound {
		return err
	}
	all, lerr := c.Tokens(ctx)
	if lerr != nil {
		return err
	}
	var names []string
	for _, t := range all.Tokens {
		names = append(names, t.Name)
	}
	e := *f.err
	e.Message += suggestion(name, slices.Clip(names), "tandem token list shows them")
	return &e
}
