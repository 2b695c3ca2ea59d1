package sim

import (
	"fmt"
	"time"

	"github.com/orphand/orphand/internal/stage"
)

// film records a history as the documents of a replay file.
type film struct {
	w      *World
	on     bool
	frames []frame
}

// frame is one document, or a comment.
type frame struct {
	at      time.Duration
	object  stage.Object
	removed bool
	watch   time.Duration
	daemon  string
	fault   *stage.Fault
	comment string
}

func (f *film) wrote(o stage.Object, removed bool, d stage.Delivery) {
	if f.on {
		f.frames = append(f.frames, frame{at: f.w.at(), object: o, removed: removed, watch: d.After})
	}
}

func (f *film) daemon(what string) {
	if f.on {
		f.frames = append(f.frames, frame{at: f.w.at(), daemon: what})
	}
}

func (f *film) fault(x stage.Fault) {
	if f.on {
		f.frames = append(f.frames, frame{at: f.w.at(), fault: &x})
	}
}

func (f *film) comment(text string) {
	if f.on {
		f.frames = append(f.frames, frame{at: f.w.at(), comment: text})
	}
}

func (f *film) note(a Action) {
	if f.on {
		f.comment(fmt.Sprintf("%s scene %d job %d pod %d for %s flag %t", a.Do, a.Scene, a.Job, a.Pod, a.For, a.Flag))
	}
}
