package app

import (
	"bytes"
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/orphand/orphand/pkg/signals"
)

// line is a log line as a log pipeline sees it.
type line map[string]any

func (l line) text(key string) string {
	s, _ := l[key].(string)
	return s
}

// logReader keeps the lines that a daemon writes and lets a test wait for one.
type logReader struct {
	mu      sync.Mutex
	partial []byte
	lines   []line
	more    chan struct{} // closed and renewed with every line
}

func newLogReader() *logReader { return &logReader{more: make(chan struct{})} }

func (r *logReader) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.partial = append(r.partial, p...)
	for {
		i := bytes.IndexByte(r.partial, '\n')
		if i < 0 {
			return len(p), nil
		}
		l := line{}
		if err := json.Unmarshal(r.partial[:i], &l); err != nil {
			l["malformed"] = string(r.partial[:i])
		}
		r.lines, r.partial = append(r.lines, l), r.partial[i+1:]
		close(r.more)
		r.more = make(chan struct{})
	}
}

func (r *logReader) all() []line {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.lines)
}

// await returns the first line, past or to come, that is as wanted.
func (r *logReader) await(t *testing.T, what string, wanted func(line) bool) line {
	t.Helper()
	patience := time.After(20 * time.Second)
	for {
		r.mu.Lock()
		i, more := slices.IndexFunc(r.lines, wanted), r.more
		r.mu.Unlock()
		if i >= 0 {
			return r.all()[i]
		}
		select {
		case <-more:
		case <-patience:
			t.Fatalf("no log line %s; there are %v", what, r.all())
		}
	}
}

func (r *logReader) event(t *testing.T, code signals.Code) line {
	t.Helper()
	return r.await(t, string(code), func(l line) bool { return l.text("event") == string(code) })
}

// checkAgainstTable fails for every line that is not as the table of events documents it.
func checkAgainstTable(t *testing.T, lines []line) {
	t.Helper()
	for _, l := range lines {
		code := l.text(signals.FieldEvent)
		info, ok := signals.LookupEvent(signals.Code(code))
		if !ok {
			if _, finding := signals.LookupFinding(signals.Finding(code)); !finding {
				t.Errorf("the table has no event %q: %v", code, l)
			}
			continue
		}
		for key := range l {
			switch key {
			case "level", "ts", "msg", signals.FieldEvent:
			default:
				if !slices.Contains(info.Fields, key) && code != string(signals.ClientTrouble) {
					t.Errorf("%s: the table has no field %q: %v", code, key, l)
				}
			}
		}
		if _, err := time.Parse(time.RFC3339Nano, l.text("ts")); err != nil || l.text("msg") == "" {
			t.Errorf("%s: no proper time or message: %v", code, l)
		}
	}
}
