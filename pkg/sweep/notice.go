package sweep

import (
	"context"
	"fmt"
	"time"

	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/retention"
	"github.com/orphand/orphand/pkg/signals"
)

// Notice says that an object will be deleted.
type Notice struct {
	facts.Ref
	// Of is the object's kind.
	Of *retention.Kind
	// Due is when the policy wants it gone: one notice is made for each object and due time, whoever makes it.
	Due facts.Instant
	// At is when it is made, Text what it says.
	At   facts.Instant
	Text string
}

// Notices makes notices where whoever looks at the object finds them.
type Notices interface {
	// Announce makes a notice and returns since when it has been there: At, or earlier when this process or another one has
	// made it before.
	Announce(context.Context, Notice) (since facts.Instant, err error)
}

// announcement is a notice that stands.
type announcement struct {
	due, since facts.Instant
}

// covers says whether the notice is of the decision. One that was made for an earlier time is not: the object was retried,
// or its owner asked for longer, and whoever read it has forgotten it.
func (a announcement) covers(d retention.Decision) bool { return a.since.Known() && d.Due <= a.due }

// timeNotice sets the time at which a deletion is to be announced.
func (s *Sweeper) timeNotice(e *entry, d retention.Decision, now facts.Instant) {
	if at := d.Announce(); d.Notice > 0 && !d.DryRun && !e.announced.covers(d) && now < at {
		s.c.Queue.AddAfter(Key{UID: e.o.UID}, at.Sub(now))
	}
}

// unannounced says whether an object's deletion is to be announced now.
func (s *Sweeper) unannounced(e *entry, d retention.Decision) bool {
	return d.Verb == retention.Delete && d.Notice > 0 && !d.DryRun && !e.announced.covers(d) && d.Announce() <= s.now() &&
		s.c.MayDelete(e.o.Namespace) == ""
}

// announce makes the notice of an object's deletion. Without it the object does not go, so that an error is tried again.
func (s *Sweeper) announce(ctx context.Context, o *retention.Object, d retention.Decision) error {
	now := s.now()
	since, err := s.c.Notices.Announce(ctx, Notice{Ref: o.Ref(), Of: o.Of, Due: d.Due, At: now,
		Text: fmt.Sprintf("It will be deleted at %s by the retention rule %q (%s). To keep it longer, set the annotation %s to a later time.",
			d.Goes(now).Time().Format(time.RFC3339), d.Rule, d.Source, retention.AnnotationKeepUntil)})
	if err != nil {
		return fmt.Errorf("announcing the deletion of %s: %w", o.Ref(), err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.objects[o.UID]; e != nil {
		e.announced = announcement{d.Due, since}
	}
	if since == now {
		s.tell(o, signals.Event{Code: signals.RetentionAnnounced, Attrs: []signals.Attr{{Key: "goes", Value: d.Goes(since).Time()}}}, d)
	}
	return nil
}

// heldByNotice says whether an object waits because its notice has not stood for long enough.
func (s *Sweeper) heldByNotice(e *entry, d retention.Decision) bool {
	if d.Notice == 0 {
		return false
	}
	if !e.announced.covers(d) {
		return true
	}
	left := d.Goes(e.announced.since).Sub(s.now())
	if left > 0 {
		s.c.Queue.AddAfter(Key{UID: e.o.UID}, left)
	}
	return left > 0
}

// goes is when an object could go at the earliest, for how late it is.
func (e *entry) goes(d retention.Decision) facts.Instant {
	at := max(d.Due, e.known)
	if d.Notice > 0 {
		at = max(at, d.Goes(e.announced.since))
	}
	return at
}

// spoken are notices that nobody writes down: they stand in the log alone.
type spoken struct{}

func (spoken) Announce(_ context.Context, n Notice) (facts.Instant, error) { return n.At, nil }
