package settings

import (
	"os"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Logger returns a logger that writes every entry to standard error: lines for people on a terminal, JSON elsewhere.
// level is debug, info, warn or error; any other is a *Error. With dev, entries have their caller, errors have a stack,
// and DPanic panics.
func Logger(level string, dev bool) (*zap.Logger, error) {
	stat, err := os.Stderr.Stat()
	terminal := err == nil && stat.Mode()&os.ModeCharDevice != 0
	return newLogger(zapcore.Lock(os.Stderr), terminal, level, dev)
}

// newLogger is Logger with its output given.
func newLogger(out zapcore.WriteSyncer, terminal bool, level string, dev bool) (*zap.Logger, error) {
	var l zapcore.Level
	switch level {
	case "debug", "info", "warn", "error":
		if err := l.Set(level); err != nil {
			return nil, &Error{Where: "--log-level", Message: err.Error()}
		}
	default:
		return nil, &Error{Where: "--log-level", Message: level + " is none of debug, info, warn, error"}
	}
	shape := zapcore.EncoderConfig{TimeKey: "time", LevelKey: "level", NameKey: "logger", CallerKey: "caller",
		MessageKey: "msg", StacktraceKey: "stack", EncodeTime: zapcore.RFC3339NanoTimeEncoder,
		EncodeLevel: zapcore.LowercaseLevelEncoder, EncodeDuration: zapcore.StringDurationEncoder,
		EncodeCaller: zapcore.ShortCallerEncoder}
	encoder := zapcore.NewJSONEncoder(shape)
	if terminal {
		shape.EncodeTime = zapcore.TimeEncoderOfLayout("15:04:05.000")
		encoder = zapcore.NewConsoleEncoder(shape)
	}
	options := []zap.Option{zap.ErrorOutput(out)}
	if dev {
		options = append(options, zap.Development(), zap.AddCaller(), zap.AddStacktrace(zapcore.ErrorLevel))
	}
	return zap.New(zapcore.NewCore(encoder, out, l), options...), nil
}
