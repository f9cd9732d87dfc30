package access

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/duration"
	"tandem.internal/shared/wire"
)

// ticketLife is how soon a browser has to open the link.
const ticketLife = 30 * time.Second

// browse opens a file in the user's browser; tests put another in its place.
var browse = func(ctx context.Context, file string) error {
	name, args := "xdg-open", []string{file}
	switch runtime.GOOS {
	case "darwin":
		name = "open"
	case "windows":
		name, args = "rundll32", []string{"url.dll,FileProtocolHandler", file}
	}
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if text := strings.TrimSpace(string(out)); err != nil && text != "" {
		return fmt.Errorf("%s: %w: %s", name, err, text)
	} else if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func dashboard(a *command.App) *cobra.Command {
	role, life, show := "", command.Duration(12*time.Hour), false
	cmd := &cobra.Command{
		Use: "dashboard", Short: "Open the dashboard in a browser, without typing a token",
		Long: `Open the dashboard in a browser, without typing a token.

The browser gets a link that logs in once, within 30 seconds. Its session has a token of
its own, which tandem token list shows and tandem token revoke ends.`,
		Example: "  tandem dashboard\n  tandem dashboard --role operate --expires 1h\n  tandem dashboard --print",
		Args:    command.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkPage(cmd, role); err != nil {
				return err
			}
			return a.Connect(func(c *client.Client) error {
				return openDashboard(cmd.Context(), a, c, role, life, show)
			})
		},
	}
	cmd.Flags().StringVar(&role, "role", "view", "`role`, what the page may do: view, operate or admin")
	cmd.Flags().Var(&life, "expires", "how long the session counts")
	cmd.Flags().BoolVar(&show, "print", false, "print the link instead of opening it")
	return cmd
}

func openDashboard(
	ctx context.Context, a *command.App, c *client.Client, role string, life command.Duration, show bool,
) error {
	var mark [4]byte
	if _, err := rand.Read(mark[:]); err != nil {
		return err
	}
	g, err := client.Call(ctx, c, op.CreateToken, op.NewToken{
		Name: "dashboard-" + hex.EncodeToString(mark[:]), Role: role, TTL: life.ISO(), Once: true,
		Within: duration.Format(ticketLife),
	})
	switch {
	case err != nil:
		return err
	case g.URL == "":
		return wire.New(wire.CodeNotSupported, "", "this controller serves its unix socket only; start it with "+
			"--http ADDRESS, and the dashboard is there")
	case a.JSON:
		return a.PrintJSON(g)
	}
	link := term.Clean(g.URL) + "/#once=" + term.Clean(g.Secret)
	if show {
		a.Print("%s\n", link)
		return nil
	}
	if err := browseTo(ctx, link); err != nil {
		why, _, _ := strings.Cut(err.Error(), "\n") // xdg-open tells of each browser that it looked for
		a.Warn("no browser was opened: %s", why)
		a.Print("%s\n", link)
		a.Print("This logs in once, within %s.\n", term.Span(ticketLife))
		return nil
	}
	printOpened(a, g)
	return nil
}

func printOpened(a *command.App, g view.Grant) {
	a.Print("the dashboard of %s is open in your browser, with the role %s\n", term.Clean(g.URL), term.Clean(g.Role))
}

// browseTo opens a link by a file that only the user can read: the arguments of a program are seen by every user of the
// machine.
func browseTo(ctx context.Context, link string) error {
	dir, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	dir = filepath.Join(dir, "tandem")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	file := filepath.Join(dir, "dashboard.html")
	text := `<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer">` +
		`<meta http-equiv="refresh" content="0;url=` + html.EscapeString(link) + `">` + "\n"
	if err := durable.WriteFile(file, []byte(text), 0o600, nil); err != nil {
		return err
	}
	if err := browse(ctx, file); err != nil {
		return errors.Join(err, os.Remove(file))
	}
	return nil
}
