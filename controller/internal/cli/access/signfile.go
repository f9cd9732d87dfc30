package access

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/shared/publisher"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
)

// expiry is the time until which signatures bring files into force on nodes; "": without end.
type expiry struct{ text string }

func (e *expiry) flag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&e.text, "expires", "",
		"`time` after which nodes start no more what they have not had before, such as 2027-01-31 or "+
			"2027-01-31T12:00:00Z (default: never)")
}

// word is what says so in a trusted comment, with a space before it.
func (e *expiry) word(now time.Time) (string, error) {
	if e.text == "" {
		return "", nil
	}
	at, err := time.Parse(time.RFC3339, e.text)
	if err != nil {
		at, err = time.Parse(time.DateOnly, e.text)
	}
	if err != nil {
		return "", command.Usage("--expires: %.80q is no time such as 2027-01-31 or 2027-01-31T12:00:00Z", e.text)
	}
	if !at.After(now) {
		return "", command.Usage("--expires: %s is over", publisher.Expiry(at)[len("expires:"):])
	}
	return " " + publisher.Expiry(at), nil
}

func signFile(a *command.App) *cobra.Command {
	from := command.KeyPassword()
	var until expiry
	var key, out, name, version, floor string
	var replace, container bool
	cmd := &cobra.Command{
		Use: "sign-file FILE", Short: "Sign a version of the agent, or of a component, that is to be staged on nodes",
		Long: `Sign a file that nodes are updated with: tandem-node slot stage FILE finds the signature,
FILE.minisig, beside it. It counts for the version that is named here only, so that no old
file passes for a new version; what the agent says of itself has to agree with it. A node that
has tried a version with --floor takes none below that floor any more, whoever orders it: give
it once nobody is to go back further.`,
		Example: "  tandem publisher sign-file tandem-node --key publisher.key --version 1.4.0\n" +
			"  tandem publisher sign-file os-7.raucb --key publisher.key --component os --version 7",
		Args: command.Args("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			r := publisher.Release{Name: name, Version: version}
			switch {
			case key == "":
				return command.Lacks(cmd, "--key FILE")
			case version == "":
				return command.Lacks(cmd, "--version VERSION")
			case !topic.ValidName(name):
				return command.Usage("--component: %.80q is not a name", name)
			case len(strings.Fields(version)) != 1 || strings.TrimSpace(version) != version || len(version) > 100:
				return command.Usage("--version: %.100q is not a version: 1 to 100 bytes, without spaces", version)
			}
			comment, err := withFloor(r, floor)
			if err != nil {
				return err
			}
			if container && r.Name == publisher.AgentName {
				return command.Usage("--container is of a part of an image: name that by --component")
			}
			if container {
				comment += " " + publisher.ContainerWord
			}
			expires, err := until.word(a.Now())
			if err != nil {
				return err
			}
			if out == "" {
				out = args[0] + ".minisig"
			}
			if err := command.Vacant(out, replace); err != nil {
				return command.Replaceable(err)
			}
			s := &signing{comment: comment, expires: expires, known: map[string]signed{}}
			if s.key, err = secretKey(a, key, &from); err != nil {
				return err
			}
			f, err := os.Open(args[0])
			if err != nil {
				return command.Unreadable(args[0], err)
			}
			defer f.Close()
			c, err := s.sign(args[0], filepath.Base(args[0]), f, "")
			if err != nil {
				return command.Unreadable(args[0], err)
			}
			text := "untrusted comment: " + r.Comment() + "\n" + strings.TrimSuffix(c.signature, "\n") + "\n"
			write := func(w io.Writer) error { _, err := io.WriteString(w, text); return err }
			return a.Save(out, replace, write)
		},
	}
	from.Flag(cmd)
	until.flag(cmd)
	f := cmd.Flags()
	f.StringVar(&key, "key", "", "`file` with the publisher's key (required)")
	f.StringVar(&name, "component", publisher.AgentName, "`name` of the component; of the agent, "+publisher.AgentName)
	f.StringVar(&version, "version", "", "`version` that the file is (required)")
	f.StringVar(&floor, "floor", "", "lowest `version` of the agent that nodes try after this one (default: any)")
	f.BoolVar(&container, "container", false, "the file is part of an image: nodes use it in containers alone")
	f.StringVar(&out, "out", "", "`file` for the signature (default: FILE.minisig)")
	f.BoolVar(&replace, "replace", false, "replace a signature that is there")
	return cmd
}

// withFloor is how the trusted comment of a release begins, with the floor that it sets; "": none.
func withFloor(r publisher.Release, floor string) (string, error) {
	if floor == "" {
		return r.Comment(), nil
	}
	if r.Name != publisher.AgentName {
		return "", command.Usage("--floor goes with a version of the agent, not of a component")
	}
	c, err := unitconfig.Compare(r.Version, floor)
	if err != nil {
		return "", command.Usage("--floor: %s", wire.AsError(err).Message)
	}
	if c < 0 {
		return "", command.Usage("--floor: %s is above the version itself, %s", floor, r.Version)
	}
	return r.Comment() + " " + publisher.FloorWord(floor), nil
}
