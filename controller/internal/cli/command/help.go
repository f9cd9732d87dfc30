package command

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/term"
)

// helpWidth is how many columns help has, as that of the other programs does.
const helpWidth = 80

// help explains a command: cobra's own, in lines that every terminal has. Examples and what is indented stay as they
// are.
func help(c *cobra.Command, _ []string) {
	text := c.Long
	if text == "" {
		text = c.Short
	}
	c.Println(filled(text) + "\n")
	c.Print(c.UsageString())
}

// filled wraps each paragraph anew.
func filled(text string) string {
	all := strings.Split(strings.TrimSpace(text), "\n\n")
	for i, paragraph := range all {
		if !strings.HasPrefix(paragraph, "\t") && !strings.Contains("\n"+paragraph, "\n ") &&
			!strings.Contains(paragraph, "\n\t") {
			all[i] = strings.Join(term.Wrap(strings.Join(strings.Fields(paragraph), " "), helpWidth), "\n")
		}
	}
	return strings.Join(all, "\n\n")
}

// usage says how a command is called.
func usage(c *cobra.Command) error {
	var b strings.Builder
	b.WriteString("Usage:")
	if c.Runnable() {
		b.WriteString("\n  " + c.UseLine())
	}
	if c.HasAvailableSubCommands() {
		b.WriteString("\n  " + c.CommandPath() + " [command]")
	}
	if c.HasExample() {
		b.WriteString("\n\nExamples:\n" + c.Example)
	}
	if c.HasAvailableSubCommands() {
		b.WriteString("\n\nAvailable Commands:")
		for _, sub := range c.Commands() {
			if !sub.IsAvailableCommand() && sub.Name() != "help" {
				continue
			}
			name := fmt.Sprintf("%-*s ", sub.NamePadding(), sub.Name())
			for _, line := range term.Wrap(sub.Short, helpWidth-2-len(name)) {
				b.WriteString("\n  " + name + line)
				name = strings.Repeat(" ", len(name))
			}
		}
	}
	if c.HasAvailableLocalFlags() {
		b.WriteString("\n\nFlags:\n" + strings.TrimRight(c.LocalFlags().FlagUsagesWrapped(helpWidth), " \n"))
	}
	if c.HasAvailableInheritedFlags() {
		b.WriteString("\n\nGlobal Flags:\n" + strings.TrimRight(c.InheritedFlags().FlagUsagesWrapped(helpWidth), " \n"))
	}
	if c.HasAvailableSubCommands() {
		b.WriteString("\n\nUse \"" + c.CommandPath() + " [command] --help\" for more information about a command.")
	}
	_, err := io.WriteString(c.OutOrStderr(), b.String()+"\n")
	return err
}
