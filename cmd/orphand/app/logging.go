package app

import (
	"io"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/orphand/orphand/pkg/signals"
)

// newLogger writes JSON, one line per entry, from level up.
func newLogger(w io.Writer, level zapcore.Level) *zap.Logger {
	encoding := zap.NewProductionEncoderConfig()
	encoding.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	encoding.EncodeDuration = zapcore.SecondsDurationEncoder
	return zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(encoding), &lockedWriter{w: w}, level))
}

// lockedWriter keeps lines whole when several goroutines log.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(line)
}

func (l *lockedWriter) Sync() error { return nil }

// logSink writes each event as one line.
type logSink struct {
	core zapcore.Core
	now  func() time.Time
}

func newLogSink(logger *zap.Logger, now func() time.Time) signals.Sink {
	return logSink{core: logger.Core(), now: now}
}

// Emit writes the event's line, stamped with the event's own time.
func (s logSink) Emit(e signals.Event) {
	level := zapLevel(e.Level())
	if !s.core.Enabled(level) {
		return
	}
	at := e.Time
	if at.IsZero() {
		at = s.now()
	}
	attrs := e.Fields()
	fields := make([]zapcore.Field, 0, 1+len(attrs))
	fields = append(fields, zap.String(signals.FieldEvent, e.Name()))
	for _, a := range attrs {
		fields = append(fields, zap.Any(a.Key, a.Value))
	}
	// A line that cannot be written has nowhere to be reported.
	_ = s.core.Write(zapcore.Entry{Level: level, Time: at.UTC(), Message: e.Text()}, fields)
}

func zapLevel(l signals.Level) zapcore.Level {
	switch l {
	case signals.Error:
		return zapcore.ErrorLevel
	case signals.Warn:
		return zapcore.WarnLevel
	default:
		return zapcore.InfoLevel
	}
}
