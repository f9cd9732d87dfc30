package main

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"tandem.internal/broker/metrics"
	"tandem.internal/broker/server"
	"tandem.internal/shared/door"
	"tandem.internal/shared/settings"
)

// minToken is the length of the shortest --metrics-token, in bytes: nobody guesses so much.
const minToken = 20

// checkMetrics returns what is wrong with the settings of the metrics, nil if nothing is.
func (c *config) checkMetrics() error {
	switch {
	case c.MetricsListen == "" && c.MetricsToken != "":
		return errors.New("--metrics-token: there is no --metrics-listen to use it at")
	case c.MetricsListen == "":
		return nil
	case len(c.MetricsToken) < minToken:
		return fmt.Errorf("--metrics-listen: needs a --metrics-token of at least %d characters", minToken)
	}
	if err := checkListen(c.MetricsListen, c.Insecure || c.TLSCert != ""); err != nil {
		return fmt.Errorf("--metrics-listen: %w; or give --tls-cert and --tls-key", err)
	}
	return nil
}

// The listener of the metrics: connections at once, of all and from one address.
const (
	maxScrapers    = 16
	maxScraperEach = 8
)

// listenMetrics opens the listener of the metrics; there is none if none was asked for.
func listenMetrics(ctx context.Context, c *config, log *zap.Logger) ([]net.Listener, error) {
	if c.MetricsListen == "" {
		return nil, nil
	}
	var conf *tls.Config
	if c.TLSCert != "" {
		pair, err := door.OpenKeyPair(c.TLSCert, c.TLSKey, "--tls-cert, --tls-key", log)
		if err != nil {
			return nil, err
		}
		conf = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: pair.Get}
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", c.MetricsListen)
	if err != nil {
		return nil, fmt.Errorf("--metrics-listen: %w", err)
	}
	l = door.Bound(l, maxScrapers, maxScraperEach)
	if conf != nil {
		l = tls.NewListener(l, conf)
	}
	return []net.Listener{l}, nil
}

// scraped answers GET /metrics for whoever shows the token.
type scraped struct {
	token [sha256.Size]byte
	from  prometheus.Gatherer
	log   *zap.Logger

	mu      sync.Mutex
	limiter door.Limiter // of wrong tokens
}

// newScraped returns the handler for a broker.
func newScraped(token string, stats func() server.Stats, log *zap.Logger) *scraped {
	r := metrics.NewRegistry(settings.Version)
	r.MustRegister(metrics.Broker(stats))
	return &scraped{token: sha256.Sum256([]byte(token)), from: r, log: log}
}

func (s *scraped) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	sum := sha256.Sum256([]byte(strings.TrimSpace(token)))
	if !strings.EqualFold(scheme, "bearer") || subtle.ConstantTimeCompare(sum[:], s.token[:]) != 1 {
		s.mu.Lock()
		_, free := s.limiter.Take(time.Now(), door.Address(r.RemoteAddr))
		s.mu.Unlock()
		if !free {
			h.Set("Connection", "close")
			http.Error(w, "too many wrong tokens; try again later", http.StatusTooManyRequests)
			return
		}
		h.Set("WWW-Authenticate", `Bearer realm="tandem-broker"`)
		http.Error(w, "this needs the token of --metrics-token", http.StatusUnauthorized)
		return
	}
	switch {
	case r.URL.Path != "/metrics":
		http.NotFound(w, r)
		return
	case r.Method != http.MethodGet:
		h.Set("Allow", http.MethodGet)
		http.Error(w, "GET is possible here", http.StatusMethodNotAllowed)
		return
	}
	text, err := metrics.Text(s.from)
	if err != nil {
		s.log.Error("metrics cannot be shown", zap.Error(err))
		http.Error(w, "the metrics cannot be shown; the log says why", http.StatusInternalServerError)
		return
	}
	h.Set("Content-Type", metrics.ContentType)
	if _, err := w.Write(text); err != nil {
		s.log.Debug("a scraper left before the answer", zap.Error(err))
	}
}

// serveMetrics answers on listeners, one at most, until stop is called, which waits for its end.
func serveMetrics(on []net.Listener, h http.Handler, log *zap.Logger) (stop func() error) {
	if len(on) == 0 {
		return func() error { return nil }
	}
	l := on[0]
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second,
		WriteTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 8 << 10,
		ErrorLog: zap.NewStdLog(log.WithOptions(zap.IncreaseLevel(zap.ErrorLevel)))}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	log.Info("serving metrics", zap.Stringer("address", l.Addr()))
	return func() error {
		err := srv.Close()
		if ended := <-done; !errors.Is(ended, http.ErrServerClosed) {
			err = errors.Join(err, fmt.Errorf("--metrics-listen: %w", ended))
		}
		return err
	}
}
