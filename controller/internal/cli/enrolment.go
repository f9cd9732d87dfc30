package cli

import (
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

func (a *app) enroll() *cobra.Command {
	var ttl durationFlag
	cmd := &cobra.Command{
		Use: "enroll NODE", Short: "Make a token with which a node joins the unit, once",
		Example: "  tandem node enroll node-1\n  tandem node enroll node-1 --ttl 1h --json", Args: want("NODE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkNode(cmd, args[0]); err != nil {
				return err
			}
			return a.with(func(c *client.Client) error {
				e, err := c.Enroll(cmd.Context(), args[0], time.Duration(ttl))
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(e)
				}
				a.print("%s may join %s, once; whoever has the token is %s. On the node:\n\n", e.Node, a.until(e.Expires), e.Node)
				a.print("  tandem-node join --controller %s --token %s\n", clean(e.Controller), clean(e.Token))
				return nil
			})
		},
	}
	cmd.Flags().Var(&ttl, "ttl", "how long the token counts, up to 30 days (default 24h)")
	return cmd
}

func (a *app) revoke() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "revoke NODE", Short: "Cut a node off: its session, its certificates and its open tokens end at once",
		Example: "  tandem node revoke node-1 --reason \"stolen\"", Args: want("NODE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkNode(cmd, args[0]); err != nil {
				return err
			}
			return a.with(func(c *client.Client) error {
				n, err := c.Revoke(cmd.Context(), args[0], reason)
				if err != nil {
					return a.unknownNode(cmd.Context(), c, args[0], err)
				}
				if a.json {
					return a.printJSON(n)
				}
				a.print("%s is revoked: nothing that it has counts any more. To let it in again: tandem node enroll %s\n", clean(n.Node), clean(n.Node))
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "`why`, for the journal")
	return cmd
}

// identityRow says how a node stands with the unit's CA.
func (a *app) identityRow(t *table, id *view.Identity) {
	if id == nil {
		return
	}
	c := cell{text: id.State}
	switch id.State {
	case "joined":
		c.text = "joined " + a.ago(id.Joined) + ", certificate until " + a.clock(id.Expires)
		c.colour = green
		if id.Expires.Before(a.Now()) {
			c.text, c.colour = "certificate expired "+a.ago(id.Expires)+"; it has to join again", red
		}
	case "revoked":
		c.text, c.colour = "revoked "+a.ago(id.Revoked), red
		if id.RevokedBy != "" {
			c.text += " by " + id.RevokedBy
		}
	case "enrolled":
		c.text, c.colour = "enrolled, has not joined yet", yellow
	}
	t.rows = append(t.rows, []cell{{text: "Identity"}, c})
}

func (a *app) identity() *cobra.Command {
	return a.group("identity", "Certify and revoke whoever is not a node: the cloud side, operators, brokers of the site",
		"  tandem identity certify cloud/eu --csr eu.csr --out eu.pem\n  tandem identity revoke cloud/eu", a.certify(), a.disown())
}

func (a *app) certify() *cobra.Command {
	var csr, out string
	var hosts []string
	cmd := &cobra.Command{
		Use: "certify IDENTITY", Short: "Certify the key of a request: cloud/NAME, operator/NAME or broker/NAME",
		Example: "  tandem identity certify cloud/eu --csr eu.csr --out eu.pem\n  tandem identity certify broker/b1 --csr b1.csr --host broker.local --host 10.0.0.5 --out b1.pem",
		Args:    want("IDENTITY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if csr == "" {
				return usage("%s needs --csr, a PKCS #10 certificate request in PEM; for example:\n%s", cmd.CommandPath(), "  openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout eu.key -subj /CN=eu -out eu.csr")
			}
			text, err := readFile(csr)
			if err != nil {
				return unreadable(csr, err)
			}
			if out != "" {
				if err := vacant(out, false); err != nil {
					return err
				}
			}
			return a.with(func(c *client.Client) error {
				cert, err := c.Certify(cmd.Context(), view.Certification{Identity: args[0], CSR: string(text), Hosts: hosts})
				if e, ok := errors.AsType[*wire.Error](err); ok && e.Path == "/csr" {
					return &failure{exit: exitUsage, err: wire.New(e.Code, "", e.Message), file: csr}
				}
				if err != nil {
					return err
				}
				switch {
				case out != "":
					return a.save(out, false, func(w io.Writer) error {
						_, err := io.WriteString(w, cert.Certificate+cert.CA)
						return err
					})
				case a.json:
					return a.printJSON(cert)
				}
				a.print("%s%s", cert.Certificate, cert.CA)
				return nil
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&csr, "csr", "", "`file` with the certificate request (required)")
	f.StringVar(&out, "out", "", "`file` for the certificate and the CA's (default: print them)")
	f.StringArrayVar(&hosts, "host", nil, "`name` or address that a broker is reached under; repeatable")
	return cmd
}

func (a *app) disown() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "revoke IDENTITY", Short: "End the session and the certificates of one that is not a node",
		Example: "  tandem identity revoke cloud/eu --reason \"contract ended\"", Args: want("IDENTITY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if topic.ValidName(args[0]) {
				return usage("%q is no identity: cloud/NAME, operator/NAME or broker/NAME is expected; a node is cut off by: tandem node revoke NODE", args[0])
			}
			return a.with(func(c *client.Client) error {
				in := op.Disown{Identity: args[0], Reason: reason}
				if err := c.Disown(cmd.Context(), in); err != nil {
					return err
				}
				if a.json {
					return a.printJSON(in)
				}
				a.print("%s is revoked: nothing that it has counts any more\n", clean(args[0]))
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "`why`, for the journal")
	return cmd
}
