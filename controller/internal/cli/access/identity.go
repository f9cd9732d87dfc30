package access

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// NodeCommands are the commands that let a node in and cut it off.
func NodeCommands(a *command.App) []*cobra.Command {
	return []*cobra.Command{enroll(a), revokeNode(a)}
}

func enroll(a *command.App) *cobra.Command {
	var ttl command.Duration
	var nodeType string
	cmd := &cobra.Command{
		Use: "enroll NODE", Short: "Make a token with which a node joins the unit, once",
		Example: "  tandem node enroll node-1\n  tandem node enroll node-1 --type mainType --ttl 1h --json",
		Args:    command.NodeArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			in := op.EnrollIn{NodeIn: op.NodeIn{Node: args[0]}, Enroll: op.Enroll{TTL: ttl.ISO(), Type: nodeType}}
			return a.Connect(func(c *client.Client) error { return enrollNode(cmd.Context(), a, c, in) })
		},
	}
	cmd.Flags().Var(&ttl, "ttl", "how long the token counts, up to 30 days (default 24h)")
	cmd.Flags().StringVar(&nodeType, "type", "", "believe no other node type of this node (default any)")
	return cmd
}

// enrollNode says, too, whose place the new node would take.
func enrollNode(ctx context.Context, a *command.App, c *client.Client, in op.EnrollIn) error {
	e, err := client.Call(ctx, c, op.EnrollNode, in)
	switch {
	case err != nil:
		return err
	case a.JSON:
		return a.PrintJSON(e)
	}
	printEnrolment(a, e)
	n, err := client.Call(ctx, c, op.ShowNode, in.NodeIn)
	if err == nil && n.Identity != nil && n.Identity.State == "joined" {
		a.Warn("there is a node %[1]s, which has joined: a machine that joins with this becomes %[1]s in its place",
			in.Node)
	}
	return nil // a node that was never heard of is what is meant to come
}

func printEnrolment(a *command.App, e view.Enrolment) {
	node := term.Clean(e.Node)
	a.Print("%s may join %s, once; whoever has the token is %s. On the node:\n\n", node, a.Until(e.Expires), node)
	// A here-document: the token is no argument, which every user of the node could read.
	a.Print("  tandem-node join --controller %s --token - <<'END'\n%s\nEND\n", term.Clean(e.Controller),
		term.Clean(e.Token))
}

func revokeNode(a *command.App) *cobra.Command {
	var in op.RevokeIn
	var many command.Many
	cmd := &cobra.Command{
		Use:   "revoke (NODE | --where FILTER)",
		Short: "Cut a node off: its session, its certificates and its open tokens end at once",
		Example: "  tandem node revoke node-1 --reason \"stolen\"\n" +
			"  tandem node revoke --where 'offline-for:90d type:press' --reason \"sold\"",
		Args: many.Args(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if many.Given(cmd) {
				return many.Order(cmd, a, op.NodesOrder{Revoke: &in.Revoke}, "revoke")
			}
			in.Node = args[0]
			return command.Ask(cmd.Context(), a, op.RevokeNode, in, func(a *command.App, n view.Node) {
				node := term.Clean(n.Node)
				a.Print("%s is revoked: nothing that it has counts any more. "+
					"To let it in again: tandem node enroll %s\n", node, node)
			}, command.NearNode(in.Node))
		},
	}
	many.Flags(cmd)
	cmd.Flags().StringVar(&in.Reason, "reason", "", "`why`, for the journal")
	return cmd
}

func identities(a *command.App) *cobra.Command {
	return command.Group("identity",
		"Certify and revoke whoever is not a node: the cloud side, operators, brokers of the site",
		"  tandem identity certify cloud/eu --csr eu.csr --out eu.pem\n  tandem identity revoke cloud/eu",
		certify(a), revokeIdentity(a))
}

const requestExample = "  openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes " +
	"-keyout eu.key -subj /CN=eu -out eu.csr"

func certify(a *command.App) *cobra.Command {
	var csr, out string
	var hosts []string
	var replace bool
	cmd := &cobra.Command{
		Use: "certify IDENTITY", Short: "Certify the key of a request: cloud/NAME, operator/NAME or broker/NAME",
		Example: "  tandem identity certify cloud/eu --csr eu.csr --out eu.pem\n" +
			"  tandem identity certify broker/b1 --csr b1.csr --host broker.local --host 10.0.0.5 --out b1.pem",
		Args: command.Args("IDENTITY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if csr == "" {
				return command.Usage("%s needs --csr, a PKCS #10 certificate request in PEM; for example:\n%s",
					cmd.CommandPath(), requestExample)
			}
			text, err := command.ReadFile(csr)
			if err != nil {
				return command.Unreadable(csr, err)
			}
			if out != "" {
				if err := command.Vacant(out, replace); err != nil {
					return command.Replaceable(err)
				}
			}
			return a.Connect(func(c *client.Client) error {
				in := view.Certification{Identity: args[0], CSR: string(text), Hosts: hosts}
				cert, err := client.Call(cmd.Context(), c, op.CertifyIdentity, op.CertifyIn{Certification: in})
				if e, ok := errors.AsType[*wire.Error](err); ok && e.Path == "/csr" {
					return &command.Failure{Exit: command.ExitUsage, Err: wire.New(e.Code, "", e.Message),
						From: command.Source{File: csr}}
				}
				if err != nil {
					return err
				}
				return printCertificate(a, cert, out, replace)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&csr, "csr", "", "`file` with the certificate request (required)")
	f.StringVar(&out, "out", "", "`file` for the certificate and the CA's (default: print them)")
	f.BoolVar(&replace, "replace", false, "replace the file of --out if it exists")
	f.StringArrayVar(&hosts, "host", nil, "`name` or address that a broker is reached under; repeatable")
	return cmd
}

// printCertificate prints a certificate and the CA's, or writes them to the file out.
func printCertificate(a *command.App, cert view.Certificate, out string, replace bool) error {
	switch {
	case out != "":
		return a.Save(out, replace, func(w io.Writer) error {
			_, err := io.WriteString(w, cert.Certificate+cert.CA)
			return err
		})
	case a.JSON:
		return a.PrintJSON(cert)
	}
	a.Print("%s%s", cert.Certificate, cert.CA)
	return nil
}

func revokeIdentity(a *command.App) *cobra.Command {
	var in op.Disown
	cmd := &cobra.Command{
		Use: "revoke IDENTITY", Short: "End the session and the certificates of one that is not a node",
		Example: "  tandem identity revoke cloud/eu --reason \"contract ended\"", Args: command.Args("IDENTITY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if in.Identity = args[0]; topic.ValidName(in.Identity) {
				return command.Usage("%q is no identity: cloud/NAME, operator/NAME or broker/NAME is expected; "+
					"a node is cut off by: tandem node revoke NODE", in.Identity)
			}
			return command.Ask(cmd.Context(), a, op.RevokeIdentity, in, func(a *command.App, d op.Disown) {
				a.Print("%s is revoked: nothing that it has counts any more\n", term.Clean(d.Identity))
			})
		},
	}
	cmd.Flags().StringVar(&in.Reason, "reason", "", "`why`, for the journal")
	return cmd
}
