package access

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"aead.dev/minisign"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/shared/publisher"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

func signSet(a *command.App) *cobra.Command {
	from := command.KeyPassword()
	var key, out, comment string
	var files []string
	var until expiry
	cmd := &cobra.Command{
		Use: "sign SET", Short: "Sign each resource in a file of workloads, and print the file with the signatures",
		Long: `Sign the content of each resource in a file of workloads, and print the file with the
signatures in it. What --file says is on this machine is signed as it is there, and its
checksum and size are corrected; anything else is fetched by http or https, and signed
if it has the checksum of SHA256 that the set says. Without --file for an address whose
resource has no such checksum, nothing is signed: it would be whatever the server says.`,
		Example: "  tandem publisher sign set.json --key publisher.key --file http://gateway/hello=./hello " +
			"--out signed.json",
		Args: command.Args("SET"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if key == "" {
				return command.Lacks(cmd, "--key FILE")
			}
			set, err := a.Read(args[0])
			if err != nil {
				return err
			}
			if _, problems := workload.Parse(set.Text); problems != nil {
				return command.Malformed(problems, set)
			}
			s := &signing{comment: comment, files: map[string]string{}, at: a.Now().Unix(), known: map[string]signed{}}
			if s.expires, err = until.word(a.Now()); err != nil {
				return err
			}
			for _, f := range files {
				i := strings.LastIndexByte(f, '=')
				if i <= 0 {
					return command.Usage("--file: %.200q is not URL=FILE", f)
				}
				s.files[f[:i]] = f[i+1:]
			}
			if s.key, err = secretKey(a, key, &from); err != nil {
				return err
			}
			text, err := s.set(cmd.Context(), set)
			if err != nil {
				return err
			}
			if out == "" {
				a.Print("%s", text)
				return nil
			}
			return a.Save(out, false, func(w io.Writer) error { _, err := w.Write(text); return err })
		},
	}
	from.Flag(cmd)
	f := cmd.Flags()
	f.StringVar(&key, "key", "", "`file` with the publisher's key (required)")
	f.StringArrayVar(&files, "file", nil, "`URL=FILE`: what is at that address is this file; repeatable")
	f.StringVar(&out, "out", "", "`file` for the signed set (default: print it)")
	until.flag(cmd)
	f.StringVar(&comment, "comment", "", "trusted `comment` of the signatures (default: time and name of the file)")
	return cmd
}

// signing signs the resources of one set.
type signing struct {
	key     minisign.PrivateKey
	comment string
	expires string            // what comes after the comment
	use     string            // before that, of what is being signed: that it is for containers alone
	files   map[string]string // by address
	at      int64             // Unix time
	known   map[string]signed // by address, and use behind it
	edits   []edit
}

// signed is what is to be said of a content.
type signed struct {
	sum, signature string
	size           int64
	here           bool // it is a file of this machine
}

// edit replaces a part of a text.
type edit struct {
	from, to int
	text     string
}

// member is one of a JSON object or array, and where its value is in the text.
type member struct {
	name     string
	value    jsontext.Value
	from, to int
}

// members are those of an object or array that is well-formed and begins at an offset.
func members(raw jsontext.Value, at int) (all []member, err error) {
	d := jsontext.NewDecoder(bytes.NewReader(raw))
	open, err := d.ReadToken()
	for err == nil && d.PeekKind() != '}' && d.PeekKind() != ']' {
		var m member
		if open.Kind() == '{' {
			var name jsontext.Token
			if name, err = d.ReadToken(); err != nil {
				break
			}
			m.name = name.String()
		}
		var v jsontext.Value
		if v, err = d.ReadValue(); err == nil {
			m.value, m.to = v.Clone(), at+int(d.InputOffset())
			m.from = m.to - len(v)
			all = append(all, m)
		}
	}
	return all, err
}

// find returns a member, or one without a value.
func find(all []member, name string) member {
	i := slices.IndexFunc(all, func(m member) bool { return m.name == name })
	if i < 0 {
		return member{}
	}
	return all[i]
}

// set signs all resources of a set that was read without problems, and returns its text with the signatures.
func (s *signing) set(ctx context.Context, set command.Source) ([]byte, error) {
	entries, err := members(set.Text, 0)
	if err != nil {
		return nil, err
	}
	for i, e := range entries {
		place := "/" + strconv.Itoa(i)
		parts, err := members(e.value, e.from)
		if err != nil {
			return nil, err
		}
		if filler := find(parts, "instance"); filler.value != nil {
			place += "/instance"
			if parts, err = members(filler.value, filler.from); err != nil {
				return nil, err
			}
		}
		list := find(parts, "resources")
		if list.value == nil {
			continue
		}
		resources, err := members(list.value, list.from)
		if err != nil {
			return nil, err
		}
		container := find(parts, "container")
		inside, err := members(container.value, container.from)
		if container.value != nil && err != nil {
			return nil, err
		}
		if s.use = ""; find(inside, "runtime").value != nil {
			s.use = " " + publisher.ContainerWord
		}
		for _, r := range resources {
			if err := s.resource(ctx, r); err != nil {
				at := string(jsontext.Pointer(place + "/resources").AppendToken(r.name))
				return nil, &command.Failure{Exit: command.ExitRefused, From: command.Source{File: set.File},
					Err: wire.New(wire.CodeNotAllowed, at, err.Error())}
			}
		}
	}
	slices.SortFunc(s.edits, func(a, b edit) int { return cmp.Compare(b.from, a.from) })
	text := bytes.Clone(set.Text)
	for _, e := range s.edits { // from the end, so that the others stay where they are
		text = slices.Concat(text[:e.from], []byte(e.text), text[e.to:])
	}
	return text, nil
}

// resource signs one.
func (s *signing) resource(ctx context.Context, r member) error {
	parts, err := members(r.value, r.from)
	if err != nil {
		return err
	}
	var urls []string
	if err := json.Unmarshal(find(parts, "urls").value, &urls); err != nil {
		return err
	}
	verification := find(parts, "verification")
	old, err := members(verification.value, verification.from)
	if err != nil {
		return err
	}
	var checksum string
	if v := find(old, "checksum").value; v != nil {
		if err := json.Unmarshal(v, &checksum); err != nil {
			return err
		}
	}
	c, err := s.content(ctx, urls, checksum)
	if err != nil {
		return err
	}
	text := "{"
	add := func(name string, value []byte) {
		if text != "{" {
			text += ", "
		}
		text += strconv.Quote(name) + ": " + string(value)
	}
	quoted := func(text string) []byte {
		data, _ := jsontext.AppendQuote(nil, text) // of letters, digits and a checked comment
		return data
	}
	add("checksum", quoted(c.sum))
	for _, m := range old {
		if m.name != "checksum" && m.name != "minisign" {
			add(m.name, m.value)
		}
	}
	add("minisign", quoted(c.signature))
	s.edits = append(s.edits, edit{verification.from, verification.to, text + "}"})
	if size := find(parts, "size"); c.here && size.value != nil {
		s.edits = append(s.edits, edit{size.from, size.to, strconv.FormatInt(c.size, 10)})
	}
	return nil
}

// content finds what is at one of the addresses, and signs it: each once.
func (s *signing) content(ctx context.Context, urls []string, checksum string) (signed, error) {
	for _, u := range urls {
		if c, ok := s.known[u+s.use]; ok && (c.here || strings.EqualFold(c.sum, checksum)) {
			return c, nil
		}
	}
	for _, u := range urls {
		if file, ok := s.files[u]; ok {
			f, err := os.Open(file)
			if err != nil {
				return signed{}, err
			}
			defer f.Close()
			return s.sign(u, path.Base(file), f, "")
		}
	}
	algorithm, _, err := workload.ParseChecksum(checksum)
	if err != nil || algorithm != workload.SHA256 {
		return signed{}, fmt.Errorf("it has no checksum of SHA256, and no --file %s=FILE says what it is", urls[0])
	}
	for _, u := range urls {
		if !strings.HasPrefix(u, "http://") && !strings.HasPrefix(u, "https://") {
			continue
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, u, nil)
		if err != nil {
			return signed{}, err
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return signed{}, fmt.Errorf("%w; if it is on this machine: --file %s=FILE", err, u)
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return signed{}, fmt.Errorf("%s answers %s", u, res.Status)
		}
		return s.sign(u, path.Base(req.URL.Path), res.Body, strings.ToLower(checksum))
	}
	return signed{}, errors.New("it can be fetched by http or https only: say --file URL=FILE")
}

// maxContent is the most bytes of one resource that are read.
const maxContent = 8 << 30

// sign signs a content. want is the checksum that it must have, in small letters; "": any.
func (s *signing) sign(url, name string, r io.Reader, want string) (signed, error) {
	sum := sha256.New()
	all := minisign.NewReader(io.TeeReader(io.LimitReader(r, maxContent+1), sum))
	n, err := io.Copy(io.Discard, all)
	c := signed{sum: workload.SHA256 + ":" + hex.EncodeToString(sum.Sum(nil)), size: n, here: want == ""}
	switch {
	case err != nil:
		return c, err
	case n > maxContent:
		return c, errors.New("it has more than 8 GiB")
	case want != "" && strings.ToLower(c.sum) != want:
		return c, fmt.Errorf("%s has the checksum %s", url, c.sum)
	}
	comment := cmp.Or(s.comment, fmt.Sprintf("timestamp:%d\tfile:%s\thashed", s.at, name)) + s.use + s.expires
	text := string(all.SignWithComments(s.key, comment, "-"))
	_, c.signature, _ = strings.Cut(text, "\n") // without the untrusted comment
	if _, err := publisher.Parse(c.signature); err != nil {
		return c, fmt.Errorf("--comment: %w", err)
	}
	s.known[url+s.use] = c
	return c, nil
}
