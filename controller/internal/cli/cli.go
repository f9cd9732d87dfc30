// Package cli owns the operator's program, tandem: its commands, what they print and how they
// exit. The commands and exit statuses are those of the product's command reference.
//
// It guarantees that
//   - standard output has results only, errors and progress go to standard error, and with --json
//     both are JSON of a stable shape (those of package view and of the HTTP API);
//   - a file that is malformed is refused with every place in it before a controller is asked;
//   - nothing that a node or a document says can move the cursor or change the colours of a terminal.
//
// It must not decide anything about a unit: that is the controller's part. Everything that it takes
// from its surroundings comes in by IO, so that tests run the program as people do.
package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/tokens"
	"tandem.internal/shared/settings"
	"tandem.internal/shared/wire"
)

// IO is the program's surroundings.
type IO struct {
	In          io.Reader
	Out, Err    io.Writer
	Env         func(string) (string, bool)
	Now         func() time.Time
	Zone        *time.Location // of the times shown
	User        string         // who is at the keyboard; a claim that the journal notes
	OutTerminal bool           // Out is somebody's terminal
	ErrTerminal bool           // Err is
	Width       int            // columns of the terminal; 0: unknown
}

// The exit statuses.
const (
	exitOK          = 0
	exitRefused     = 1
	exitUsage       = 2
	exitUnreachable = 3
	exitIncomplete  = 4
)

// app is one run of the program.
type app struct {
	IO
	out     *bufio.Writer
	colours bool // Out takes colours

	json      bool
	socket    string
	url       string
	ca        string
	tokenFile string
	timeout   durationFlag
}

// Run runs the program and returns its exit status. When ctx ends, so does whatever it waits for.
func Run(ctx context.Context, args []string, surroundings IO) int {
	a := &app{IO: surroundings, out: bufio.NewWriter(surroundings.Out), timeout: durationFlag(30 * time.Second)}
	noColor, _ := a.Env("NO_COLOR")
	term, _ := a.Env("TERM")
	a.colours = a.OutTerminal && noColor == "" && term != "dumb"
	end := slices.Index(args, "--")
	if end < 0 {
		end = len(args)
	}
	asked := slices.Contains(args[:end], "--json") // also if the flags turn out to be unreadable
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	a.json = a.json || asked
	if flushed := a.out.Flush(); flushed != nil && err == nil {
		err = fmt.Errorf("writing the output: %w", flushed)
	}
	if err == nil {
		return exitOK
	}
	f := asFailure(err)
	a.report(f)
	return f.exit
}

func (a *app) root() *cobra.Command {
	root := a.group("tandem", "Keep every node of a unit on the configuration it should have",
		"  tandem config apply unit.json --wait\n  tandem nodes\n  tandem config explain --node node-1 /alertRules/ram/maxThreshold",
		a.config(), a.nodes(), a.node(), a.health(), a.identity(), a.events(), a.journal(), a.unit(), a.token(), a.key(), a.workload(), a.version())
	root.Long = `tandem is the operator's side of a Tandem controller.

It talks to the controller on a unix socket, whose file mode says who may, or over
HTTPS with a token (tandem token create). Exit status: 0 done; 1 refused by a rule;
2 usage or malformed input; 3 the controller cannot be reached; 4 accepted, but not
every node got there.`
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetIn(a.In)
	root.SetOut(a.out)
	root.SetErr(a.Err)
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(helpCommand())
	version := root.Flags().Bool("version", false, "print this program's version, as the command version does")
	without := root.RunE
	root.RunE = func(c *cobra.Command, args []string) error {
		if *version && len(args) == 0 {
			return a.printVersion()
		}
		return without(c, args)
	}
	completion(root)
	flags := root.PersistentFlags()
	flags.BoolVar(&a.json, "json", false, "print JSON, errors too")
	flags.StringVar(&a.socket, "socket", "", "the controller's unix `socket` (variable TANDEM_SOCKET, default "+op.DefaultSocket+")")
	flags.StringVar(&a.url, "url", "", "the controller's `address`, such as https://gateway:8885, instead of a socket (variable TANDEM_URL)")
	flags.StringVar(&a.ca, "ca", "", "`CA` that vouches for --url: a file in PEM, or its fingerprint, sha256:… (variable TANDEM_CA, default: the system's)")
	flags.StringVar(&a.tokenFile, "token-file", "", "`file` with the token for --url (variable TANDEM_TOKEN has the token itself)")
	flags.Var(&a.timeout, "timeout", "longest wait for an answer")
	return root
}

// flagError says what is wrong with a flag in our words.
func flagError(c *cobra.Command, err error) error {
	if args := c.Flags().Args(); c.HasSubCommands() && len(args) > 0 {
		if err := noCommand(c, args[0]); err != nil {
			return err // whose flags these would be
		}
	}
	if e, ok := errors.AsType[*pflag.NotExistError](err); ok {
		var known []string
		c.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, "--"+f.Name) })
		name := e.GetSpecifiedName()
		if len(name) == 1 {
			return usage("%s has no flag -%s; %s --help lists its flags", c.CommandPath(), name, c.CommandPath())
		}
		return usage("%s has no flag --%s%s", c.CommandPath(), name, suggestion("--"+name, known, c.CommandPath()+" --help lists its flags"))
	}
	if e, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return usage("%s: --%s needs a value", c.CommandPath(), e.GetFlag().Name)
	}
	if e, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		why := e.Unwrap().Error()
		if _, ok := errors.AsType[*strconv.NumError](err); ok {
			why = fmt.Sprintf("%.80q is not a whole number", e.GetValue())
		}
		return usage("%s: --%s: %s", c.CommandPath(), e.GetFlag().Name, why)
	}
	return usage("%s: %s", c.CommandPath(), err)
}

// want checks the number of arguments; the last may be optional, in brackets.
func want(placeholders ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) < len(placeholders) {
			return usage("%s needs %s; for example:\n%s", c.CommandPath(), strings.Join(placeholders[len(args):], " and "), c.Example)
		}
		if len(args) == len(placeholders) {
			return nil
		}
		if c.Flags().Lookup("wait") != nil {
			for _, arg := range args {
				if _, err := parseDuration(arg); err == nil {
					return usage("%s: %q is one argument too many; a time to wait is written --wait=%s", c.CommandPath(), arg, arg)
				}
			}
		}
		extra := args[len(placeholders)]
		return usage("%s takes %s; %.200q is one argument too many%s", c.CommandPath(), cmp.Or(strings.Join(placeholders, " and "), "no argument"), extra, elsewhere(c, extra))
	}
}

// client connects to the controller that flags and variables name. The caller closes it.
func (a *app) client() (*client.Client, error) {
	o := client.Options{Socket: a.socket, URL: a.url, User: a.User, Timeout: time.Duration(a.timeout)}
	if o.Socket != "" && o.URL != "" {
		return nil, usage("--socket and --url exclude each other")
	}
	if o.Socket == "" && o.URL == "" {
		o.Socket, _ = a.Env("TANDEM_SOCKET")
		o.URL, _ = a.Env("TANDEM_URL")
		if o.Socket != "" && o.URL != "" {
			return nil, usage("TANDEM_SOCKET and TANDEM_URL are both set; unset one, or choose with --socket or --url")
		}
	}
	if o.URL == "" {
		if a.tokenFile != "" {
			return nil, usage("--token-file goes with --url: a socket needs no token")
		}
		if a.ca != "" {
			return nil, usage("--ca goes with --url: a socket needs no certificate")
		}
		o.Socket = cmp.Or(o.Socket, op.DefaultSocket)
		return client.New(o)
	}
	var err error
	if o.Trust, err = a.trust(); err != nil {
		return nil, err
	}
	if o.Token, err = a.credential(); err != nil {
		return nil, err
	}
	if o.Token != "" && !a.json && inClear(o.URL) {
		fmt.Fprintf(a.Err, "tandem: WARNING: the token goes to %s without TLS: whoever is on the network in between can read it\n", clean(o.URL))
	}
	return client.New(o)
}

// inClear reports whether what is sent to an address crosses a network as it is.
func inClear(address string) bool {
	return strings.HasPrefix(address, "http://") && !loopback(address)
}

// loopback reports whether an address is of this machine alone.
func loopback(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// trust is who may vouch for the controller, nil for whom the system trusts.
func (a *app) trust() (*client.Trust, error) {
	from, text := "--ca", a.ca
	if text == "" {
		from = "TANDEM_CA"
		text, _ = a.Env("TANDEM_CA")
	}
	if text == "" {
		return nil, nil
	}
	if strings.HasPrefix(strings.TrimSpace(text), wire.HashPrefix) {
		t, err := client.ParsePin(text)
		if err != nil {
			return nil, usage("%s: %s", from, err)
		}
		return t, nil
	}
	pem, err := readFile(text)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, usage("%s: there is no file %.100q; a fingerprint begins with %s", from, text, wire.HashPrefix)
	}
	if err != nil {
		return nil, unreadable(text, err)
	}
	t, err := client.ParseCA(pem)
	if err != nil {
		return nil, usage("%s: %s: %s", from, text, err)
	}
	return t, nil
}

// credential is the token for --url, "" if none is given. What is wrong with one is said here, before
// it leaves the machine; the token itself is in no error.
func (a *app) credential() (string, error) {
	from, text := "TANDEM_TOKEN", ""
	if a.tokenFile != "" {
		from = a.tokenFile
		data, err := readFile(a.tokenFile)
		if err != nil {
			return "", unreadable(a.tokenFile, err)
		}
		for line := range strings.Lines(string(data)) {
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' && text == "" {
				text = line
			}
		}
		if text == "" {
			return "", usage("there is no token in %s", a.tokenFile)
		}
	} else {
		text, _ = a.Env("TANDEM_TOKEN")
	}
	if text = strings.TrimSpace(text); text == "" {
		return "", nil
	}
	if _, err := tokens.Parse(text); err != nil {
		return "", usage("%s: %s", from, err)
	}
	return text, nil
}

// with runs f with a connection.
func (a *app) with(f func(*client.Client) error) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	defer c.Close()
	return f(c)
}

// print writes to standard output. The buffer keeps an error and returns it from Flush.
func (a *app) print(format string, args ...any) {
	fmt.Fprintf(a.out, format, args...)
}

// printJSON writes v on one line.
func (a *app) printJSON(v any) error {
	data, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	a.print("%s\n", escaped(data))
	return nil
}

// printDocument writes JSON for people: indented.
func (a *app) printDocument(doc jsontext.Value) error {
	doc = slices.Clone(doc)
	if err := doc.Indent(jsontext.WithIndent("  ")); err != nil {
		return fmt.Errorf("reading the document: %w", err)
	}
	a.print("%s\n", escaped(doc))
	return nil
}

func (a *app) version() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print this program's version", Example: "  tandem version", Args: want(),
		RunE: func(*cobra.Command, []string) error { return a.printVersion() },
	}
}

func (a *app) printVersion() error {
	if a.json {
		return a.printJSON(struct {
			Version string `json:"version"`
			Wire    int    `json:"wire"`
		}{settings.Version, wire.Version})
	}
	a.print("tandem %s, wire version %d\n", settings.Version, wire.Version)
	return nil
}
