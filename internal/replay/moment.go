package replay

import (
	"strings"
	"time"

	"github.com/orphand/orphand/internal/stage"
)

// longest bounds offsets, so that no sum of two leaves the range of time.Duration.
const longest = 100 * 365 * 24 * time.Hour

// Offset writes an offset from the start as people write it: 1h and not 1h0m0s.
func Offset(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}

// time reads a moment.
func (d *document) time(t *tree, what string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339, t.scalar)
	if t.shape != text || err != nil || at.Year() < 1970 || at.Year() > 2200 {
		return time.Time{}, d.malformed(t.line, "%s is %s: expected a time such as 2026-01-01T00:00:00Z", what, t.say())
	}
	return at.UTC(), nil
}

// duration reads a length of time that is not negative.
func (d *document) duration(t *tree, what string) (time.Duration, error) {
	if t.shape == integer && t.scalar == "0" {
		return 0, nil
	}
	length, err := time.ParseDuration(t.scalar)
	if t.shape != text || err != nil || length < 0 || length > longest {
		return 0, d.malformed(t.line, "%s is %s: expected a duration such as 30s or 1h30m", what, t.say())
	}
	return length, nil
}

// offset reads `at`: an offset from the start, or a time not before it.
func (r *reader) offset(d *document, t *tree) (time.Duration, error) {
	if at, err := time.Parse(time.RFC3339, t.scalar); t.shape == text && err == nil {
		offset := at.Sub(r.history.Start)
		if offset < 0 || offset > longest {
			return 0, d.malformed(t.line, "at is %s: expected a time from the start on, which is %s", t.say(), r.history.Start.Format(time.RFC3339))
		}
		return offset, nil
	}
	if t.shape == integer && t.scalar == "0" {
		return 0, nil
	}
	offset, err := time.ParseDuration(t.scalar)
	if t.shape != text || err != nil || offset < 0 || offset > longest {
		return 0, d.malformed(t.line, "at is %s: expected an offset such as 10s, or a time such as 2026-01-01T00:00:10Z", t.say())
	}
	return offset, nil
}

// delivery reads `watch`.
func (d *document) delivery(t *tree) (stage.Delivery, error) {
	if t.shape == text && t.scalar == "never" {
		return stage.Delivery{Lost: true}, nil
	}
	after, err := d.duration(t, "watch")
	if err != nil {
		return stage.Delivery{}, d.malformed(t.line, "watch is %s: expected a delay such as 30s, or never", t.say())
	}
	return stage.Delivery{After: after}, nil
}

// newestTime is the newest time that is written anywhere in an object.
func newestTime(t *tree) (newest time.Time, known bool) {
	take := func(at time.Time, ok bool) {
		if ok && (!known || at.After(newest)) {
			newest, known = at, true
		}
	}
	for _, item := range t.items {
		take(newestTime(item))
	}
	for _, f := range t.fields {
		take(newestTime(f.value))
	}
	if t.shape == text && len(t.scalar) >= len("2006-01-02T15:04:05Z") {
		at, err := time.Parse(time.RFC3339, t.scalar)
		take(at.UTC(), err == nil && at.Year() >= 1970 && at.Year() <= 2200)
	}
	return newest, known
}
