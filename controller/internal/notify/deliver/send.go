package deliver

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"tandem.internal/controller/internal/notify"
	"tandem.internal/shared/wire"
)

// Bounds of one request.
const (
	sendTimeout = 10 * time.Second // for all of it
	maxAnswer   = 4 << 10          // bytes of an answer that are read
	maxHeader   = 16 << 10         // bytes of its header
	shownAnswer = 200              // characters of it that are shown
)

// Answer is what became of one request.
type Answer struct {
	Status int           // of HTTP; 0: there was no answer
	Text   string        // the beginning of what was answered, without what could mislead a terminal
	After  time.Duration // the receiver asks for no try before; 0: it does not
	Err    string        // why it failed; "": the receiver has taken it
}

// Sender sends messages to one receiver. It is safe for concurrent use.
type Sender interface {
	Send(ctx context.Context, m notify.Message, at time.Time) Answer
	Close() // ends idle connections
}

type sender struct {
	to     notify.Receiver
	client *http.Client
	secret *regexp.Regexp // what of the address is not shown; nil: nothing is secret
}

// NewSender returns what sends by HTTP. It follows no redirect, uses no proxy, believes the receiver's own CA alone if
// it has one, and connects to no address that cannot be a receiver's.
func NewSender(to notify.Receiver) (Sender, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if to.CA != "" {
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM([]byte(to.CA)) {
			return nil, wire.New(wire.CodeBadValue, "/ca", "certificates in PEM are expected")
		}
	}
	local := strings.HasPrefix(to.URL, "http://") && !to.Insecure
	dialer := &net.Dialer{Timeout: sendTimeout, Control: func(_, address string, _ syscall.RawConn) error {
		return mayReach(address, local)
	}}
	t := &http.Transport{DialContext: dialer.DialContext, TLSClientConfig: conf, TLSHandshakeTimeout: sendTimeout,
		MaxIdleConns: 1, MaxConnsPerHost: 2, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: maxHeader,
		DisableCompression: true, ForceAttemptHTTP2: true}
	return &sender{to: to, secret: secretParts(&to), client: &http.Client{Transport: t, Timeout: sendTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}, nil
}

// Close implements Sender.
func (s *sender) Close() { s.client.CloseIdleConnections() }

// Send implements Sender. What it returns shows nothing of the address, which may be secret.
func (s *sender) Send(ctx context.Context, m notify.Message, at time.Time) Answer {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.to.URL, bytes.NewReader(m.Body))
	if err != nil {
		return Answer{Err: "the address is none"}
	}
	r.Header.Set("Content-Type", notify.ContentType)
	r.Header.Set("User-Agent", "tandem-controller")
	r.Header.Set(notify.HeaderID, m.ID)
	r.Header.Set(notify.HeaderTimestamp, notify.Timestamp(at))
	r.Header.Set(notify.HeaderSignature, s.to.Secret.Sign(m.ID, at, m.Body))
	res, err := s.client.Do(r)
	if err != nil {
		return Answer{Err: s.plain(err)}
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if cerr := res.Body.Close(); err == nil {
		err = cerr
	}
	a := Answer{Status: res.StatusCode, Text: s.clean(string(text)), After: retryAfter(res.Header, at)}
	switch {
	case err != nil && a.Status/100 != 2:
		a.Err = s.plain(err)
	case a.Status/100 == 3:
		a.Err = fmt.Sprintf("it answered %s, and redirects are not followed", status(a.Status))
	case a.Status/100 != 2:
		a.Err = strings.TrimSuffix("it answered "+status(a.Status)+": "+a.Text, ": ")
	}
	return a
}

func status(n int) string { return strings.TrimSpace(strconv.Itoa(n) + " " + http.StatusText(n)) }

// plain is an error without the address of the receiver.
func (s *sender) plain(err error) string {
	if u, ok := errors.AsType[*url.Error](err); ok {
		if u.Timeout() {
			return fmt.Sprintf("no answer in %s", sendTimeout)
		}
		err = u.Err
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Addr != nil && errors.Is(err, syscall.ECONNREFUSED) {
		return s.clean("nobody listens at " + op.Addr.String())
	}
	return s.clean(err.Error())
}

// retryAfter is for how long a receiver asks to be left alone (RFC 9110, 10.2.3).
func retryAfter(h http.Header, now time.Time) time.Duration {
	text := h.Get("Retry-After")
	if n, err := strconv.ParseUint(text, 10, 20); err == nil {
		return time.Duration(n) * time.Second
	}
	if t, err := http.ParseTime(text); err == nil {
		return max(t.Sub(now), 0)
	}
	return 0
}

// clean is the first line of a text of others, without what could mislead whoever reads it.
func clean(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	out := make([]rune, 0, shownAnswer)
	for _, r := range line {
		if len(out) == shownAnswer {
			break
		}
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			r = '·'
		}
		out = append(out, r)
	}
	return strings.TrimSpace(string(out))
}
