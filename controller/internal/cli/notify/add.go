package notify

import (
	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/filter"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
)

func add(a *command.App) *cobra.Command {
	in := op.NewNotice{}
	var ca string
	var after uint64
	cmd := &cobra.Command{
		Use: "add NAME URL", Short: "Have a receiver told, and show once what that is signed with",
		Long: `Have a receiver told, and show once what that is signed with.

Each entry of the journal that the receiver wants is sent to URL by POST, in order, as a
CloudEvent 1.0, signed as Standard Webhooks has it. It is tried until the receiver
answers with a status of 200 to 299, and then never again. Without other flags these are
the entries of level warning and error, from now on. What is no error is left out while a
maintenance is announced, and counted.

Only scheme, host and port of URL are shown again: the rest may be as good as a password.`,
		Example: "  tandem notify add pager https://hooks.example.com/tandem --level error\n" +
			"  tandem notify add presses https://10.0.0.9/in --ca ca.pem --type alert --node 'press-*'\n" +
			"  tandem notify add line-4 https://10.0.0.9/in --where 'type:press label.line:4'\n" +
			"  tandem notify add local http://127.0.0.1:9000/ --level info --during-maintenance",
		Args: command.Args("NAME", "URL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkName(cmd, args[0]); err != nil {
				return err
			}
			if _, err := filter.Parse(in.Where); err != nil {
				return &command.Failure{Exit: command.ExitUsage, Err: err}
			}
			in.Name, in.URL = args[0], args[1]
			if ca != "" {
				s, err := a.Read(ca)
				if err != nil {
					return err
				}
				in.CA = string(s.Text)
			}
			if cmd.Flags().Changed("after") {
				in.After = &after
			}
			return command.Ask(cmd.Context(), a, op.AddNotice, in, printGrant)
		},
	}
	f := cmd.Flags()
	f.StringVar(&in.Level, "level", "", "`level` from which on it is told: info, warning or error (default warning, "+
		"with --type info)")
	f.StringSliceVar(&in.Types, "type", nil, "only this `type` of records or of nodes' events; several with commas")
	f.StringSliceVar(&in.Nodes, "node", nil, "only what is about this `node`; * stands for anything")
	f.StringVar(&in.Where, "where", "", "only what is about nodes that this `FILTER` selects then, as in tandem nodes")
	f.StringSliceVar(&in.Who, "who", nil, "only what this `name` has caused; * stands for anything")
	f.StringVar(&ca, "ca", "", "`file` of the CA that vouches for it, in PEM (default: the system's authorities)")
	f.BoolVar(&in.Insecure, "insecure-http", false, "URL begins with http:// and is another machine: that is meant")
	f.BoolVar(&in.Always, "during-maintenance", false, "leave nothing out while a maintenance is announced")
	f.Uint64Var(&after, "after", 0, "begin after this `record` of the journal (default: the newest)")
	return cmd
}

func printGrant(a *command.App, g view.NoticeGrant) {
	a.Print("%s is told at %s from record %d on: %s. Its messages are signed with this, which is shown once:\n\n  %s\n",
		term.Clean(g.Name), term.Clean(g.URL), g.Cursor+1, term.Clean(what(&g.Filter)), term.Clean(g.Secret))
}
