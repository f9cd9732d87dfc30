// Package signer asks tandem-key, the program that holds the node's private key as another user than the agent's.
//
// It has no connection and no goroutine of its own: each call connects, asks and hangs up, within Limit. So a program
// that was restarted is found again by the next call. The package must not know what the keys are for.
package signer

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"tandem.internal/shared/wire"
)

// Limit bounds one call, from connecting to its answer.
const Limit = 5 * time.Second

// Client asks the program that listens on one socket. Its methods are for any goroutine. An error of the program's is
// a *wire.Error; CodeNotFound says that it does not have the key or the secret.
type Client struct {
	path  string
	limit time.Duration
}

// Open reads the setting that names the program: unix:/PATH. It does not connect.
func Open(setting string) (*Client, error) {
	path, ok := strings.CutPrefix(setting, "unix:")
	if !ok || !filepath.IsAbs(path) {
		return nil, fmt.Errorf("%.200q does not name a key program: unix:/PATH, the socket of tandem-key", setting)
	}
	return &Client{path, Limit}, nil
}

// Make has the program make a key (ECDSA P-256). It drops all others but those of keep, which may name keys that it
// does not have.
func (c *Client) Make(ctx context.Context, keep ...crypto.PublicKey) (*Key, error) {
	q := Question{Op: OpMake}
	for _, pub := range keep {
		id, err := ID(pub)
		if err != nil {
			return nil, err
		}
		q.Keep = append(q.Keep, id)
	}
	a, err := c.ask(ctx, q)
	if err != nil {
		return nil, err
	}
	pub, err := x509.ParsePKIXPublicKey(a.Public)
	if err != nil {
		return nil, c.bad(errors.New("what it made is no public key"))
	}
	return c.Key(pub)
}

// Key returns the key with this public part, without asking whether the program has it.
func (c *Client) Key(pub crypto.PublicKey) (*Key, error) {
	k, ok := pub.(*ecdsa.PublicKey)
	if !ok {
		return nil, c.bad(fmt.Errorf("it holds ECDSA keys, and this is a %T", pub))
	}
	id, err := ID(pub)
	return &Key{c, k, id}, err
}

// Store has the program keep a secret of at most MaxSecret bytes, in the place of the one before.
func (c *Client) Store(ctx context.Context, label string, secret []byte) error {
	_, err := c.ask(ctx, Question{Op: OpStore, Label: label, Secret: secret})
	return err
}

// Read returns what was stored last; CodeNotFound if nothing was.
func (c *Client) Read(ctx context.Context) (label string, secret []byte, err error) {
	a, err := c.ask(ctx, Question{Op: OpRead})
	return a.Label, a.Secret, err
}

// Key is a private key that the program holds. It signs within Limit, and whole messages only: the program looks at
// what it signs.
type Key struct {
	c   *Client
	pub *ecdsa.PublicKey
	id  string
}

// Public returns the public part, an *ecdsa.PublicKey.
func (k *Key) Public() crypto.PublicKey { return k.pub }

// Sign fails: a digest does not show what is signed.
func (k *Key) Sign(io.Reader, []byte, crypto.SignerOpts) ([]byte, error) {
	return nil, k.c.bad(errors.New("it signs messages, and no digests"))
}

// SignMessage signs a message with SHA-256; see crypto.MessageSigner.
func (k *Key) SignMessage(_ io.Reader, msg []byte, opts crypto.SignerOpts) ([]byte, error) {
	if opts == nil || opts.HashFunc() != crypto.SHA256 {
		return nil, k.c.bad(errors.New("it signs with SHA-256 only"))
	}
	a, err := k.c.ask(context.Background(), Question{Op: OpSign, Key: k.id, Message: msg})
	if errors.Is(err, &wire.Error{Code: wire.CodeNotFound}) {
		return nil, fmt.Errorf("%w; join again with a new token", err)
	} else if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(msg); !ecdsa.VerifyASN1(k.pub, sum[:], a.Signature) {
		return nil, k.c.bad(errors.New("its signature is not one of this key"))
	}
	return a.Signature, nil
}

// bad says who is at fault.
func (c *Client) bad(err error) error { return fmt.Errorf("the key program at %s: %w", c.path, err) }

// ask connects, asks and hangs up.
func (c *Client) ask(ctx context.Context, q Question) (a Answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", c.path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return a, c.bad(fmt.Errorf("it does not run: %w", err))
	} else if err != nil {
		return a, c.bad(err)
	}
	defer func() { _ = conn.Close() }() // nothing is lost with it
	end, _ := ctx.Deadline()
	if err := conn.SetDeadline(end); err != nil {
		return a, c.bad(err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	q.Protocol = Protocol
	if err = Write(conn, q); err == nil {
		err = Read(conn, &a)
	}
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return a, ctx.Err()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return a, c.bad(fmt.Errorf("it has not answered within %v: %w", c.limit, err))
	case errors.Is(err, io.EOF), errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNRESET):
		return a, c.bad(fmt.Errorf("it hung up; its log says why: %w", err))
	case err != nil:
		return a, c.bad(err)
	case a.Error != nil:
		return Answer{}, c.bad(a.Error)
	}
	return a, nil
}
