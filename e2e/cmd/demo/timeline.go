package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// voice is who speaks on a line of the timeline.
type voice string

const (
	done       voice = "done"       // what was done to the cluster
	kubernetes voice = "kubernetes" // what Kubernetes shows
	truth      voice = "truth"      // which processes live
	orphand    voice = "orphand"    // what orphand says
	why        voice = "why"        // why it is right
	right      voice = "right"      // a step came out as it should
	wrong      voice = "WRONG"
)

// colours are of terminals; each voice has its own.
func colours() map[voice]string {
	return map[voice]string{
		done: "1;37", kubernetes: "34", truth: "33", orphand: "1;35", why: "2", right: "32", wrong: "1;31",
	}
}

// timeline prints one line at a time, whoever speaks.
type timeline struct {
	out    io.Writer
	colour bool

	mu    sync.Mutex
	began time.Time
}

// newTimeline uses colours on a terminal only, and not against the reader's wish.
func newTimeline(out *os.File) *timeline {
	info, err := out.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0
	return &timeline{out: out, began: time.Now(),
		colour: terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

// say adds a line to the timeline; further lines of the text are indented.
func (t *timeline) say(v voice, format string, args ...any) {
	t.sayAt(time.Now(), v, format, args...)
}

func (t *timeline) sayAt(at time.Time, v voice, format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	const margin = "\n                     "
	text := strings.ReplaceAll(strings.TrimRight(fmt.Sprintf(format, args...), "\n"), "\n", margin)
	clock := fmt.Sprintf("%6.1fs", at.Sub(t.began).Seconds())
	switch v {
	case why:
		clock = "       "
	case done: // a new step
		fmt.Fprintln(t.out)
	}
	fmt.Fprintln(t.out, clock, t.paint(v, fmt.Sprintf(" %-11s ", v)+text))
}

func (t *timeline) paint(v voice, text string) string {
	code := colours()[v]
	if !t.colour || code == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// begin starts the clock of a story.
func (t *timeline) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.began = time.Now()
}

func (t *timeline) heading(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	line := strings.Repeat("─", 100)
	if t.colour {
		text = "\x1b[1m" + text + "\x1b[0m"
	}
	fmt.Fprintf(t.out, "\n%s\n%s\n%s\n", line, text, line)
}

func (t *timeline) text(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(t.out, format+"\n", args...)
}

// progress is how the cluster tells what it starts or builds.
func (t *timeline) progress(format string, args ...any) {
	t.text("  "+format, args...)
}
