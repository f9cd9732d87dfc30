// Package client owns the other end of the controller's HTTP API: calls of the operations of
// package op.
//
// It guarantees that an error is either what the controller said (*wire.Error), or *Unreachable
// with what to do about it, or the context's. It keeps no state but idle connections, tries nothing
// twice (a submission must not be made twice by accident) and prints nothing.
package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"tandem.internal/controller/internal/apitoken"
	"tandem.internal/controller/internal/op"
	"tandem.internal/shared/wire"
)

// Options say where the controller is.
type Options struct {
	Socket  string        // path of its unix socket; used when URL is empty
	URL     string        // http://host:port or https://host:port
	Token   string        // goes with URL
	Trust   *Trust        // goes with an https:// URL; nil: the system's authorities decide who vouches for it
	From    string        // variable that has named Socket or URL, for errors; "": none has
	User    string        // who is at the keyboard, for the journal; advisory
	Timeout time.Duration // for each request that is not a stream; 0: none
}

// Client talks to one controller. It may be used by several goroutines.
type Client struct {
	opt  Options
	base string
	http *http.Client
}

// Unreachable is why no controller answered, and what to do about it.
type Unreachable struct {
	Where string // socket or URL
	Hint  string
	Err   error
}

// Error is one line for people.
func (u *Unreachable) Error() string {
	return fmt.Sprintf("no controller answers on %s: %s", u.Where, u.Hint)
}

// Unwrap gives the cause.
func (u *Unreachable) Unwrap() error { return u.Err }

// New checks the options; it does not connect.
func New(opt Options) (*Client, error) {
	t := &http.Transport{
		ResponseHeaderTimeout: opt.Timeout, // for the beginning of a stream, which itself has no end
		MaxIdleConns:          2,
		IdleConnTimeout:       30 * time.Second,
		DisableCompression:    opt.URL == "", // a socket is faster than gzip
	}
	c := &Client{opt: opt, base: "http://tandem", http: &http.Client{Transport: t, CheckRedirect: noRedirect}}
	if opt.URL == "" {
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", opt.Socket)
		}
		return c, nil
	}
	u, err := url.Parse(opt.URL)
	token := strings.Contains(opt.URL, apitoken.Prefix) // as in a link to the dashboard
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.User != nil ||
		u.Fragment != "" || token {
		if token || strings.Contains(opt.URL, "@") { // not shown: it may hold a password
			return nil, wire.New(wire.CodeInvalidArgument, "",
				"the address carries credentials; a token has --token-file, or TANDEM_TOKEN")
		}
		text := fmt.Sprintf("%.200q is not an address such as https://gateway:8885", opt.URL)
		if !strings.HasPrefix(opt.URL, "http://") && !strings.HasPrefix(opt.URL, "https://") {
			text += ": it begins with neither https:// nor http://"
		}
		return nil, wire.New(wire.CodeInvalidArgument, "", text)
	}
	if n, err := strconv.Atoi(u.Port()); u.Port() != "" && (err != nil || n < 1 || n > 65535) {
		return nil, wire.New(wire.CodeInvalidArgument, "",
			fmt.Sprintf("the port of %.200q is no number from 1 to 65535", opt.URL))
	}
	if u.Scheme == "https" {
		t.TLSClientConfig = opt.Trust.config(u)
	} else if opt.Trust != nil {
		return nil, wire.New(wire.CodeInvalidArgument, "",
			"a CA is trusted (--ca, TANDEM_CA), but the address begins with http://, which is without TLS; "+
				"write https://")
	}
	c.base = strings.TrimRight(u.String(), "/")
	return c, nil
}

// usualPort is the one that the documents have for the HTTP address of a controller.
const usualPort = 8885

// noRedirect keeps tokens where they were meant to go.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Where says which door is used, for people.
func (c *Client) Where() string {
	if c.opt.URL != "" {
		return c.opt.URL
	}
	return c.opt.Socket
}

// place is Where, for errors.
func (c *Client) place() string {
	if c.opt.From == "" {
		return c.Where()
	}
	return c.Where() + ", by " + c.opt.From
}

// Local reports whether the controller is asked on its socket.
func (c *Client) Local() bool { return c.opt.URL == "" }

// Close drops idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// send makes one request and returns an answer that is a 2xx, or accepted says otherwise.
func (c *Client) send(ctx context.Context, method, path string, query url.Values, body []byte,
	accepted ...int) (*http.Response, error) {
	target := c.base + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return nil, wire.New(wire.CodeInvalidArgument, "", err.Error())
	}
	return c.do(req, accepted...)
}

// do makes a request with the headers that all have.
func (c *Client) do(req *http.Request, accepted ...int) (*http.Response, error) {
	if c.opt.User != "" {
		req.Header.Set(op.UserHeader, c.opt.User)
	}
	if c.opt.URL != "" && c.opt.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.opt.Token)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreachable(req.Context(), req.Method, err)
	}
	if res.StatusCode/100 == 2 {
		return res, nil
	}
	for _, s := range accepted {
		if res.StatusCode == s {
			return res, nil
		}
	}
	return nil, errors.Join(c.refusal(res), res.Body.Close())
}

// refusal reads the error that an answer carries.
func (c *Client) refusal(res *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	var p op.Problem
	if err == nil {
		err = json.Unmarshal(body, &p)
	}
	if strings.HasPrefix(string(body), "Client sent an HTTP request to an HTTPS server") {
		return &Unreachable{c.place(), "it speaks TLS; write https:// instead of http://", nil}
	}
	if err != nil || p.Error == nil || p.Error.Code == "" {
		return &Unreachable{c.place(),
			fmt.Sprintf("what answers there is not a Tandem controller (HTTP status %d)", res.StatusCode), err}
	}
	return p.Error
}

// unreachable explains why there is no answer to a request of this method.
func (c *Client) unreachable(ctx context.Context, method string, err error) error {
	u := &Unreachable{Where: c.place(), Err: err}
	var dns *net.DNSError
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return ctx.Err()
	case (errors.Is(err, context.DeadlineExceeded) || os.IsTimeout(err)) && method != http.MethodGet:
		u.Hint = "it did not answer in time, and may do what was asked all the same: look (tandem events) before " +
			"you try again with a longer --timeout"
	case errors.Is(err, context.DeadlineExceeded) || os.IsTimeout(err):
		u.Hint = "it did not answer in time; it may be busy, or stuck: try again with a longer --timeout"
	case errors.Is(err, fs.ErrNotExist):
		u.Hint = "there is no such socket; is tandem-controller running, and does --socket (TANDEM_SOCKET) name its " +
			"socket?"
	case errors.Is(err, fs.ErrPermission):
		u.Hint = "you may not use that socket; become a member of the group that owns it, or use sudo"
	case errors.Is(err, refused) && c.opt.URL == "" && !isSocket(c.opt.Socket):
		u.Hint = "that file is not a socket"
	case errors.Is(err, refused) && c.opt.URL == "":
		u.Hint = "the socket is there but nobody listens; tandem-controller has stopped: start it again"
	case errors.Is(err, refused):
		u.Hint = "nobody listens there; is tandem-controller running with its HTTP address set?"
		if at, err := url.Parse(c.opt.URL); err == nil && at.Port() == "" {
			u.Hint = fmt.Sprintf("nobody listens there; the address names no port, which is that of %s then: is it "+
				"%s:%d?", at.Scheme, strings.TrimRight(c.opt.URL, "/"), usualPort)
		}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, reset):
		u.Hint = "the answer was cut off; the controller's log may say why"
		if method != http.MethodGet {
			u.Hint += ". What was asked may have been done: look (tandem events) before you try again"
		}
	case errors.Is(err, invalid) && c.opt.URL == "":
		u.Hint = "that path is too long for a socket"
	case errors.Is(err, errForeign):
		u.Hint = errForeign.Error() + " (--ca, TANDEM_CA); nothing was sent to it. " +
			strings.TrimPrefix(cause(err).Error(), errForeign.Error()+": ")
	case errors.As(err, &unknown), errors.As(err, &host):
		u.Hint = "its certificate is not one that this machine trusts (" + cause(err).Error() +
			"); give the unit's CA: --ca with its ca.pem or its fingerprint, or TANDEM_CA as " +
			`"tandem token create" prints it`
	case strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"): // net/http has no type for it
		u.Hint = "what answers there does not speak TLS; does the address begin with http:// rather than https://?"
	case errors.As(err, &dns):
		u.Hint = "the host name cannot be resolved"
	default:
		u.Hint = cause(err).Error()
	}
	return u
}

// cause is what went wrong, without the request that it went wrong with.
func cause(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	if e, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		err = e.Err
	}
	return err
}

func isSocket(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().Type() == fs.ModeSocket
}

// timed gives a request its time limit.
func (c *Client) timed(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.opt.Timeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, c.opt.Timeout)
}
