package command

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tandem.internal/shared/duration"
	"tandem.internal/shared/near"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
)

// Args demands one argument for each placeholder.
func Args(placeholders ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) < len(placeholders) {
			return Lacks(c, strings.Join(placeholders[len(args):], " and "))
		}
		if len(args) == len(placeholders) {
			return nil
		}
		for _, flag := range []string{"wait", "within"} {
			for _, arg := range args {
				if _, err := ParseDuration(arg); err == nil && c.Flags().Lookup(flag) != nil {
					return Usage("%s: %q is one argument too many; a time to wait is written --%s=%s",
						c.CommandPath(), arg, flag, arg)
				}
			}
		}
		extra, all := args[len(placeholders)], cmp.Or(strings.Join(placeholders, " and "), "no argument")
		return Usage("%s takes %s; %.200q is one argument too many%s", c.CommandPath(), all, extra, elsewhere(c, extra))
	}
}

// AtLeast demands one argument for each placeholder, and takes more.
func AtLeast(placeholders ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) < len(placeholders) {
			return Args(placeholders...)(c, args)
		}
		return nil
	}
}

// CheckName refuses what cannot be the name of a policy, say, which is what.
func CheckName(what, name string) error {
	if !wire.ValidName(name) {
		return Usage("%.80q cannot be the name of a %s: letters, digits, dot, underscore and dash, at most 63", name,
			what)
	}
	return nil
}

// Lacks is the mistake of leaving out something that a command needs.
func Lacks(c *cobra.Command, what string) error {
	return Usage("%s needs %s; for example:\n%s", c.CommandPath(), what, c.Example)
}

// NodeArg demands one argument, NODE, that can be a node's ID.
func NodeArg(c *cobra.Command, args []string) error { return nodeArg(c, "NODE", args) }

func nodeArg(c *cobra.Command, placeholder string, args []string) error {
	if err := Args(placeholder)(c, args); err != nil {
		return err
	}
	return CheckNode(c, args[0])
}

// NodeOrCommand is NodeArg for a command that has commands, too. Of several words the first may be a command that is
// misspelt, or the second one that stands at the wrong place.
func NodeOrCommand(placeholder string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) > 1 {
			if err := noCommand(c, args[0]); err != nil {
				return err
			}
			if at := near.All(args[1], Names(c)); len(at) == 1 {
				return Usage("%.200q stands where a command of %s does: the command comes first; see %s %s --help",
					args[0], c.CommandPath(), c.CommandPath(), at[0])
			}
		}
		return nodeArg(c, placeholder, args)
	}
}

// elsewhere says where an argument that a command does not take belongs.
func elsewhere(c *cobra.Command, arg string) string {
	_, err := unitconfig.Compare(arg, arg)
	switch {
	case c.Flags().Lookup("wait") != nil:
		return ""
	case err == nil && c.Flags().Lookup("version") != nil:
		return "; a version is given as --version " + arg
	case c.Flags().Lookup("node") != nil:
		return "; a node is given as --node ID"
	}
	return ""
}

// CheckNode refuses what cannot be a node's ID.
func CheckNode(cmd *cobra.Command, node string) error {
	if node == "" {
		return Lacks(cmd, "--node ID")
	}
	if !topic.ValidName(node) {
		return Usage("%.80q cannot be a node's ID: letters, digits, dot, underscore and dash, at most %d",
			node, topic.MaxName)
	}
	return nil
}

// CheckNodeFlag is CheckNode for a flag --node that may be left out.
func CheckNodeFlag(cmd *cobra.Command, node string) error {
	if !cmd.Flags().Changed("node") {
		return nil
	}
	return CheckNode(cmd, node)
}

// flagError says in the program's own words what is wrong with a flag.
func flagError(c *cobra.Command, err error) error {
	if args := c.Flags().Args(); c.HasSubCommands() && len(args) > 0 {
		if err := noCommand(c, args[0]); err != nil {
			return err // the flag may be of the command that is meant
		}
	}
	if e, ok := errors.AsType[*pflag.NotExistError](err); ok {
		var known []string
		c.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, "--"+f.Name) })
		name := e.GetSpecifiedName()
		if len(name) == 1 {
			return Usage("%s has no flag -%s; %s --help lists its flags; what begins with a dash and is no flag "+
				"stands behind --: %s -- …", c.CommandPath(), name, c.CommandPath(), c.CommandPath())
		}
		meant := Suggest("--"+name, known, c.CommandPath()+" --help lists its flags")
		return Usage("%s has no flag --%s%s", c.CommandPath(), name, meant)
	}
	if e, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return Usage("%s: --%s needs a value", c.CommandPath(), e.GetFlag().Name)
	}
	if e, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		why := e.Unwrap().Error()
		if _, ok := errors.AsType[*strconv.NumError](err); ok {
			why = fmt.Sprintf("%.80q is not a whole number", e.GetValue())
		}
		return Usage("%s: --%s: %s", c.CommandPath(), e.GetFlag().Name, why)
	}
	return Usage("%s: %s", c.CommandPath(), err)
}

// ParseDuration reads Go's form (2m, 1h30m), days (90d) and ISO 8601 (PT2M).
func ParseDuration(s string) (time.Duration, error) {
	if strings.HasPrefix(s, "P") {
		return duration.Parse(s)
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration such as 90s, 2m, 7d or PT2M", s)
	}
	return d, nil
}

// Duration is a flag that ParseDuration reads, above zero.
type Duration time.Duration

// String is part of pflag.Value; a flag that is not set has no default to show.
func (d *Duration) String() string {
	if *d == 0 {
		return ""
	}
	s := time.Duration(*d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	return s
}

// Set is part of pflag.Value.
func (d *Duration) Set(s string) error {
	v, err := ParseDuration(s)
	if err != nil {
		return err
	}
	if v <= 0 {
		return fmt.Errorf("%q is not above zero", s)
	}
	*d = Duration(v)
	return nil
}

// Std is the duration.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// ISO is the duration as requests have it; "" if the flag is not set.
func (d Duration) ISO() string {
	if d == 0 {
		return ""
	}
	return duration.Format(time.Duration(d))
}

// Type is part of pflag.Value.
func (d *Duration) Type() string { return "duration" }
