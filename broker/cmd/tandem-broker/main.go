// Command tandem-broker is the unit's MQTT broker as a program, for sites where nodes are to stay connected while the
// controller restarts; see tandem-broker --help.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
	"slices"

	"go.uber.org/zap"

	"tandem.internal/broker/server"
	"tandem.internal/shared/door"
	"tandem.internal/shared/settings"
)

// Exit statuses.
const (
	exitOK    = 0
	exitError = 1 // it cannot start, or has failed
	exitUsage = 2
)

func main() { settings.Main(run) }

// run serves until ctx ends and returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	fail := func(status int, err error) int {
		if _, werr := fmt.Fprintf(stderr, "tandem-broker: %v\n", err); werr != nil {
			return exitError
		}
		return status
	}
	if len(args) > 0 && args[0] == "acl" {
		var usage usageError
		var setting *settings.Error
		err := printACL(args[1:], os.Stdin, stdout)
		switch {
		case err == nil, errors.Is(err, settings.ErrPrinted):
			return exitOK
		case errors.As(err, &usage), errors.As(err, &setting):
			return fail(exitUsage, err)
		}
		return fail(exitError, err)
	}
	var cfg config
	rest, err := settings.Load("tandem-broker", &cfg, args, os.LookupEnv, stdout)
	if errors.Is(err, settings.ErrPrinted) {
		return exitOK
	}
	if err == nil {
		err = settings.Unexpected(rest, []string{"acl"})
	}
	if err == nil {
		cfg.complete()
		err = cfg.check()
	}
	if err != nil {
		return fail(exitUsage, err)
	}
	log, _, err := settings.Logger(cfg.LogLevel, false)
	if err != nil {
		return fail(exitUsage, err)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(server.GCPercent)
	}
	if err := serve(ctx, &cfg, log.With(zap.String("unit", cfg.Unit))); err != nil {
		return fail(exitError, err)
	}
	return exitOK
}

// serve runs the broker until ctx ends.
func serve(ctx context.Context, cfg *config, log *zap.Logger) error {
	conf, err := cfg.tls(log)
	if err != nil {
		return err
	}
	listeners, err := listen(ctx, slices.Concat(cfg.Listen, cfg.ListenTLS))
	if err != nil {
		return err
	}
	for i := len(cfg.Listen); i < len(listeners); i++ {
		listeners[i] = door.TLS(listeners[i], conf, 0)
	}
	scrapes, err := listenMetrics(ctx, cfg, log)
	if err != nil {
		return errors.Join(err, closeAll(listeners))
	}
	s, err := server.New(server.Config{Unit: cfg.Unit, Listeners: listeners, Passwords: cfg.Passwords,
		Verify: cfg.verify, Limits: cfg.limits(), Log: log})
	if err != nil {
		return errors.Join(err, closeAll(listeners), closeAll(scrapes))
	}
	if err := s.Start(); err != nil {
		return errors.Join(err, s.Close(), closeAll(scrapes))
	}
	for _, l := range listeners {
		log.Info("serving", zap.Stringer("address", l.Addr()))
	}
	stopMetrics := serveMetrics(scrapes, newScraped(cfg.MetricsToken, s.Stats, log), log)
	for _, what := range cfg.insecureAddresses() {
		log.Warn("INSECURE: " + what)
	}
	if cfg.Passwords["controller"] == "" && len(cfg.ListenTLS) == 0 {
		log.Warn("no controller can connect: give --passwords controller=… or TANDEM_PASSWORDS")
	}
	<-ctx.Done()
	st := s.Stats()
	log.Info("stopping", zap.Int("clients", st.Clients), zap.Int("retained", st.Retained),
		zap.Int64("received", st.Received), zap.Int64("sent", st.Sent))
	return errors.Join(stopMetrics(), s.Close())
}

// listen opens every address, or none.
func listen(ctx context.Context, addrs []string) (open []net.Listener, err error) {
	for _, addr := range addrs {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
		if err != nil {
			return nil, errors.Join(explainListen(addr, err), closeAll(open))
		}
		open = append(open, l)
	}
	return open, nil
}

// closeAll closes all listeners and returns all errors.
func closeAll(listeners []net.Listener) (err error) {
	for _, l := range listeners {
		err = errors.Join(err, l.Close())
	}
	return err
}
