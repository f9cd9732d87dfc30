package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"tandem.internal/controller/app"
	"tandem.internal/shared/jointoken"
	"tandem.internal/testenv/fleet"
)

// enrolment asks the product to have nodes join; their certificates go into a file.
type enrolment struct {
	Nodes int
	Path  string
	Prove bool // the nodes get their report keys, too
}

// bearer is a node's certificate and key, DER, and its report key, if it proves what it says.
type bearer struct{ Certificate, Key, ReportKey []byte }

// bearers is what is in the file.
type bearers struct {
	CA    []byte // DER
	Nodes map[string]bearer
}

// joins is how many nodes join at a time; the door takes sixteen from one address.
const joins = 8

// enrol has every node join by the door that real ones use, which has a URL, each with a token for it.
func enrol(ctx context.Context, e enrolment, url string, token func(context.Context, string) (string, error)) error {
	all := bearers{Nodes: map[string]bearer{}}
	var mu sync.Mutex
	var wg sync.WaitGroup
	names, failed := make(chan string), make(chan error, joins)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for range joins {
		wg.Go(func() {
			for name := range names {
				var b bearer
				var ca []byte
				text, err := token(ctx, name)
				if err == nil {
					b, ca, err = join(ctx, url, text)
				}
				if err == nil && e.Prove {
					err = b.askReportKey(ctx, url, ca)
				}
				if err != nil {
					cancel()
					failed <- fmt.Errorf("%s joins: %w", name, err)
					return
				}
				mu.Lock()
				all.CA, all.Nodes[name] = ca, b
				mu.Unlock()
			}
		})
	}
	for i := 0; i < e.Nodes && ctx.Err() == nil; i++ {
		select {
		case names <- fleet.Name(i):
		case <-ctx.Done():
		}
	}
	close(names)
	wg.Wait()
	select {
	case err := <-failed:
		return err
	default:
	}
	raw, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return errors.Join(ctx.Err(), os.WriteFile(e.Path, raw, 0o600))
}

// token asks for a join token.
func (p *product) token(ctx context.Context, node string) (string, error) {
	e, err := p.app.Unit().Enroll(app.As(ctx, "bench"), app.EnrollIn{NodeIn: app.NodeIn{Node: node}})
	return e.Token, err
}

// join trades a token for a certificate at the join door.
func join(ctx context.Context, url, text string) (b bearer, ca []byte, err error) {
	token, err := jointoken.Parse(text)
	if err != nil {
		return b, nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return b, nil, err
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return b, nil, err
	}
	req := jointoken.NewJoinRequest(token, csr)
	body, err := jointoken.Encode(&req)
	if err != nil {
		return b, nil, err
	}
	if b.Key, err = x509.MarshalPKCS8PrivateKey(key); err != nil {
		return b, nil, err
	}
	client := http.Client{Timeout: patience,
		Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{
			MinVersion: tls.VersionTLS13, InsecureSkipVerify: true, // it is the next line that decides
			VerifyConnection: func(s tls.ConnectionState) error {
				last := s.PeerCertificates[len(s.PeerCertificates)-1]
				if jointoken.FingerprintOf(last.Raw) != token.CA {
					return errors.New("another CA than the token's")
				}
				return nil
			}}}}
	answer, err := post(ctx, &client, url+jointoken.JoinPath, body)
	if err != nil {
		return b, nil, err
	}
	a, err := jointoken.DecodeAdmission(answer)
	if err != nil {
		return b, nil, err
	}
	b.Certificate = a.Certificate
	return b, a.CA, nil
}

// post sends a request to the join door and returns the answer.
func post(ctx context.Context, client *http.Client, url string, body []byte) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", res.Status, answer)
	}
	return answer, err
}

// config is for TLS as the bearer; ca is DER.
func (b *bearer) config(ca []byte) (*tls.Config, error) {
	root, err := x509.ParseCertificate(ca)
	if err != nil {
		return nil, err
	}
	key, err := x509.ParsePKCS8PrivateKey(b.Key)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AddCert(root)
	return &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots, ServerName: jointoken.ServerName,
		Certificates: []tls.Certificate{{Certificate: [][]byte{b.Certificate}, PrivateKey: key}}}, nil
}

// askReportKey asks for the report key of a node at the join door.
func (b *bearer) askReportKey(ctx context.Context, url string, ca []byte) error {
	conf, err := b.config(ca)
	if err != nil {
		return err
	}
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: conf}}
	answer, err := post(ctx, &client, url+jointoken.ReportKeyPath, []byte("{}"))
	if err != nil {
		return err
	}
	k, err := jointoken.DecodeReportKey(answer)
	if err == nil {
		b.ReportKey = k.Key
	}
	return err
}

// mutual has nodes dial with the certificates in a file, and prove what they say if it has the keys for that.
func mutual(cfg hostConfig, c *fleet.Config) error {
	raw, err := os.ReadFile(cfg.Certs)
	if err != nil {
		return err
	}
	var all bearers
	if err := json.Unmarshal(raw, &all); err != nil {
		return err
	}
	confs := make(map[string]*tls.Config, len(all.Nodes))
	for name, b := range all.Nodes {
		if confs[name], err = b.config(all.CA); err != nil {
			return err
		}
	}
	c.DialAs = func(ctx context.Context, name string) (net.Conn, error) {
		d := tls.Dialer{Config: confs[name]}
		return d.DialContext(ctx, "tcp", cfg.Connect)
	}
	c.Key = func(name string) []byte { return all.Nodes[name].ReportKey }
	return nil
}

// secure starts the product with TLS and n nodes that have joined, and connects them. prove: they prove what they say.
func (b *session) secure(n int, prove bool) (*side, error) {
	dir, err := b.folder()
	if err != nil {
		return nil, err
	}
	h, err := start(hostConfig{Role: "product", Dir: dir, Listen: "127.0.0.1:0", TLS: true})
	if err != nil {
		return nil, err
	}
	certs := filepath.Join(dir, "certificates.json")
	if err := h.do("enrol", enrolment{n, certs, prove}, nil); err != nil {
		return nil, errors.Join(err, h.close())
	}
	s := &side{host: h, n: n}
	if s.nodes, err = start(hostConfig{Role: "nodes", Nodes: n, Connect: h.at, Certs: certs}); err != nil {
		return nil, errors.Join(err, h.close())
	}
	if err := s.online(); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func tlsSection(b *session) error {
	for _, n := range b.sizes {
		if err := b.tlsSize(n); err != nil {
			return fmt.Errorf("%d nodes: %w", n, err)
		}
	}
	return nil
}

// tlsSize measures one number of nodes: plain, with TLS, and with TLS and proofs, in turn.
func (b *session) tlsSize(n int) (err error) {
	plain, err := b.side(hostConfig{Role: "product", Listen: "127.0.0.1:0"}, n, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, plain.close()) }()
	sides := []*side{plain}
	for _, prove := range []bool{false, true} {
		secure, err := b.secure(n, prove)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, secure.close()) }()
		sides = append(sides, secure)
	}
	var applies, connects [3][]float64
	for i := range b.pairs + 1 { // the first round is not counted: it fills caches and files
		for k, s := range sides {
			t, err := s.apply(true)
			if err != nil {
				return err
			}
			c, err := s.reconnect()
			if err != nil {
				return err
			}
			if i > 0 {
				applies[k], connects[k] = append(applies[k], t), append(connects[k], float64(n)/c)
			}
		}
	}
	for k, s := range sides {
		if b.profile != "" {
			if err := s.profileApplies(b.profile, fmt.Sprintf("tls-%s-%d", []string{"plain", "mutual", "proofs"}[k], n),
				b.pairs); err != nil {
				return err
			}
		}
		if err := s.host.do("verify", nil, nil); err != nil {
			return err
		}
	}
	at := fmt.Sprintf("%d nodes", n)
	for k, how := range []string{"plain TCP", "mutual TLS 1.3", "mutual TLS 1.3 and proofs"} {
		b.add(figure{Section: "tls", Name: "apply, nodes not asked first, " + how + ", " + at, Unit: "s",
			Samples: applies[k]})
		b.add(figure{Section: "tls", Name: "nodes that connect, " + how + ", " + at, Unit: "/s", Samples: connects[k]})
	}
	for k, what := range []string{"with mutual TLS over that without", "with proofs over that without"} {
		b.add(figure{Section: "tls", Name: "time to apply " + what + ", " + at, Unit: "×",
			Samples: ratios(applies[k+1], applies[k])})
		b.add(figure{Section: "tls", Name: "time to connect " + what + ", " + at, Unit: "×",
			Samples: ratios(connects[k], connects[k+1])})
	}
	return nil
}

// profileApplies writes the profiles of a number of applies.
func (s *side) profileApplies(dir, name string, count int) error {
	if err := s.startProfiles(dir, name); err != nil {
		return err
	}
	for range count {
		if _, err := s.apply(true); err != nil {
			return err
		}
	}
	return s.stopProfiles()
}

// reconnect breaks every connection, connects all nodes again and returns the seconds until each has
// its greeting acknowledged.
func (s *side) reconnect() (float64, error) {
	if err := s.away(true); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := s.nodes.do("start", 0, nil); err != nil {
		return 0, err
	}
	if err := s.nodes.do("online", s.n, nil); err != nil {
		return 0, err
	}
	t := time.Since(began).Seconds()
	return t, s.wait(func(v *fleetView) bool { return v.Online == s.n })
}
