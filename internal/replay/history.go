package replay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/orphand/orphand/internal/stage"
	"github.com/orphand/orphand/pkg/retention"
)

// The modes of `orphand run`.
const (
	modeObserve = "observe"
	modeEnforce = "enforce"
)

// History is a file: what happened, when, and what the daemon is expected to say.
type History struct {
	File string
	// Start is the wall time of offset 0.
	Start time.Time
	Mode  string
	// Policy is the retention policy; nil when there is none.
	Policy *retention.Policy
	// Cascade has the API collect the dependents of what is deleted.
	Cascade bool
	Steps   []Step
	// Warnings name fields of objects that Kubernetes does not know, each with its place.
	Warnings []string

	flags Flags
	// stream says that it is what `kubectl get --watch` printed.
	stream bool
}

// Step is one document: exactly one of Event, Daemon, Fault and Check.
type Step struct {
	Place
	// At is the offset from the history's start.
	At time.Duration

	Event  *Event
	Daemon string
	Fault  *stage.Fault
	Check  *Check
}

// Event is a change of an object.
type Event struct {
	Object stage.Object
	// Deleted says that the object is gone; Bare that its final state was not given, and is the one that was held.
	Deleted, Bare bool
	stage.Delivery
}

// What `daemon` may say.
const (
	daemonStop      = "stop"
	daemonStart     = "start"
	daemonRestart   = "restart"
	daemonRelist    = "relist"
	daemonLeaseLost = "lease-lost"
	daemonLead      = "lead"
)

// Flags are the flags of `orphand run` for one history.
type Flags interface {
	// Set sets a flag from its text. It fails for one that does not exist and for text that it cannot read.
	Set(name, text string) error
	// Validate lists what is wrong with the flags together.
	Validate() []string
}

// Read reads a file: YAML documents, JSON values, or what `kubectl get --watch --output-watch-events` prints in either. An
// error is a *Malformed.
func Read(file string, data []byte, flags Flags) (*History, error) {
	h := &History{File: file, Start: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Mode: modeObserve, flags: flags}
	r := &reader{history: h, first: true}
	documents := yamlDocuments
	if looksLikeJSON(data) {
		documents = jsonDocuments
	}
	err := documents(file, string(bytes.TrimPrefix(data, []byte("\ufeff"))), r.document)
	if err == nil && len(h.Steps) == 0 {
		err = &Malformed{Place: Place{file, 1, 1}, Message: "it is empty: expected documents with at and one of type, daemon, api, expect, expectNot"}
	}
	if err == nil {
		err = r.kinds()
	}
	if err != nil {
		return nil, err
	}
	return h, nil
}

// looksLikeJSON tells a stream of JSON values from YAML, whose flow mappings begin with a brace too.
func looksLikeJSON(data []byte) bool {
	s := bytes.TrimLeft(bytes.TrimPrefix(data, []byte("\ufeff")), " \t\r\n")
	if !bytes.HasPrefix(s, []byte("{")) {
		return false
	}
	s = bytes.TrimLeft(s[1:], " \t\r\n")
	if !bytes.HasPrefix(s, []byte(`"`)) && !bytes.HasPrefix(s, []byte("}")) {
		return false
	}
	return !bytes.Contains(data, []byte("\n---"))
}

// reader reads the documents of one file, in order.
type reader struct {
	history *History
	first   bool
	// last is the offset of the newest document.
	last time.Duration
	// named are the kinds that faults name, with their places.
	named []namedKind
}

type namedKind struct {
	kind string
	at   Place
}

func (r *reader) document(d *document) error {
	first := r.first
	r.first = false
	h := r.history
	if d.root.shape != mapping {
		return d.malformed(d.root.line, "the document is %s: expected a mapping", d.root.say())
	}
	if first && isSettings(d.root) {
		return r.settings(d)
	}
	if len(h.Steps) == 0 && isWatchEvent(d.root) {
		h.stream = true
	}
	if h.stream {
		return r.watchEvent(d)
	}
	return r.step(d)
}

// isSettings: whatever has one of their keys, and is no step.
func isSettings(t *tree) bool {
	return t.field("at") == nil && (t.field("start") != nil || t.field("mode") != nil || t.field("flags") != nil ||
		t.field("policy") != nil || t.field("cascade") != nil)
}

// isWatchEvent: what kubectl prints has a type, an object and nothing else.
func isWatchEvent(t *tree) bool {
	return len(t.fields) == 2 && t.field("type") != nil && t.field("object") != nil
}

func (r *reader) settings(d *document) error {
	h := r.history
	return d.read(d.root, "the settings",
		key{"start", func(t *tree) (err error) {
			h.Start, err = d.time(t, "start")
			return err
		}},
		key{"mode", func(t *tree) (err error) {
			h.Mode, err = d.one(t, "mode", modeObserve, modeEnforce)
			return err
		}},
		key{"flags", func(t *tree) error { return r.setFlags(d, t) }},
		key{"policy", func(t *tree) error {
			if err := d.want(t, "policy", "a RetentionPolicy", mapping); err != nil {
				return err
			}
			return r.policy(d, t)
		}},
		key{"cascade", func(t *tree) error {
			h.Cascade = strings.EqualFold(t.scalar, "true")
			return d.want(t, "cascade", "true or false", boolean)
		}},
	)
}

// policy reads a retention policy, all of whose problems are told at once.
func (r *reader) policy(d *document, t *tree) error {
	data, err := json.Marshal(t.plain())
	if err != nil {
		return d.malformed(t.line, "policy cannot be read: %v", err)
	}
	policy, problems := retention.LoadInline(data)
	var texts []string
	for _, p := range problems {
		p.Line, p.Column = 0, 0 // those of the data, which nobody wrote
		if p.Warning {
			r.history.Warnings = append(r.history.Warnings, fmt.Sprintf("%s: policy: %s", d.place(t.line), p))
			continue
		}
		texts = append(texts, p.String())
	}
	if policy == nil {
		return d.malformed(t.line, "policy has %s", strings.Join(texts, "; "))
	}
	r.history.Policy = policy
	return nil
}

func (r *reader) setFlags(d *document, t *tree) error {
	if err := d.want(t, "flags", "a mapping of flags of `orphand run`, without their dashes, to values", mapping); err != nil {
		return err
	}
	for _, f := range t.fields {
		switch f.value.shape {
		case null, list, mapping:
			return d.malformed(f.value.line, "the flag %s is %s: expected its value", f.name, f.value.say())
		}
		if err := r.history.flags.Set(f.name, f.value.scalar); err != nil {
			return d.malformed(f.line, "%v", err)
		}
	}
	if problems := r.history.flags.Validate(); len(problems) > 0 {
		return d.malformed(t.line, "%s", strings.Join(problems, "; "))
	}
	return nil
}

// step reads a document that happens at a time.
func (r *reader) step(d *document) error {
	s := Step{Place: d.place(d.root.line)}
	var what []string
	var eventType, watch, object *tree
	is := func(name string) { what = append(what, name) }
	check := &Check{}
	err := d.read(d.root, "the document",
		key{"at", func(t *tree) (err error) {
			s.At, err = r.offset(d, t)
			return err
		}},
		key{"type", func(t *tree) error { eventType = t; return nil }},
		key{"watch", func(t *tree) error { watch = t; return nil }},
		key{"object", func(t *tree) error { object = t; is("object"); return nil }},
		key{"daemon", func(t *tree) (err error) {
			is("daemon")
			s.Daemon, err = d.one(t, "daemon", daemonStop, daemonStart, daemonRestart, daemonRelist, daemonLeaseLost, daemonLead)
			return err
		}},
		key{"api", func(t *tree) (err error) {
			is("api")
			s.Fault, err = r.fault(d, t)
			return err
		}},
		key{"expect", func(t *tree) error {
			is("expect")
			return r.claims(d, t, "expect", &check.Wanted)
		}},
		key{"expectNot", func(t *tree) error {
			is("expectNot")
			return r.claims(d, t, "expectNot", &check.Unwanted)
		}},
	)
	if err != nil {
		return err
	}
	if len(what) == 2 && check.Wanted != nil && check.Unwanted != nil {
		what = what[:1] // they may stand together
	}
	if d.root.field("at") == nil {
		if isSettings(d.root) {
			return d.malformed(d.root.line, "settings may only be the first document")
		}
		return d.malformed(d.root.line, "at is missing: expected an offset such as 10s, or a time")
	}
	if len(what) == 0 && (eventType != nil || watch != nil) {
		return d.malformed(d.root.line, "object is missing")
	}
	if len(what) != 1 {
		return d.malformed(d.root.line, "the document has %s: expected exactly one of object (with type), daemon, api, expect and expectNot", strings.Join(append(what, "at"), ", "))
	}
	if object == nil && (eventType != nil || watch != nil) {
		return d.malformed(d.root.line, "type and watch belong to an object: expected object")
	}
	if s.At < r.last {
		return d.malformed(d.root.field("at").line, "at is %s, before the document above it (%s): expected time order", Offset(s.At), Offset(r.last))
	}
	r.last = s.At
	if object != nil {
		if s.Event, err = r.event(d, eventType, object, true); err != nil {
			return err
		}
		if watch != nil {
			if s.Event.Delivery, err = d.delivery(watch); err != nil {
				return err
			}
		}
	}
	if check.Wanted != nil || check.Unwanted != nil {
		s.Check = check
	}
	r.history.Steps = append(r.history.Steps, s)
	return nil
}

// watchEvent reads what kubectl prints of one change. It says nothing of when: that is the newest time in the object.
func (r *reader) watchEvent(d *document) error {
	h := r.history
	var eventType, object *tree
	err := d.read(d.root, "the watch event",
		key{"type", func(t *tree) error { eventType = t; return nil }},
		key{"object", func(t *tree) error { object = t; return nil }},
	)
	if err != nil {
		return err
	}
	if eventType == nil || object == nil {
		return d.malformed(d.root.line, "a watch event has type and object, and its file nothing else")
	}
	e, err := r.event(d, eventType, object, false)
	if err != nil {
		return err
	}
	newest, known := newestTime(object)
	if len(h.Steps) == 0 {
		if known {
			h.Start = newest
		}
		newest = h.Start
	}
	if at := newest.Sub(h.Start); known && at > r.last {
		r.last = at
	}
	h.Steps = append(h.Steps, Step{Place: d.place(d.root.line), At: r.last, Event: e})
	return nil
}
