package app

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/orphand/orphand/pkg/signals"
)

// bridgeKlog sends what the client library logs through zap, as ClientTrouble, without its repetitions: an API server
// that is away for hours must not fill a disk. klog is a process global, so this is called once, by the command.
func bridgeKlog(logger *zap.Logger, clk clock.PassiveClock) {
	klog.SetLogger(logr.New(newQuietSink(zapr.NewLogger(logger).GetSink(), clk)))
}

// quietSink writes the first of a kind and then at most one per noiseInterval, with the count of those left out.
type quietSink struct {
	inner logr.LogSink
	name  string
	noise *noise
}

func newQuietSink(inner logr.LogSink, clk clock.PassiveClock) logr.LogSink {
	return quietSink{inner: inner, noise: newNoise(clk)}
}

// Init is for sinks that look up their caller; this one does not.
func (q quietSink) Init(logr.RuntimeInfo) {}

// Enabled follows the logger's level.
func (q quietSink) Enabled(level int) bool { return q.inner.Enabled(level) }

// Info writes chatter as it is and everything that the library shows by default as trouble.
func (q quietSink) Info(level int, message string, keysAndValues ...any) {
	if level > 0 {
		q.inner.Info(level, message, theirs(keysAndValues)...)
		return
	}
	q.write(message, theirs(keysAndValues))
}

// Error writes trouble. The library retries, so it is a warning and not an error of this process.
func (q quietSink) Error(err error, message string, keysAndValues ...any) {
	q.write(message, append([]any{signals.FieldReason, fmt.Sprint(err)}, theirs(keysAndValues)...))
}

// WithValues passes further fields on.
func (q quietSink) WithValues(keysAndValues ...any) logr.LogSink {
	return quietSink{inner: q.inner.WithValues(theirs(keysAndValues)...), name: q.name, noise: q.noise}
}

// WithName names the part of the library that speaks.
func (q quietSink) WithName(name string) logr.LogSink {
	return quietSink{inner: q.inner, name: strings.Trim(q.name+"."+name, "."), noise: q.noise}
}

func (q quietSink) write(message string, keysAndValues []any) {
	repetitions, ok := q.noise.admit(q.kind(message, keysAndValues))
	if !ok {
		return
	}
	fields := append([]any{signals.FieldEvent, string(signals.ClientTrouble)}, keysAndValues...)
	if q.name != "" {
		fields = append(fields, "logger", q.name)
	}
	if repetitions > 0 {
		fields = append(fields, "repeated", repetitions)
	}
	const warn = -1 // zapr's negative of zap's level
	q.inner.Info(warn, strings.TrimSpace(message), fields...)
}

// theirs renames the library's fields that have the name of one of a line's own: a line with two of a name has, for whoever
// reads it, the last, so that what the library calls its event would hide which event the line is.
func theirs(keysAndValues []any) []any {
	renamed := slices.Clone(keysAndValues)
	for i := 0; i+1 < len(renamed); i += 2 {
		key, _ := renamed[i].(string)
		own := slices.Contains([]string{"ts", "level", "msg", "logger", "repeated"}, key) ||
			slices.ContainsFunc(signals.Fields(), func(f signals.FieldInfo) bool { return f.Name == key })
		if own {
			renamed[i] = "client" + strings.ToUpper(key[:1]) + key[1:]
		}
	}
	return renamed
}

// kind is what makes two messages the same trouble: who speaks, the constant text, and the resource it is about.
func (q quietSink) kind(message string, keysAndValues []any) string {
	kind := q.name + "|" + message
	for i := 0; i+1 < len(keysAndValues); i += 2 {
		switch keysAndValues[i] {
		case "type", "resource":
			kind += fmt.Sprintf("|%v", keysAndValues[i+1])
		}
	}
	return kind
}
