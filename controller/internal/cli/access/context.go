package access

import (
	"cmp"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/cli/contexts"
	"tandem.internal/controller/internal/term"
	"tandem.internal/shared/wire"
)

func contextCommands(a *command.App) *cobra.Command {
	return command.Group("context", "Keep the controllers that you work with under names",
		"  tandem context add line4 --url https://gateway:8885 --ca sha256:… --token-file ~/.tandem-line4\n"+
			"  tandem context use line4\n  tandem --context line5 nodes",
		listContexts(a), addContext(a), useContext(a), removeContext(a), showContext(a))
}

// contextsJSON is what list prints with --json.
type contextsJSON struct {
	Use      string        `json:"use,omitempty"` // name of the one in use
	Contexts []contextJSON `json:"contexts"`
}

// contextJSON is a context. It has no secret: the file with the token is named only.
type contextJSON struct {
	Name string `json:"name,omitempty"`
	contexts.Context
	By string `json:"by,omitempty"` // flag or variable that chose it
	// flags or variables that say another CA or token
	CAFrom    string `json:"caFrom,omitempty"`
	TokenFrom string `json:"tokenFrom,omitempty"`
}

// change changes the file of contexts.
func change(a *command.App, how func(*contexts.Set) error) error {
	file, err := a.ContextsFile()
	if err != nil {
		return err
	}
	set, err := a.Contexts()
	if err != nil {
		return err
	}
	if err := how(set); err != nil {
		return err
	}
	if err := set.Save(file); err != nil {
		return command.Unreadable(file, err)
	}
	return nil
}

// notThere is the failure of a context that is not there.
func notThere(err error) error {
	return command.Refuse(command.ExitUsage, wire.CodeNotFound, "%s", err)
}

func listContexts(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the contexts; * is the one in use",
		Example: "  tandem context list", Args: command.Args(),
		RunE: func(*cobra.Command, []string) error {
			set, err := a.Contexts()
			if err != nil {
				return err
			}
			out := contextsJSON{Use: set.Use, Contexts: []contextJSON{}}
			t := &term.Table{Head: []string{"", "NAME", "ADDRESS", "CA", "TOKEN FILE"}}
			for _, name := range set.Names() {
				c, mark := set.Contexts[name], " "
				if name == set.Use {
					mark = "*"
				}
				t.Add(mark, name, c.Address(), c.CA, c.TokenFile)
				out.Contexts = append(out.Contexts, contextJSON{Name: name, Context: c})
			}
			switch {
			case a.JSON:
				return a.PrintJSON(out)
			case t.Len() == 0:
				a.Print("there is no context yet: tandem context add makes one\n")
			default:
				a.Table(t)
			}
			return nil
		},
	}
}

func addContext(a *command.App) *cobra.Command {
	var use, replace bool
	cmd := &cobra.Command{
		Use: "add NAME (--url ADDRESS | --socket SOCKET)", Short: "Add a controller under a name",
		Long: `Add a controller under a name, with the CA that vouches for it and the file with the
token, which keeps the token: here is only where it is. Nobody is asked.`,
		Example: "  tandem context add line4 --url https://gateway:8885 --ca sha256:… --token-file ~/.tandem-line4\n" +
			"  tandem context add here --socket /run/tandem/control.sock --use",
		Args: command.Args("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, c := args[0], a.Flagged()
			if err := command.CheckName("context", name); err != nil {
				return err
			}
			if c.Address() == "" {
				return command.Lacks(cmd, "--url or --socket")
			}
			if err := a.CheckContext(c); err != nil {
				return err
			}
			c, err := anywhere(c)
			if err != nil {
				return err
			}
			err = change(a, func(set *contexts.Set) error {
				if _, there := set.Contexts[name]; there && !replace {
					return command.Refuse(command.ExitUsage, wire.CodeAlreadyExists,
						"there is a context %s already; --replace replaces it", name)
				}
				set.Contexts[name] = c
				if use {
					set.Use = name
				}
				use = set.Use == name
				return nil
			})
			if err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(contextJSON{Name: name, Context: c})
			}
			a.Print("%s is %s", name, term.Clean(c.Address()))
			if use {
				a.Print(", and in use\n")
			} else {
				a.Print("; to use it: tandem context use %s, or --context %s\n", name, name)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&use, "use", false, "use it from now on")
	cmd.Flags().BoolVar(&replace, "replace", false, "replace the context of that name")
	return cmd
}

// anywhere makes the names of files such that they count in every directory.
func anywhere(c contexts.Context) (contexts.Context, error) {
	for _, name := range []*string{&c.Socket, &c.CA, &c.TokenFile} {
		if *name == "" || name == &c.CA && strings.HasPrefix(strings.TrimSpace(*name), wire.HashPrefix) {
			continue
		}
		path, err := filepath.Abs(*name)
		if err != nil {
			return c, err
		}
		*name = path
	}
	return c, nil
}

func useContext(a *command.App) *cobra.Command {
	var none bool
	cmd := &cobra.Command{
		Use: "use NAME", Short: "Ask this controller from now on, unless a flag or a variable names another",
		Example:           "  tandem context use line4\n  tandem context use --none",
		ValidArgsFunction: a.CompleteContexts,
		Args: func(cmd *cobra.Command, args []string) error {
			if none {
				return command.Args()(cmd, args)
			}
			return command.Args("NAME")(cmd, args)
		},
		RunE: func(_ *cobra.Command, args []string) error {
			var c contexts.Context
			name := strings.Join(args, "")
			err := change(a, func(set *contexts.Set) (err error) {
				if set.Use = name; none {
					return nil
				}
				if c, err = set.Find(name); err != nil {
					return notThere(err)
				}
				return nil
			})
			switch {
			case err != nil:
				return err
			case a.JSON:
				return a.PrintJSON(contextJSON{Name: name, Context: c})
			case none:
				a.Print("no context is in use\n")
			default:
				a.Print("%s is in use: %s\n", name, term.Clean(c.Address()))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&none, "none", false, "use none: the controller of this machine is asked")
	return cmd
}

func removeContext(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use: "remove NAME", Short: "Remove a context; the file with its token stays",
		Example: "  tandem context remove line4", Args: command.Args("NAME"), ValidArgsFunction: a.CompleteContexts,
		RunE: func(_ *cobra.Command, args []string) error {
			name, rest := args[0], ""
			var c contexts.Context
			err := change(a, func(set *contexts.Set) (err error) {
				if c, err = set.Find(name); err != nil {
					return notThere(err)
				}
				delete(set.Contexts, name)
				if set.Use == name {
					set.Use, rest = "", "; no context is in use any more"
				}
				return nil
			})
			if err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(contextJSON{Name: name, Context: c})
			}
			if c.TokenFile != "" {
				rest += "; its token is still in " + term.Clean(c.TokenFile)
			}
			a.Print("%s is removed%s\n", name, rest)
			return nil
		},
	}
}

func showContext(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use: "show", Short: "Show which controller is asked, and what says so", Example: "  tandem context show\n" +
			"  tandem context show --context line4",
		Args: command.Args(),
		RunE: func(*cobra.Command, []string) error {
			d, err := a.Door()
			if err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(contextJSON{Name: d.Name, Context: d.Context, By: d.By, CAFrom: d.CAFrom,
					TokenFrom: d.TokenFrom})
			}
			printDoor(a, d)
			return nil
		},
	}
}

func printDoor(a *command.App, d command.Door) {
	from := func(text, by string) string {
		if by == "" {
			return text
		}
		return text + ", by " + by
	}
	t := &term.Table{}
	if d.Name == "" {
		t.Add("Context", "none")
		t.Add("Address", from(d.Address(), d.By))
	} else {
		t.Add("Context", from(d.Name, d.By))
		t.Add("Address", d.Address())
	}
	if d.URL != "" {
		t.Add("CA", from(cmp.Or(d.CA, "whom the system trusts"), d.CAFrom))
		token := cmp.Or(d.TokenFile, "none")
		if d.TokenFrom == command.TokenVar {
			token = "given" // itself it is shown nowhere
		}
		t.Add("Token", from(token, d.TokenFrom))
	}
	a.Table(t)
}
