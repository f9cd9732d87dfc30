package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"tandem.internal/broker/acl"
	"tandem.internal/broker/server"
	"tandem.internal/shared/near"
	"tandem.internal/shared/settings"
	"tandem.internal/shared/topic"
)

// aclConfig is the configuration of tandem-broker acl: the identities to print rules for.
type aclConfig struct {
	Unit      string            `name:"unit"`
	Node      []string          `name:"node"`
	Nodes     string            `name:"nodes"`
	Cloud     []string          `name:"cloud"`
	Operator  []string          `name:"operator"`
	Passwords map[string]string `name:"passwords" secret:"true"`
}

// Help describes the settings.
func (*aclConfig) Help() map[string]string {
	return map[string]string{
		"unit": "name of the unit (required)",
		"node": "a node of the unit, press-1; repeat it for each",
		"nodes": "file with the nodes: one name a line, or what tandem nodes --json prints, of which revoked " +
			"nodes are left out; - reads standard input",
		"cloud":    "name of a cloud side, which submits and reads the answers; repeat it for each",
		"operator": "name of an operator who may read the whole unit; repeat it for each",
		"passwords": "nats only: users have these passwords, by user name, instead of certificates; better given in " +
			"a file, or as TANDEM_PASSWORDS, than on the command line",
	}
}

// Usage is the beginning of --help.
func (*aclConfig) Usage() string {
	return `Usage: tandem-broker acl mosquitto|nats --unit UNIT [flags]

Prints who may write and read what in a unit, for a broker that the site already has: an ACL file
for mosquitto 2, or an authorization block for NATS server 2.10. How to use it stands at its head.
The controller is always in it. Make it anew when a node joins or is revoked.

Examples:
  tandem-broker acl mosquitto --unit line4 --node press-1 --node press-2 --cloud eu > tandem.acl
  tandem nodes --json | tandem-broker acl nats --unit line4 --nodes - --operator ann > tandem-users.conf
`
}

// formats are the brokers that rules can be printed for.
var formats = []string{"mosquitto", "nats"}

// printACL is the command "acl": it writes the rules to stdout.
func printACL(args []string, stdin io.Reader, stdout io.Writer) error {
	var cfg aclConfig
	rest, err := settings.Load("tandem-broker acl", &cfg, args, os.LookupEnv, stdout)
	switch {
	case err != nil:
		return err
	case len(rest) == 0:
		return usageError{errors.New("acl: for which broker? tandem-broker acl mosquitto, or tandem-broker acl nats")}
	case len(rest) > 1:
		return usageError{fmt.Errorf("acl: unexpected argument %q; nodes are named with --node", rest[1])}
	case !slices.Contains(formats, rest[0]):
		return usageError{fmt.Errorf("acl: there are no rules for a broker called %q%s", rest[0],
			near.Suggest(near.All(rest[0], formats), "mosquitto and nats are known"))}
	case cfg.Unit == "":
		return usageError{errors.New("acl: --unit: required: the name of the unit")}
	case !topic.ValidName(cfg.Unit):
		return usageError{fmt.Errorf("--unit: %q is no unit name: letters, digits, and . _ - after the first, "+
			"at most 63", cfg.Unit)}
	}
	who, err := cfg.identities(stdin)
	if err != nil {
		return err
	}
	file, err := cfg.render(rest[0], who)
	if err != nil {
		return err
	}
	_, err = stdout.Write(file)
	return err
}

// usageError is a mistake on the command line: exit status 2.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// identities returns the controller and the identities that the flags name.
func (c *aclConfig) identities(stdin io.Reader) ([]acl.Identity, error) {
	nodes := c.Node
	if c.Nodes != "" {
		data, err := c.read(stdin)
		if err != nil {
			return nil, fmt.Errorf("--nodes: %w", err)
		}
		more, err := nodeNames(data)
		if err != nil {
			return nil, usageError{fmt.Errorf("--nodes: %w", err)}
		}
		nodes = append(slices.Clip(nodes), more...)
	}
	if len(nodes) == 0 {
		return nil, usageError{errors.New("nobody but the controller would be let in: name the nodes with --node, " +
			"or with --nodes FILE")}
	}
	who := []acl.Identity{{Role: acl.Controller}}
	for _, group := range []struct {
		flag  string
		role  acl.Role
		names []string
	}{{"--node", acl.Node, nodes}, {"--cloud", acl.Cloud, c.Cloud}, {"--operator", acl.Operator, c.Operator}} {
		for _, name := range group.names {
			id := acl.Identity{Role: group.role, Name: name}
			if !topic.ValidName(name) {
				return nil, usageError{fmt.Errorf("%s: %.80q is no name: letters, digits, and . _ - after the first, "+
					"at most 63; without the role in front", group.flag, name)}
			}
			if !slices.Contains(who, id) {
				who = append(who, id)
			}
		}
	}
	return who, nil
}

// maxNodes is the most bytes of the input of --nodes: enough for a hundred thousand nodes.
const maxNodes = 256 << 20

// read returns the content of the file that --nodes names, or of standard input for "-".
func (c *aclConfig) read(stdin io.Reader) ([]byte, error) {
	if c.Nodes != "-" {
		f, err := os.Open(c.Nodes)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		stdin = f
	}
	data, err := io.ReadAll(io.LimitReader(stdin, maxNodes+1))
	if err == nil && len(data) > maxNodes {
		err = fmt.Errorf("more than %d bytes", maxNodes)
	}
	return data, err
}

// nodeNames reads names, one a line with # before a comment, or the JSON of "tandem nodes --json".
func nodeNames(data []byte) (names []string, err error) {
	if strings.HasPrefix(strings.TrimSpace(string(data)), "{") {
		var list struct {
			Nodes []struct {
				Node     string
				Identity struct{ State string }
			}
		}
		if err := json.Unmarshal(data, &list); err != nil {
			return nil, fmt.Errorf("this looks like JSON, but not like what tandem nodes --json prints: %w", err)
		}
		for _, n := range list.Nodes {
			if n.Identity.State != "revoked" {
				names = append(names, n.Node)
			}
		}
		return names, nil
	}
	for line := range strings.Lines(string(data)) {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line != "" {
			names = append(names, line)
		}
	}
	return names, nil
}

// render returns the file for one of formats.
func (c *aclConfig) render(format string, who []acl.Identity) ([]byte, error) {
	rules := acl.Rules{Unit: c.Unit}
	if format == "mosquitto" {
		if len(c.Passwords) > 0 {
			return nil, usageError{errors.New("--passwords: mosquitto has passwords in a file of its own, made by " +
				"mosquitto_passwd; its ACL file has none")}
		}
		return rules.Mosquitto(who)
	}
	var users acl.NATSUsers
	if len(c.Passwords) > 0 {
		users.Passwords = map[acl.Identity]string{}
		for name, password := range c.Passwords {
			id, err := acl.IdentityOf(name, name)
			if err != nil {
				return nil, usageError{fmt.Errorf("--passwords: %w", err)}
			}
			if password == server.SamplePassword {
				return nil, usageError{fmt.Errorf("--passwords: that of %s is still the sample's, which everybody "+
					"knows", id)}
			}
			if !slices.Contains(who, id) {
				return nil, usageError{fmt.Errorf("--passwords: %s has one, but is not named as --node, --cloud or "+
					"--operator", id)}
			}
			users.Passwords[id] = password
		}
	}
	return rules.NATS(who, users)
}
