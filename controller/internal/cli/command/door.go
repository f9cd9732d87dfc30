package command

import (
	"cmp"
	"errors"
	"runtime"

	"tandem.internal/controller/internal/cli/contexts"
	"tandem.internal/controller/internal/op"
	"tandem.internal/shared/wire"
)

// Door is where a run asks a controller, and with what.
type Door struct {
	contexts.Context
	Name      string // of the context that it is; "": it is none
	By        string // flag or variable that chose it; "": nothing did
	CAFrom    string // flag or variable that has CA; "": the context
	TokenFrom string // likewise of TokenFile; TokenVar: it has the token itself

	token string
}

// TokenVar is the variable that has a token.
const TokenVar = "TANDEM_TOKEN"

// way is one of those to choose a controller.
type way struct{ by, value string }

// only returns the way that has a value; both is the error if two have one.
func only(ways []way, both func(first, second string) error) (found way, err error) {
	for _, w := range ways {
		switch {
		case w.value == "":
		case found.by != "":
			return way{}, both(found.by, w.by)
		default:
			found = w
		}
	}
	return found, nil
}

// Door finds out which controller is meant: that of a flag, of a variable, of the context in use, or that of this
// machine. A context's CA and token go to its own address only. What a flag or a variable says of them stands over the
// context, but for variables beside TANDEM_URL: these are about that address.
func (a *App) Door() (Door, error) {
	env := func(name string) string {
		value, _ := a.Env(name)
		return value
	}
	chosen, err := only([]way{{"--socket", a.socket}, {"--url", a.url}, {"--context", a.context}},
		func(x, y string) error { return Usage("%s and %s exclude each other", x, y) })
	flag := chosen.by != ""
	if err == nil && !flag {
		var ways []way
		for _, name := range []string{"TANDEM_SOCKET", "TANDEM_URL", "TANDEM_CONTEXT"} {
			ways = append(ways, way{name, env(name)})
		}
		chosen, err = only(ways, func(x, y string) error {
			return Usage("%s and %s are both set; unset one, or choose with --socket, --url or --context", x, y)
		})
	}
	if err != nil {
		return Door{}, err
	}
	d := Door{By: chosen.by}
	switch chosen.by {
	case "--socket", "TANDEM_SOCKET":
		d.Socket = chosen.value
	case "--url", "TANDEM_URL":
		d.URL = chosen.value
	default:
		if err := a.known(&d, chosen.value); err != nil {
			return Door{}, err
		}
	}
	if d.URL == "" {
		return a.socketDoor(d)
	}
	if d.Name == "" || !flag || env("TANDEM_URL") == "" {
		if ca := env("TANDEM_CA"); ca != "" {
			d.CA, d.CAFrom = ca, "TANDEM_CA"
		}
		if token := env(TokenVar); token != "" {
			d.token, d.TokenFile, d.TokenFrom = token, "", TokenVar
		}
	}
	if a.ca != "" {
		d.CA, d.CAFrom = a.ca, "--ca"
	}
	if a.tokenFile != "" {
		d.TokenFile, d.TokenFrom = a.tokenFile, "--token-file"
	}
	return d, nil
}

// known takes the context of a name, or "" that in use, if there is one.
func (a *App) known(d *Door, name string) error {
	if a.Config == "" && name == "" {
		return nil
	}
	set, err := a.Contexts()
	if err != nil {
		return err
	}
	if d.Name = cmp.Or(name, set.Use); d.Name == "" {
		return nil
	}
	if d.Context, err = set.Find(d.Name); err == nil {
		return nil
	}
	if name == "" {
		return Refuse(ExitUsage, wire.CodeNotFound, "%s; it is the one in use: tandem context use names another", err)
	}
	return Refuse(ExitUsage, wire.CodeNotFound, "%s: %s", d.By, err)
}

// socketDoor completes a door without an address.
func (a *App) socketDoor(d Door) (Door, error) {
	if a.tokenFile != "" {
		return Door{}, Usage("--token-file goes with --url: a socket needs no token")
	}
	if a.ca != "" {
		return Door{}, Usage("--ca goes with --url: a socket needs no certificate")
	}
	if d.Socket == "" && runtime.GOOS != "linux" { // where no controller runs
		return Door{}, Usage("which controller is asked? --url https://GATEWAY:8885 says, or TANDEM_URL, or a context")
	}
	d.Socket = cmp.Or(d.Socket, op.DefaultSocket)
	return d, nil
}

// ContextsFile is the file of contexts; the error says why there can be none.
func (a *App) ContextsFile() (string, error) {
	if a.Config == "" {
		return "", Usage("no directory is known for what this user has set; is HOME set?")
	}
	return contexts.File(a.Config), nil
}

// Contexts reads the file of contexts.
func (a *App) Contexts() (*contexts.Set, error) {
	file, err := a.ContextsFile()
	if err != nil {
		return nil, err
	}
	set, err := contexts.Load(file)
	if err != nil {
		return nil, Usage("%s", err)
	}
	return set, nil
}

// Flagged is the context that the flags of this run describe, which may be none.
func (a *App) Flagged() contexts.Context {
	return contexts.Context{Socket: a.socket, URL: a.url, CA: a.ca, TokenFile: a.tokenFile}
}

// CheckContext judges a context with the files that it names. Nobody is asked.
func (a *App) CheckContext(c contexts.Context) error {
	if err := c.Check(); err != nil {
		if _, ok := errors.AsType[*wire.Error](err); ok {
			return err
		}
		return Usage("%s", err)
	}
	asks, err := a.open(Door{Context: c, CAFrom: "--ca"})
	if err != nil {
		return err
	}
	asks.Close()
	return nil
}
