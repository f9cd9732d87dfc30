// Package artefact owns the commands about the controller's store of artefacts. An upload that was interrupted goes on
// where it was when the same command is run again.
package artefact

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// Commands are the commands of this package that stand at the top.
func Commands(a *command.App) []*cobra.Command {
	return []*cobra.Command{command.Group("artefact", "Keep files that nodes fetch from the controller",
		"  tandem artefact add tandem-node-1.4.0\n  tandem artefact list\n  tandem artefact remove 9f2c4e0f1b7a",
		add(a), list(a), show(a), remove(a))}
}

func list(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the artefacts, and the uploads that have not ended",
		Example: "  tandem artefact list\n  tandem artefact list --json", Args: command.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return command.Ask(cmd.Context(), a, op.ListArtefacts, op.None{}, printList)
		},
	}
}

func printList(a *command.App, v op.Artefacts) {
	t := &term.Table{Head: []string{"DIGEST", "SIZE", "NAME", "ADDED", "BY", "IN USE"}}
	for _, x := range v.Artefacts {
		users := term.Cell{Text: "no"}
		if n := len(x.UsedBy) + x.Omitted; n > 0 {
			users = term.Cell{Text: term.Plural(n, "reference")}
		}
		if x.Damaged != nil {
			users = term.Red.Cell("damaged")
		}
		t.Add(command.ShortDigest(x.Digest), command.Size(x.Size), x.Name, a.Ago(x.Added), x.Who, users)
	}
	for _, u := range v.Uploads {
		t.Add(command.ShortDigest(u.Digest), command.Size(u.Size), u.Name, "", u.Who,
			term.Yellow.Cell(fmt.Sprintf("%s of it are there", percent(u.Offset, u.Size))))
	}
	if len(v.Artefacts)+len(v.Uploads) > 0 {
		a.Table(t)
	}
	a.Print("%s of %s are taken\n", command.Size(v.Reserved), command.Size(v.Quota))
}

func percent(part, whole int64) string {
	if whole == 0 {
		return "100 %"
	}
	return fmt.Sprintf("%d %%", 100*(part>>10)/max(whole>>10, 1))
}

func show(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use: "show DIGEST", Short: "Show an artefact: who refers to it, where nodes fetch it, how far its upload is",
		Example: "  tandem artefact show 9f2c4e0f1b7a", Args: command.Args("DIGEST"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return command.Gather(cmd.Context(), a,
				func(ctx context.Context, c *client.Client) (v view.Artefact, err error) {
					digest, err := whole(ctx, c, args[0])
					if err != nil {
						return v, err
					}
					return client.Call(ctx, c, op.ShowArtefact, op.ArtefactIn{Digest: digest})
				}, printArtefact)
		},
	}
}

func printArtefact(a *command.App, v view.Artefact) {
	a.Print("%s\n", term.Clean(v.Digest))
	if v.Name != "" {
		a.Print("  name    %s\n", term.Clean(v.Name))
	}
	a.Print("  size    %s\n", term.Remark(command.Size(v.Size), fmt.Sprintf("%d bytes", v.Size)))
	if !v.Added.IsZero() {
		a.Print("  added   %s%s\n", a.Ago(v.Added), term.Clean(command.By(v.Who)))
	}
	if u := v.Upload; u != nil {
		printUpload(a, u)
	}
	if v.URL != "" {
		a.Print("  at      %s\n", term.Clean(v.URL))
	}
	if v.Damaged != nil {
		a.Print("  damaged %s\n", command.Brief(v.Damaged))
	}
	used := "nothing refers to it"
	if len(v.UsedBy) > 0 {
		used = term.Clean(strings.Join(v.UsedBy, ", "))
		if v.Omitted > 0 {
			used += fmt.Sprintf(" and %d more", v.Omitted)
		}
	}
	a.Print("  in use  %s\n", used)
}

// printUpload says how far an upload is.
func printUpload(a *command.App, u *view.Upload) {
	done := fmt.Sprintf("%d of %d bytes are there", u.Offset, u.Size)
	if u.State == view.UploadVerifying {
		done = fmt.Sprintf("all is there, %d bytes of it are verified", u.Verified)
	}
	a.Print("  upload  %s; kept %s, longer if it goes on\n", done, a.Until(u.Expires))
	if !u.Begun.IsZero() {
		a.Print("  begun   %s%s\n", a.Ago(u.Begun), term.Clean(command.By(u.Who)))
	}
}

func remove(a *command.App) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "remove DIGEST", Short: "Remove an artefact that nothing refers to, or end an upload",
		Example: "  tandem artefact remove 9f2c4e0f1b7a", Args: command.Args("DIGEST"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return command.Gather(cmd.Context(), a,
				func(ctx context.Context, c *client.Client) (v op.RemovedArtefact, err error) {
					digest, err := whole(ctx, c, args[0])
					if err != nil {
						return v, err
					}
					in := op.RemoveArtefactIn{ArtefactIn: op.ArtefactIn{Digest: digest}}
					in.Reason = reason
					return client.Call(ctx, c, op.RemoveArtefact, in)
				}, func(a *command.App, v op.RemovedArtefact) { a.Print("%s is removed\n", term.Clean(v.Digest)) })
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "`why`, for the journal")
	return cmd
}

// leastDigits is how much of a digest has to be given, in hexadecimal digits.
const leastDigits = 6

// whole returns the digest that begins so, of an artefact or an upload.
func whole(ctx context.Context, c *client.Client, text string) (string, error) {
	if wire.ValidHash(text) {
		return text, nil
	}
	begin := strings.ToLower(strings.TrimPrefix(text, wire.HashPrefix))
	if _, err := hex.DecodeString(begin + strings.Repeat("0", len(begin)%2)); err != nil || len(begin) < leastDigits {
		return "", command.Usage("%.80q is no digest, and no beginning of one: at least %d hexadecimal digits; "+
			"tandem artefact list shows them", text, leastDigits)
	}
	v, err := client.Call(ctx, c, op.ListArtefacts, op.None{})
	if err != nil {
		return "", err
	}
	var found []string
	consider := func(digest string) {
		if strings.HasPrefix(strings.TrimPrefix(digest, wire.HashPrefix), begin) {
			found = append(found, digest)
		}
	}
	for _, x := range v.Artefacts {
		consider(x.Digest)
	}
	for _, u := range v.Uploads {
		if len(found) == 0 || found[len(found)-1] != u.Digest {
			consider(u.Digest)
		}
	}
	switch len(found) {
	case 0:
		return "", wire.New(wire.CodeNotFound, "", fmt.Sprintf("no artefact has a digest that begins with %s; "+
			"tandem artefact list shows them", begin))
	case 1:
		return found[0], nil
	}
	return "", wire.New(wire.CodeInvalidArgument, "", fmt.Sprintf("%d artefacts begin with %s: give more of the digest",
		len(found), begin))
}
