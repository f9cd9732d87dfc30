package attack

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"tandem.internal/shared/jointoken"
	"tandem.internal/testenv/rawmqtt"
)

// from is a dialler whose address no other attempt has: failures of one address are few.
func (a *try) from(conf *tls.Config) *tls.Dialer {
	return &tls.Dialer{NetDialer: &net.Dialer{Timeout: rawmqtt.Patience,
		LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, a.number)}}, Config: conf}
}

// door is the HTTP door: the one place that knows how it is reached and what opens it.
func (a *try) door() (dial func() (net.Conn, error), headers map[string]string) {
	conf := a.with()
	conf.ServerName, conf.NextProtos = "127.0.0.1", []string{"http/1.1"}
	headers = map[string]string{}
	for role, token := range a.tokens {
		headers[role] = "Authorization: Bearer " + token
	}
	return func() (net.Conn, error) { return a.from(conf).Dial("tcp", a.http) }, headers
}

// doorstep is the address of the join door, and how it is entered.
func (u *unit) doorstep(certs ...tls.Certificate) (string, *tls.Config) {
	conf := u.with(certs...)
	conf.ServerName, conf.NextProtos = jointoken.ServerName, []string{"http/1.1"}
	return strings.TrimPrefix(u.App.JoinURL(), "https://"), conf
}

// joinPath dials the join door.
func (a *try) joinPath() func() (net.Conn, error) {
	at, conf := a.doorstep()
	return func() (net.Conn, error) { return a.from(conf).Dial("tcp", at) }
}

// exchange sends bytes to a door and returns its answers, each as its status and error code.
func exchange(dial func() (net.Conn, error), raw string) string {
	c, err := dial()
	if err != nil {
		return why(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(rawmqtt.Patience)); err != nil {
		return err.Error()
	}
	if _, err := io.WriteString(c, raw); err != nil { // it may have answered before the end
		_ = err
	}
	var all []string
	for r := bufio.NewReader(c); ; {
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			break
		}
		body, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
		if err != nil {
			break
		}
		out := fmt.Sprint(res.StatusCode)
		var p struct{ Error *struct{ Code string } }
		if json.Unmarshal(body, &p) == nil && p.Error != nil {
			out += " " + p.Error.Code
		}
		all = append(all, out)
	}
	if len(all) == 0 {
		return closed
	}
	return strings.Join(all, ", then ")
}

// asks sends a request to the HTTP door, with CR LF for LF; <CR> and <LF> are those alone. ADMIN, OPERATE
// and VIEW are the header with a good token of that role, TOKEN is one by itself.
func asks(text string) func(*try) string {
	return func(a *try) string {
		dial, with := a.door()
		return exchange(dial, lines(strings.NewReplacer("ADMIN", with["admin"], "OPERATE", with["operate"], "VIEW",
			with["view"], "TOKEN", a.tokens["admin"]).Replace(text)))
	}
}

func lines(text string) string {
	return strings.NewReplacer("\n", "\r\n", "<LF>", "\n", "<CR>", "\r").Replace(text)
}

func post(path, more, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\nHost: x\nADMIN\nConnection: close\n%sContent-Length: %d\n\n", path, more,
		len(body)) + body
}

func get(path, more string) string {
	return fmt.Sprintf("GET %s HTTP/1.1\nHost: x\n%sConnection: close\n\n", path, more)
}

func zipped(s string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := io.WriteString(w, s)
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(err)
	}
	return b.String()
}

const chunked = "Transfer-Encoding: chunked\n"

// bomb and smallBomb are packed when they are asked for: this program is also the keeper of each agent.
var (
	bomb      = sync.OnceValue(func() string { return zipped(strings.Repeat(" ", 64<<20)) })
	smallBomb = sync.OnceValue(func() string { return zipped(strings.Repeat(" ", 8<<20) + "{}") })
)

// stray is the request that is smuggled: it has no token.
const stray = "GET /v1/journal/export HTTP/1.1\nHost: x\nConnection: close\n\n"

// httpDoor are attempts at the operators' API.
var httpDoor = []attempt{
	{"no token", aClient, asks(get("/v1/nodes", "")), doors("401 not-allowed")},
	{"a guessed token", aClient, asks(get("/v1/nodes", "Authorization: Bearer "+
		"tdo1.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n")), doors("401 not-allowed")},
	{"a token as a password", aClient, asks(get("/v1/nodes", "Authorization: Basic TOKEN\n")),
		doors("401 not-allowed")},
	{"a token in the query", aClient, asks(get("/v1/nodes?token=TOKEN", "")), doors("401 not-allowed")},
	{"a token in a cookie", aClient, asks(get("/v1/nodes", "Cookie: token=TOKEN\n")), doors("401 not-allowed")},
	{"two tokens, the first one wrong", aClient, asks(get("/v1/nodes", "Authorization: Bearer "+
		"wrong-wrong-wrong-wrong\nADMIN\n")), doors("401 not-allowed")},
	{"a node's token at this door", aClient, func(a *try) string {
		dial, _ := a.door()
		return exchange(dial, lines(get("/v1/nodes", "Authorization: Bearer "+a.Enroll("late")+"\n")))
	}, doors("401 not-allowed")},
	{"submitting with a token that may view", aClient,
		asks(strings.Replace(post("/v1/config", "", "{}"), "ADMIN", "VIEW", 1)), doors("403 not-allowed")},
	{"stopping all workloads with a token that may view", aClient,
		asks(strings.Replace(post("/v1/workloads", "", "[]"), "ADMIN", "VIEW", 1)), doors("403 not-allowed")},
	{"starting a workload anew with a token that may view", aClient,
		asks(strings.Replace(post("/v1/nodes/n1/slots/web/restart", "", ""), "ADMIN", "VIEW", 1)),
		doors("403 not-allowed")},
	{"reading a workload's log with a token that may view", aClient, asks(get("/v1/nodes/n1/slots/web/logs", "VIEW\n")),
		doors("403 not-allowed")},
	{"enrolling with a token that may operate", aClient,
		asks(strings.Replace(post("/v1/nodes/evil/enroll", "", ""), "ADMIN", "OPERATE", 1)), doors("403 not-allowed")},
	{"making a token with one that may operate", aClient,
		asks(strings.Replace(post("/v1/tokens", "", `{"name":"evil","role":"admin"}`), "ADMIN", "OPERATE", 1)),
		doors("403 not-allowed")},
	{"no TLS at the HTTP door", aClient, func(a *try) string {
		return exchange(func() (net.Conn, error) { return net.Dial("tcp", a.http) }, lines(get("/v1/nodes", "")))
	}, doors("400")},
	{"TLS 1.2 at the HTTP door", aClient, func(a *try) string {
		conf := a.with()
		conf.ServerName, conf.MaxVersion = "127.0.0.1", tls.VersionTLS12
		return a.handshake(a.http, conf)
	}, doors("tls: protocol version not supported")},
	{"guessing tokens, again and again", aClient, func(a *try) string {
		last := ""
		for range 12 {
			last = asks(get("/v1/nodes", "Authorization: Bearer tdo1.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n"))(a)
		}
		return last
	}, doors("429 unavailable")},
	{"a length and chunks", aClient, asks("POST /v1/config HTTP/1.1\nHost: " +
		"x\nADMIN\nContent-Length: 4\n" + chunked + "\n0\n\n" + stray), doors("411 not-supported")},
	{"two lengths", aClient, asks("POST /v1/config HTTP/1.1\nHost: x\nADMIN\nContent-Length: " +
		"0\nContent-Length: 64\n\n" + stray), doors("400")},
	{"a length with a sign", aClient, asks("POST /v1/config HTTP/1.1\nHost: " +
		"x\nADMIN\nContent-Length: +2\n\n{}" + stray), doors("400")},
	{"chunks in a folded header", aClient, asks("POST /v1/config HTTP/1.1\nHost: x\nADMIN\nContent-Length: " +
		"4\nTransfer-Encoding:\n chunked\n\n0\n\n" + stray), doors("411 not-supported")},
	{"chunks under a name with a space", aClient, asks("POST /v1/config HTTP/1.1\nHost: x\nADMIN\nTransfer-Encoding " +
		": chunked\nContent-Length: 4\n\n0\n\n" + stray), doors("400")},
	{"chunks of another coding", aClient, asks("POST /v1/config HTTP/1.1\nHost: x\nADMIN\nTransfer-Encoding: gzip, " +
		"chunked\n\n0\n\n" + stray), doors("501")},
	{"a chunk that ends with a bare LF", aClient, asks("POST /v1/config " +
		"HTTP/1.1\nHost: x\nADMIN\n" + chunked + "\n2<LF>{}\n0\n\n" + stray), doors("411 not-supported")},
	{"a header that ends with a bare CR", aClient, asks("GET /healthz HTTP/1.1\nHost: x\nX: a<CR>ADMIN\n\n"),
		doors("400")},
	{"bare LFs, and a second request behind them", aClient, asks("GET /healthz HTTP/1.1<LF>Host: x<LF><LF>" + stray),
		doors("200, then 401 not-allowed")},
	{"a second request behind an open one", aClient, asks("GET /healthz HTTP/1.1\nHost: x\n\n" + stray),
		doors("200, then 401 not-allowed")},
	{"a second request in the body of an open one", aClient, asks("GET /healthz HTTP/1.1\nHost: x\nConnection: " +
		"close\nContent-Length: 64\n\n" + stray), doors("200")},
	{"no host, or two", aClient, asks("GET /v1/nodes HTTP/1.1\nHost: x\nHost: y\nADMIN\n\n"), doors("400")},
	{".. behind an open path", aClient, asks(get("/healthz/../v1/nodes", "")), doors("401 not-allowed")},
	{"..%2f behind an open path", aClient, asks(get("/healthz/..%2fv1/nodes", "")), doors("401 not-allowed")},
	{"..%2f in a node's name", aClient, asks(get("/v1/nodes/..%2f..%2fhealthz", "ADMIN\n")), doors("404 not-found")},
	{"a node's name with %2F", aClient, asks(post("/v1/nodes/n1%2Frevoke/enroll", "", "")),
		doors("400 invalid-argument")},
	{"a service's name with %2F", aClient, asks(post("/v1/nodes/n1/slots/..%2F..%2Frevoke/restart", "", "")),
		doors("404 not-found")},
	{"a service's name with @", aClient, asks(get("/v1/nodes/n1/slots/web@n2/logs", "ADMIN\n")),
		doors("400 invalid-argument")},
	{"a node's name with NUL", aClient, asks(post("/v1/nodes/n1%00/enroll", "", "")), doors("400 invalid-argument")},
	{"a node's name that is a filter", aClient, asks(post("/v1/nodes/%2B/enroll", "", "")),
		doors("400 invalid-argument")},
	{"a node's name of 8 KiB", aClient, asks(post("/v1/nodes/"+strings.Repeat("n", 8<<10)+"/enroll", "", "")),
		doors("400 invalid-argument")},
	{"an absolute URI without a token", aClient, asks("GET http://127.0.0.1/v1/nodes HTTP/1.1\nHost: " +
		"x\nConnection: close\n\n"), doors("401 not-allowed")},
	{"an absolute URI to an open path of another host", aClient, asks("GET http://healthz/v1/nodes HTTP/1.1\nHost: " +
		"healthz\nConnection: close\n\n"), doors("401 not-allowed")},
	{"CONNECT to another host", aClient, asks("CONNECT 127.0.0.1:22 HTTP/1.1\nHost: " +
		"127.0.0.1:22\nADMIN\nConnection: close\n\n"), doors("405 not-supported")},
	{"HTTP/2 without asking", aClient, asks("PRI * HTTP/2.0\n\nSM\n\n"), doors("401 not-allowed")},
	{"a method in a header", aClient, asks(get("/v1/config/restore", "X-HTTP-Method-Override: POST\nADMIN\n")),
		doors("405 not-supported")},
	{"a form from a web page", aClient, asks(post("/v1/config/restore", "Origin: http://evil\nContent-Type: "+
		"application/x-www-form-urlencoded\n", "a=b")), doors("403 not-allowed")},
	{"a compressed bomb as a configuration", aClient, func(a *try) string {
		return asks(post("/v1/config", "Content-Encoding: gzip\n", bomb()))(a)
	},
		doors("400 malformed")},
	{"a configuration of 100,000 levels", aClient, asks(post("/v1/config", "", strings.Repeat("[", 100_000))),
		doors("400 malformed")},
	{"a configuration with a name twice", aClient,
		asks(post("/v1/config", "", `{"formatVersion":"7","version":"99.0.0","version":"99.0.1","nodes":[]}`)),
		doors("400 duplicate")},
	{"a configuration with a number of 100,000 digits", aClient,
		asks(post("/v1/config", "", `{"formatVersion":"7","version":"99.0.0","nodes":[{"priority":1`+
			strings.Repeat("0", 100_000)+`}]}`)), doors("400 missing")},
	{"a configuration of 5 MiB", aClient, asks(post("/v1/config", "", strings.Repeat(" ", 5<<20))),
		doors("413 too-large")},
	{"headers of 1 MiB", aClient, asks(get("/v1/nodes", "ADMIN\nX: "+strings.Repeat("x", 1<<20)+"\n")), doors("431")},
}

// joins sends a join request, whose text may be changed, with a new token for a node.
func joins(name string, change func(a *try, r map[string]any) (contentType string)) func(*try) string {
	return func(a *try) string {
		tok, err := jointoken.Parse(a.Enroll(name))
		if err != nil {
			a.t.Fatal(err)
		}
		r := map[string]any{}
		req := jointoken.NewJoinRequest(tok, request(a.t, newKey(a.t), &x509.CertificateRequest{}))
		if err := json.Unmarshal(must(jointoken.Encode(&req)), &r); err != nil {
			a.t.Fatal(err)
		}
		contentType := change(a, r)
		return exchange(a.joinPath(), lines(knock(jointoken.JoinPath, contentType, string(must(json.Marshal(r))))))
	}
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

func knock(path, contentType, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\nHost: x\n%sContent-Length: %d\n\n", path, contentType, len(body)) + body
}

const asJSON = "Content-Type: application/json\n"

// says sends a text to the join door.
func knocks(path, headers, body string) func(*try) string {
	return func(a *try) string {
		return exchange(a.joinPath(), lines(knock(path, headers, body)))
	}
}

// joinDoor are attempts at the door by which nodes join. The last ones are refused for their number.
var joinDoor = []attempt{
	{"a guessed secret", nobody, joins("late", func(_ *try, r map[string]any) string {
		r["secret"] = strings.Repeat("ab", 16)
		return asJSON
	}), doors("403 not-allowed")},
	{"a token for another node", nobody, joins("late", func(_ *try, r map[string]any) string {
		r["node"] = "n1"
		return asJSON
	}), doors("403 wrong-target")},
	{"a node's name with slashes", nobody, joins("late", func(_ *try, r map[string]any) string {
		r["node"] = "../controller"
		return asJSON
	}), doors("400 bad-value")},
	{"a request for the controller's name", nobody, joins("late", func(a *try, r map[string]any) string {
		r["csr"] = request(a.t, newKey(a.t), &x509.CertificateRequest{Subject: pkix.Name{CommonName: "controller"}})
		return asJSON
	}), doors("403 wrong-target")},
	{"a compressed bomb as a join request", nobody, func(a *try) string {
		return knocks(jointoken.JoinPath, asJSON+"Content-Encoding: gzip\n", smallBomb())(a)
	}, doors("400 malformed")},
	{"a join request of 8,000 levels", nobody, knocks(jointoken.JoinPath, asJSON, strings.Repeat("[", 8000)),
		doors("400 bad-value")},
	{"a join request with a name twice", nobody,
		knocks(jointoken.JoinPath, asJSON, `{"node":"late","node":"n1","secret":"","csr":""}`), doors("400 duplicate")},
	{"a join request of 1 MiB", nobody, knocks(jointoken.JoinPath, asJSON, strings.Repeat(" ", 1<<20)),
		doors("413 too-large")},
	{"a join request as a form", nobody, knocks(jointoken.JoinPath, "Content-Type: "+
		"application/x-www-form-urlencoded\n", "node=late"), doors("415 not-supported")},
	{"a join request with a length and chunks", nobody, knocks(jointoken.JoinPath, asJSON+chunked, "0\n\n"),
		doors("400 malformed")},
	{"renewing without a certificate", nobody, knocks(jointoken.RenewPath, asJSON, `{"csr":"AAAA"}`),
		doors("403 not-allowed")},
	{"renewing an expired certificate", anExpired,
		func(a *try) string { return a.handshake(a.doorstep(a.certs["node/old"])) }, doors("tls: expired certificate")},
	{"renewing with another unit's certificate", nobody,
		func(a *try) string { return a.handshake(a.doorstep(a.certs["another unit's node/n1"])) },
		doors("tls: unknown certificate authority")},
	{"another path at the join door", nobody, knocks("/v1/nodes", asJSON, "{}"), doors("404")},
	{".. at the join door", nobody, knocks("/x/.."+jointoken.JoinPath, asJSON, "{}"), doors("307")},
	{"TLS 1.2 at the join door", nobody, func(a *try) string {
		at, conf := a.doorstep()
		conf.MaxVersion = tls.VersionTLS12
		return a.handshake(at, conf)
	}, doors("tls: protocol version not supported")},
	{"no TLS at the join door", nobody, func(a *try) string {
		return exchange(func() (net.Conn,
			error) {
			return net.Dial("tcp", strings.TrimPrefix(a.App.JoinURL(), "https://"))
		},
			lines(knock(jointoken.JoinPath, asJSON, "{}")))
	}, doors("400")},
	{"guessing secrets, again and again", nobody, func(a *try) string {
		guess := joins("late", func(_ *try, r map[string]any) string {
			r["secret"] = strings.Repeat("cd", 16)
			return asJSON
		})
		last := ""
		for range 12 {
			last = guess(a)
		}
		if n := len(a.Entries("join-refused")); n == 0 || n > 40 {
			return fmt.Sprintf("%d refusals are in the journal", n)
		}
		return last
	}, doors("429 unavailable")},
}
