package command

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"tandem.internal/controller/internal/apitoken"
	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/op"
	"tandem.internal/shared/wire"
)

// Flags adds the flags that every command has.
func (a *App) Flags(flags *pflag.FlagSet) {
	flags.BoolVar(&a.JSON, "json", false, "print JSON, errors too")
	flags.StringVar(&a.socket, "socket", "",
		"the controller's unix `socket` (variable TANDEM_SOCKET, default "+op.DefaultSocket+")")
	flags.StringVar(&a.url, "url", "",
		"the controller's `address`, such as https://gateway:8885, instead of a socket (variable TANDEM_URL)")
	flags.StringVar(&a.ca, "ca", "", "`CA` that vouches for --url: a file in PEM, or its fingerprint, sha256:… "+
		"(variable TANDEM_CA, default: the system's)")
	flags.StringVar(&a.tokenFile, "token-file", "",
		"`file` with the token for --url (variable TANDEM_TOKEN has the token itself)")
	flags.StringVar(&a.context, "context", "",
		"the controller that \"tandem context\" has under this `NAME` (variable TANDEM_CONTEXT)")
	flags.Var(&a.timeout, "timeout", "longest wait for one answer of the controller")
}

// Explain makes an error of the controller one that helps.
type Explain func(ctx context.Context, c *client.Client, err error) error

// Ask asks for an operation and shows its answer: as JSON with --json, else by show.
func Ask[In, Out any](
	ctx context.Context, a *App, o op.Op[In, Out], in In, show func(*App, Out), explain ...Explain,
) error {
	return Gather(ctx, a, func(ctx context.Context, c *client.Client) (Out, error) {
		return client.Call(ctx, c, o, in)
	}, show, explain...)
}

// Gather is Ask for an answer that several operations give.
func Gather[T any](
	ctx context.Context, a *App, call func(context.Context, *client.Client) (T, error),
	show func(*App, T), explain ...Explain,
) error {
	return a.Connect(func(c *client.Client) error {
		v, err := call(ctx, c)
		if err != nil {
			for _, better := range explain {
				err = better(ctx, c, err)
			}
			return err
		}
		if a.JSON {
			return a.PrintJSON(v)
		}
		show(a, v)
		return nil
	})
}

// Limited gives a stream that ends by itself the time limit of --timeout.
func (a *App) Limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, time.Duration(a.timeout))
}

// Connect runs f with a connection to the controller that flags and variables name.
func (a *App) Connect(f func(*client.Client) error) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	defer c.Close()
	return f(c)
}

func (a *App) client() (*client.Client, error) {
	d, err := a.Door()
	if err != nil {
		return nil, err
	}
	return a.open(d)
}

// open returns a client for a door.
func (a *App) open(d Door) (*client.Client, error) {
	o := client.Options{Socket: d.Socket, URL: d.URL, User: a.User, Timeout: time.Duration(a.timeout)}
	if strings.HasPrefix(d.By, "TANDEM_") { // what is not on the command line is easily forgotten
		o.From = d.By
	}
	if o.URL == "" {
		return client.New(o)
	}
	var err error
	if o.Trust, err = trust(cmp.Or(d.CAFrom, "context "+d.Name), d.CA); err != nil {
		return nil, err
	}
	if o.Token, err = d.secret(); err != nil {
		return nil, err
	}
	if o.Token != "" && inClear(o.URL) {
		a.Warn("WARNING: the token goes to %s without TLS: whoever is on the network in between can read it", o.URL)
	}
	return client.New(o)
}

// inClear reports whether what is sent to an address crosses a network without TLS.
func inClear(address string) bool {
	return strings.HasPrefix(address, "http://") && !Loopback(address)
}

// Loopback reports whether an address can be reached from this machine alone.
func Loopback(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// trust returns the authority that text, which from has, means; nil for the system's.
func trust(from, text string) (*client.Trust, error) {
	if text == "" {
		return nil, nil
	}
	if strings.HasPrefix(strings.TrimSpace(text), wire.HashPrefix) {
		t, err := client.ParsePin(text)
		if err != nil {
			return nil, Usage("%s: %s", from, err)
		}
		return t, nil
	}
	pem, err := ReadFile(text)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, Usage("%s: there is no file %.100q; a fingerprint begins with %s", from, text, wire.HashPrefix)
	}
	if err != nil {
		return nil, Unreadable(text, err)
	}
	t, err := client.ParseCA(pem)
	if err != nil {
		return nil, Usage("%s: %s: %s", from, text, err)
	}
	return t, nil
}

// secret returns the token for a door's address, "" if none is given. What is wrong with it is said before it leaves
// the machine; no error has the token itself.
func (d Door) secret() (string, error) {
	from, text := TokenVar, d.token
	if d.TokenFile != "" {
		from, text = d.TokenFile, ""
		data, err := ReadFile(d.TokenFile)
		if errors.Is(err, fs.ErrNotExist) && strings.Contains(d.TokenFile, apitoken.Prefix) {
			return "", Usage("%s: it is the name of a file; here stands a token itself, which belongs into such a "+
				"file, or into %s", cmp.Or(d.TokenFrom, "context "+d.Name), TokenVar)
		} else if err != nil {
			return "", Unreadable(d.TokenFile, err)
		}
		for line := range strings.Lines(string(data)) {
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' && text == "" {
				text = line
			}
		}
		if text == "" {
			return "", Usage("there is no token in %s", d.TokenFile)
		}
	}
	if text = strings.TrimSpace(text); text == "" {
		return "", nil
	}
	if _, err := apitoken.Parse(text); err != nil {
		return "", Usage("%s: %s", from, err)
	}
	if d.TokenFile == "" {
		return text, nil
	}
	switch info, err := os.Stat(d.TokenFile); {
	case err != nil:
		return "", Unreadable(d.TokenFile, err)
	case FileModes && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0:
		return "", Usage("%s: others may use it (mode %04o); chmod 600 it", d.TokenFile, info.Mode().Perm())
	}
	return text, nil
}
