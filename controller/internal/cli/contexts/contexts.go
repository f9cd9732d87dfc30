// Package contexts owns the file of the controllers that a person works with: under a name for each, where it is asked,
// who vouches for it, and which file has the token. Of the secrets themselves it keeps none.
//
// It guarantees that the file is there whole, the old one or the new one, with mode 0600, and that nothing in it that
// could be a secret is shown: such a file is refused. Which context a run takes is decided by package command.
package contexts

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/apitoken"
	"tandem.internal/controller/internal/client"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/near"
	"tandem.internal/shared/wire"
)

// most is how many bytes the file has at most.
const most = 1 << 20

// Context is how one controller is asked.
type Context struct {
	Socket    string `json:"socket,omitempty"`    // path of its unix socket; it or URL is there
	URL       string `json:"url,omitempty"`       // its address
	CA        string `json:"ca,omitempty"`        // vouches for URL: a file in PEM, or its fingerprint
	TokenFile string `json:"tokenFile,omitempty"` // file with the token for URL; "": there is none
}

// Address is the socket or the address.
func (c Context) Address() string { return cmp.Or(c.URL, c.Socket) }

// Check judges a context without looking at the files that it names. No error has a secret.
func (c Context) Check() error {
	if (c.Socket == "") == (c.URL == "") {
		return errors.New("a context has a socket or an address (url), and not both")
	}
	if c.Socket != "" && c.CA+c.TokenFile != "" {
		return errors.New("a socket needs neither a CA nor a token")
	}
	if strings.Contains(c.TokenFile, apitoken.Prefix) {
		return errors.New("tokenFile is the name of a file; here stands a token itself, which belongs into such a file")
	}
	if c.Socket == "" {
		asks, err := client.New(client.Options{URL: c.URL})
		if err != nil {
			return err
		}
		asks.Close()
	}
	return nil
}

// Set is the content of the file.
type Set struct {
	Use      string             `json:"use,omitempty"` // name of the context that counts if nothing else is asked for
	Contexts map[string]Context `json:"contexts"`      // by name
}

// File is where the file is; dir is the user's directory for what programs are set to.
func File(dir string) string { return filepath.Join(dir, "tandem", "contexts.json") }

// Load reads the file. If there is none the set is empty. The errors name the file.
func Load(file string) (*Set, error) {
	s := &Set{Contexts: map[string]Context{}}
	text, err := durable.ReadFile(file, most)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	} else if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, s, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("%s: %w", file, shape(err))
	}
	if s.Contexts == nil {
		s.Contexts = map[string]Context{}
	}
	for _, name := range s.Names() {
		if !wire.ValidName(name) {
			return nil, fmt.Errorf("%s: %.80q cannot be the name of a context", file, name)
		}
		if err := s.Contexts[name].Check(); err != nil {
			return nil, fmt.Errorf("%s: the context %s: %w", file, name, err)
		}
	}
	return s, nil
}

// shape says where in the file something is wrong. It does not repeat what stands there.
func shape(err error) error {
	if e, ok := errors.AsType[*json.SemanticError](err); ok && e.JSONPointer != "" {
		return fmt.Errorf("it is not a file of contexts (at %s)", e.JSONPointer)
	}
	if e, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return fmt.Errorf("it is not JSON (at byte %d)", e.ByteOffset)
	}
	return errors.New("it is not a file of contexts")
}

// Save writes the file, and its directory if there is none.
func (s *Set) Save(file string) error {
	text, err := json.Marshal(s, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return durable.WriteFile(file, append(text, '\n'), 0o600, nil)
}

// Names lists the contexts, by name.
func (s *Set) Names() []string { return slices.Sorted(maps.Keys(s.Contexts)) }

// Find returns the context of a name. The error has the names that are near.
func (s *Set) Find(name string) (Context, error) {
	if c, ok := s.Contexts[name]; ok {
		return c, nil
	}
	otherwise := "tandem context list shows those that there are"
	if len(s.Contexts) == 0 {
		otherwise = "there is none yet: tandem context add makes one"
	}
	meant := near.Suggest(near.All(name, s.Names()), otherwise)
	return Context{}, fmt.Errorf("there is no context %.80q%s", name, meant)
}
