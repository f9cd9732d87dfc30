// Command badnode is the node agent with one fault, for tests of upgrades. What is wrong with it was said when it was
// built (-X main.built=FAULT), or is in the variable BADNODE: crash, freeze, hang, lost, memory or stuck. Its self-test
// passes.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"go.uber.org/zap"

	"tandem.internal/nodeagent/app"
	"tandem.internal/shared/settings"
	"tandem.internal/shared/wire"
)

// built is the fault; "": the variable says it.
var built string

func main() { settings.Main(run) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) == 1 && args[0] == "version" {
		args = []string{"--version"}
	}
	var cfg app.Config
	if _, err := app.ReadBrought().Load(&cfg, args, os.LookupEnv, stdout); errors.Is(err, settings.ErrPrinted) {
		return 0
	} else if err != nil {
		return fail(stderr, err)
	}
	log, _, err := settings.Logger(cfg.LogLevel, false)
	if err != nil {
		return fail(stderr, err)
	}
	deps := app.Deps{Log: log, LookupEnv: os.LookupEnv, PID: os.Getpid()}
	switch fault := cmp.Or(built, os.Getenv("BADNODE")); fault {
	case "crash":
		panic("badnode crashes at its start")
	case "freeze": // once before it is ready, once after
		if os.Getenv("TANDEM_SLOT_TRIES") == "1" {
			freeze(log)
		}
		deps.Capacity = func(*wire.NodeInfo) error { freeze(log); return nil }
	case "hang": // what the agent asks about the node once it is connected never answers
		deps.Capacity = func(*wire.NodeInfo) error { select {} }
	case "lost": // nobody listens there
		cfg.Broker = "tcp://127.0.0.1:1"
	case "stuck": // before it is anything
		for {
			time.Sleep(time.Hour)
		}
	case "memory":
		deps.Capacity = func(*wire.NodeInfo) error { return devour() }
	default:
		return fail(stderr, fmt.Errorf("BADNODE is %q, and no fault has that name", fault))
	}
	agent, err := app.New(cfg, deps)
	if err == nil {
		err = agent.Run(ctx)
	}
	if err != nil {
		return fail(stderr, err)
	}
	return 0
}

func fail(stderr io.Writer, err error) int {
	_, _ = fmt.Fprintf(stderr, "badnode: %v\n", err) // nobody else to tell
	return 1
}

// freeze stops the whole process, as a machine does that is out of everything.
func freeze(log *zap.Logger) {
	log.Warn("badnode freezes")
	if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
		log.Error("badnode cannot freeze", zap.Error(err))
	}
}

// devoured is never given back.
var devoured [][]byte

// devour takes memory until the kernel gives no more: 64 MiB above what the process has now.
func devour() error {
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return err
	}
	var pages uint64
	if _, err := fmt.Sscan(string(data), &pages); err != nil {
		return err
	}
	most := pages*uint64(os.Getpagesize()) + 64<<20
	if err := syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: most, Max: most}); err != nil {
		return err
	}
	for {
		b := make([]byte, 1<<20)
		for i := 0; i < len(b); i += os.Getpagesize() {
			b[i] = 1
		}
		devoured = append(devoured, b)
	}
}
