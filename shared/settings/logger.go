package settings

import (
	"os"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"tandem.internal/shared/runlog"
)

// Logger returns a logger that writes every entry to standard error: lines for people on a terminal, JSON elsewhere.
// level is debug, info, warn or error; any other is a *Error. What is returned beside the logger changes its level.
// With dev, entries have their caller, errors have a stack, and DPanic panics.
func Logger(level string, dev bool) (*zap.Logger, *runlog.Level, error) {
	stat, err := os.Stderr.Stat()
	terminal := err == nil && stat.Mode()&os.ModeCharDevice != 0
	return newLogger(zapcore.Lock(os.Stderr), terminal, level, dev)
}

// newLogger is Logger with its output given.
func newLogger(out zapcore.WriteSyncer, terminal bool, name string, dev bool) (*zap.Logger, *runlog.Level, error) {
	base, err := runlog.Parse(name)
	if err != nil {
		return nil, nil, &Error{Where: "--log-level", Message: err.Error()}
	}
	level, encoder := runlog.NewLevel(base, nil), runlog.Encoder()
	if terminal {
		shape := runlog.Shape()
		shape.EncodeTime = zapcore.TimeEncoderOfLayout("15:04:05.000")
		encoder = zapcore.NewConsoleEncoder(shape)
	}
	options := []zap.Option{zap.ErrorOutput(out)}
	if dev {
		options = append(options, zap.Development(), zap.AddCaller(), zap.AddStacktrace(zapcore.ErrorLevel))
	}
	return zap.New(zapcore.NewCore(encoder, out, level), options...), level, nil
}
