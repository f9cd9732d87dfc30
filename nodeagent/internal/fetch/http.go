package fetch

import (
	"context"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"tandem.internal/nodeagent/internal/fetch/plan"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// maxRedirects is how many redirects one request follows.
const maxRedirects = 10

// NewClient returns the HTTP client that a Store uses: every phase before the body is bounded in
// time, TLS is 1.2 or newer, nothing is decompressed, and a redirect neither leaves https, nor takes
// along where it came from. Neither a redirect nor a host's name leads to the node itself.
func NewClient() *http.Client { return newClient(nil, net.InterfaceAddrs) }

// newClient is NewClient with another resolver of names, nil: the machine's, and what tells the addresses of this node.
func newClient(names *net.Resolver, own func() ([]net.Addr, error)) *http.Client {
	return &http.Client{
		Transport: byName{&http.Transport{
			Proxy: http.ProxyFromEnvironment,
			DialContext: (&net.Dialer{Timeout: 15 * time.Second, KeepAlive: 30 * time.Second, Resolver: names,
				ControlContext: away(own)}).DialContext,
			TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout:    15 * time.Second,
			ResponseHeaderTimeout:  30 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
			DisableKeepAlives:      true,
			DisableCompression:     true,
		}},
		CheckRedirect: redirect,
	}
}

func redirect(req *http.Request, via []*http.Request) error {
	last := via[len(via)-1]
	switch {
	case len(via) > maxRedirects:
		return Passing(wire.CodeUnavailable, fmt.Sprintf("the server redirects more than %d times", maxRedirects))
	case req.URL.Scheme != workload.SchemeHTTP && req.URL.Scheme != workload.SchemeHTTPS:
		return Passing(wire.CodeNotAllowed, "the server redirects to the scheme "+strconv.Quote(req.URL.Scheme))
	case last.URL.Scheme == workload.SchemeHTTPS && req.URL.Scheme != workload.SchemeHTTPS:
		return Passing(wire.CodeNotAllowed, "the server redirects from https to http")
	case req.URL.User != nil:
		return Passing(wire.CodeNotAllowed, "the server redirects to a URL with a user name in it")
	}
	for _, h := range []string{"Referer", "Authorization", "Cookie"} {
		req.Header.Del(h)
	}
	if proxy, err := http.ProxyFromEnvironment(req); err == nil && proxy == nil &&
		req.URL.Hostname() != via[0].URL.Hostname() {
		*req = *req.WithContext(context.WithValue(req.Context(), led{}, "the server redirects to "))
	}
	return nil
}

// download fetches the rest of f by HTTP. sum is the checksum of the body if all of it passed by and
// e has one; page, that the server called it a web page.
func (s *Store) download(ctx context.Context, e plan.Fetch, f *part) (resumed bool, sum string, page bool, err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	from, o, err := f.resumable(e)
	if err != nil {
		return false, "", false, err
	}
	if o.Total > 0 && from == o.Total {
		f.progress.done.Store(from)
		return true, "", false, nil // all of it is there
	}
	resp, err := s.request(ctx, e.URL, from, o)
	if err != nil {
		return false, "", false, err
	}
	defer resp.Body.Close()
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	page = kind == "text/html" || kind == "application/xhtml+xml"
	if from > 0 && resp.StatusCode == http.StatusRequestedRangeNotSatisfiable &&
		resp.Header.Get("Content-Range") == fmt.Sprintf("bytes */%d", from) {
		f.progress.done.Store(from)
		return true, "", page, nil // all of it was there, and nobody had said how much that is
	}
	total, err := s.answered(resp, e, from, page)
	if err == nil && resp.StatusCode == http.StatusPartialContent && o.Total > 0 && total != o.Total {
		err = again("the server has something else than what has come already")
	}
	if err != nil {
		return false, "", page, err
	}
	if resp.StatusCode == http.StatusOK {
		from = 0
		if err := f.clear(); err != nil {
			return false, "", page, err
		}
		s.ledger.reserve(e.Key, e.Reserve)
	}
	if err := s.takes(e.Key, e.Reserve, total, from); err != nil {
		return from > 0, "", page, err
	}
	f.progress.total.Store(max(total, 0))
	f.progress.done.Store(from)
	if from == 0 {
		if err := s.disk.remember(e, resp, total); err != nil {
			return false, "", page, err
		}
	}
	var h hash.Hash
	var algorithm string
	if from == 0 && e.Sum != "" {
		h, algorithm = digest(e.Sum)
	}
	got, err := s.body(ctx, stop, resp.Body, f, from, h)
	if err != nil {
		return from > 0, "", page, err
	}
	if total >= 0 && got != total {
		return from > 0, "", page, again(fmt.Sprintf("what came ends after %d of %d bytes", got, total))
	}
	if total < 0 && len(resp.TransferEncoding) == 0 && resp.ProtoMajor == 1 && e.Sum == "" && got < e.Reserve {
		return false, "", page, Passing(wire.CodeUnavailable, fmt.Sprintf("the connection ended after %d "+
			"of %d bytes", got, e.Reserve))
	}
	if h != nil {
		sum = algorithm + ":" + hex.EncodeToString(h.Sum(nil))
	}
	return from > 0, sum, page, nil
}

// request asks for what is at an address, from an offset.
func (s *Store) request(ctx context.Context, address string, from int64, o origin) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, Wrong(wire.CodeInvalidArgument, "this is no URL")
	}
	req.Header.Set("User-Agent", "tandem-node")
	req.Header.Set("Accept-Encoding", "identity")
	if from > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", from))
		if v := o.validator(); v != "" {
			req.Header.Set("If-Range", v)
		}
	}
	client, err := s.clientFor(address)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, reached(ctx, err)
	}
	return resp, nil
}

// takes reserves the rest of a copy that the server says to be larger than is reserved.
func (s *Store) takes(k plan.Key, reserved, total, from int64) error {
	if total <= reserved {
		return nil
	}
	if err := s.ledger.allow(k, total-from); full(err) {
		return &failure{kind: plan.Full, code: wire.CodeStorage, total: total, drop: true,
			why: fmt.Sprintf("it has %d bytes: %v", total, err)}
	} else if err != nil {
		return err
	}
	s.ledger.reserve(k, total-from)
	return nil
}

// answered judges a response before its body is read. total is how many bytes the whole has; -1:
// the server does not say.
func (s *Store) answered(resp *http.Response, e plan.Fetch, from int64, page bool) (total int64, err error) {
	total = resp.ContentLength
	switch {
	case resp.StatusCode == http.StatusOK:
	case resp.StatusCode == http.StatusPartialContent && from > 0:
		var last int64
		if total, last, err = contentRange(resp.Header.Get("Content-Range"), from); err != nil || last+1 != total ||
			resp.ContentLength >= 0 && resp.ContentLength != total-from {
			return 0, again("the server answers with another part than it was asked for")
		}
	case resp.StatusCode == http.StatusRequestedRangeNotSatisfiable && from > 0:
		return 0, again("the server says that it has less than has come already")
	default:
		if err := later(resp); err != nil {
			return 0, err
		}
		return 0, status(resp)
	}
	path := strings.ToLower(resp.Request.URL.Path)
	switch {
	case total > s.most(e.Reserve):
		return 0, Wrong(wire.CodeTooLarge, fmt.Sprintf("it has %d bytes, and this resource may have %d; "+
			"correct its size", total, s.most(e.Reserve)))
	case e.Sum == "" && page && !strings.HasSuffix(path, ".html") && !strings.HasSuffix(path, ".htm") &&
		!strings.HasSuffix(path, ".xhtml"):
		return 0, Wrong(wire.CodeBadValue, "the server answers with a web page; if that is the resource, give "+
			"it a checksum")
	}
	if enc := resp.Header.Get("Content-Encoding"); enc != "" && enc != "identity" && e.Sum == "" {
		return 0, Wrong(wire.CodeBadValue, "the server sends it encoded ("+enc+") without being asked to; give the "+
			"resource a checksum")
	}
	return total, nil
}

// again is a failure after which the download begins at its start.
func again(why string) error {
	return &failure{kind: plan.Passing, code: wire.CodeUnavailable, why: why, drop: true}
}

func status(resp *http.Response) error {
	code := wire.CodeUnavailable
	switch resp.StatusCode {
	case http.StatusNotFound, http.StatusGone:
		code = wire.CodeNotFound
	case http.StatusUnauthorized, http.StatusForbidden:
		code = wire.CodeNotAllowed
	}
	return Passing(code, "the server answers "+strconv.Itoa(resp.StatusCode)+" "+http.StatusText(resp.StatusCode))
}

// contentRange reads "bytes FROM-LAST/TOTAL" and refuses another from.
func contentRange(s string, from int64) (total, last int64, err error) {
	var first int64
	rest, ok := strings.CutPrefix(s, "bytes ")
	a, rest, ok2 := strings.Cut(rest, "-")
	b, c, ok3 := strings.Cut(rest, "/")
	if !ok || !ok2 || !ok3 {
		return 0, 0, errors.New("this is no content range")
	}
	for _, v := range []struct {
		text string
		to   *int64
	}{{a, &first}, {b, &last}, {c, &total}} {
		n, err := strconv.ParseUint(v.text, 10, 62)
		if err != nil {
			return 0, 0, err
		}
		*v.to = int64(n)
	}
	if first != from || last < first || last >= total {
		return 0, 0, errors.New("this is another range")
	}
	return total, last, nil
}

// reached says why there is no response, without the URL, which the caller shows.
func reached(ctx context.Context, err error) error {
	if f := (*failure)(nil); errors.As(err, &f) {
		return f
	}
	if ctx.Err() != nil {
		return err
	}
	if e := (*url.Error)(nil); errors.As(err, &e) {
		err = e.Err
	}
	if e := net.Error(nil); errors.As(err, &e) && e.Timeout() {
		return Passing(wire.CodeTimeout, "no answer: "+err.Error())
	}
	return Passing(wire.CodeUnavailable, "no answer: "+err.Error())
}

// body copies the body into the part. It gives up a server that is too slow: only the time spent
// waiting for it counts, not that for the disk or the rate limit.
func (s *Store) body(ctx context.Context, stop context.CancelCauseFunc, body io.Reader, f *part, at int64,
	h hash.Hash) (end int64, err error) {
	slow := &failure{kind: plan.Passing, code: wire.CodeTimeout, why: fmt.Sprintf("the server sent less than %d "+
		"bytes a second for %v", s.Slow, s.Patience)}
	timer := time.AfterFunc(s.Patience, func() { stop(slow) })
	defer timer.Stop()
	buf := make([]byte, burst)
	var waited time.Duration // in this span, which ends after s.Patience
	var came int64
	var reported time.Time
	for {
		begun := time.Now() // time limits are real time, as those of the client
		timer.Reset(s.Patience)
		n, readErr := body.Read(buf)
		timer.Stop()
		waited, came = waited+time.Since(begun), came+int64(n)
		if waited >= s.Patience {
			if came < int64(s.Patience.Seconds()*float64(s.Slow)) {
				return 0, slow
			}
			waited, came = 0, 0
		}
		if n > 0 {
			if _, err := f.WriteAt(buf[:n], at); err != nil {
				return 0, err
			}
			if h != nil {
				h.Write(buf[:n])
			}
			at += int64(n)
			f.progress.done.Store(at)
			if now := time.Now(); now.Sub(reported) >= time.Second {
				reported = now
				notify(s.updates)
			}
		}
		switch {
		case errors.Is(readErr, io.EOF):
			return at, nil
		case ctx.Err() != nil:
			if errors.As(context.Cause(ctx), &slow) {
				return 0, slow
			}
			return 0, context.Cause(ctx)
		case errors.Is(readErr, io.ErrUnexpectedEOF):
			return 0, Passing(wire.CodeUnavailable, fmt.Sprintf("the connection ended early, after %d bytes", at))
		case readErr != nil:
			return 0, Passing(wire.CodeUnavailable, fmt.Sprintf("the connection broke after %d bytes: %v", at, readErr))
		}
		if err := s.Limit.WaitN(ctx, n); err != nil {
			return 0, err
		}
	}
}

// resumable says from where the download of a part can go on. With a checksum, which finds what does not belong
// together, it is no matter from which address the part is, or whether the server can prove that it is the same.
func (p *part) resumable(e plan.Fetch) (from int64, o origin, err error) {
	info, err := p.file.Stat()
	if err != nil {
		return 0, o, err
	}
	o, err = readOrigin(p.store.disk.partPath(p.key)+asJSON, p.key.Name())
	switch {
	case errors.Is(err, os.ErrNotExist):
		return 0, origin{}, nil
	case err != nil:
		return 0, origin{}, p.clear()
	case !strings.HasPrefix(o.URL, workload.SchemeHTTP): // a torrent's has holes
		return 0, origin{}, nil
	case o.URL != e.URL:
		o.ETag, o.LastModified = "", ""
	}
	if o.validator() == "" && e.Sum == "" {
		return 0, origin{}, nil
	}
	return info.Size(), o, nil
}

// validator is what If-Range takes; "": nothing proves that the rest belongs to the part.
func (o origin) validator() string {
	if o.ETag != "" {
		return o.ETag
	}
	return o.LastModified
}

// remember writes down where a part is from. A weak ETag proves nothing, nor does a time of which the
// server cannot know that nothing has changed within its second (RFC 9110, 8.8.2.2).
func (d *disk) remember(e plan.Fetch, resp *http.Response, total int64) error {
	o := origin{Format: 1, Key: e.Key, URL: e.URL, Total: max(total, 0)}
	if tag := resp.Header.Get("ETag"); strings.HasPrefix(tag, `"`) && len(tag) <= 1024 {
		o.ETag = tag
	}
	modified, err := http.ParseTime(resp.Header.Get("Last-Modified"))
	date, err2 := http.ParseTime(resp.Header.Get("Date"))
	if err == nil && err2 == nil && date.Sub(modified) >= time.Second {
		o.LastModified = resp.Header.Get("Last-Modified")
	}
	return d.write(d.partPath(e.Key)+asJSON, o)
}
