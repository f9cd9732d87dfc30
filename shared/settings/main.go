package settings

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Main is the main function of a program: it calls run with the arguments after the program's name and exits with the
// status that run returns. The first SIGINT or SIGTERM ends ctx. A second one exits at once with 128 plus the number of
// the signal, as shells do.
func Main(run func(ctx context.Context, args []string, stdout, stderr io.Writer) int) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	os.Exit(supervise(signals, os.Exit, func(ctx context.Context) int {
		return run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	}))
}

// supervise calls run and handles signals until run returns. When supervise returns, its goroutine has ended.
func supervise(signals <-chan os.Signal, exit func(int), run func(context.Context) int) int {
	ctx, cancel := context.WithCancel(context.Background())
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for first := true; ; first = false {
			select {
			case <-done:
				return
			case s := <-signals:
				if first {
					cancel()
					continue
				}
				status := 128
				if n, ok := s.(syscall.Signal); ok {
					status += int(n)
				}
				exit(status)
				return
			}
		}
	}()
	defer func() {
		close(done)
		<-ended
		cancel()
	}()
	return run(ctx)
}
