package ledger

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/orphand/orphand/api/v1alpha1"
	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/nodeproof"
	"github.com/orphand/orphand/pkg/settle"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
)

func refusal(kind, name, reason, message string, since facts.Instant) Refusal {
	return Refusal{Object: facts.Ref{Namespace: "team", Kind: kind, Name: name, UID: types.UID(name)}, Reason: reason, Message: message, Since: since}
}

func TestRefusalsAreListedByReasonAndBounded(t *testing.T) {
	var all []Refusal
	for i := range 10_000 {
		all = append(all, refusal("Pod", fmt.Sprintf("llm-node-0-%05d", i), "TooManyDeletes", "too many", start.Add(time.Second)))
	}
	all = append(all, refusal("JobSet", "llm", "Pausing", strings.Repeat("ü", 5000), start), refusal("Job", "llm-node-0", "Kept", "kept", start))
	list := summarize(all)
	if len(list) != 3 || list[0].Reason != "Kept" || list[1].Reason != "Pausing" || list[2].Reason != "TooManyDeletes" {
		t.Fatalf("%d reasons: %+v", len(list), list)
	}
	if s := list[2]; len(s.Objects) != maxRefused || s.More != 10_000-maxRefused || s.Objects[0] != "pod/llm-node-0-00000" || !s.Since.Time.Equal(start.Add(time.Second).Time()) {
		t.Errorf("%+v", s)
	}
	if n := len(list[1].Message); n > maxMessage+3 || strings.ContainsRune(list[1].Message, '\uFFFD') {
		t.Errorf("a message of %d bytes: %q", n, list[1].Message)
	}
}

// desk takes records, and gives a note of one job.
type desk struct {
	note    settle.Note
	written []*v1alpha1.Orphan
	wait    time.Duration
}

func (d *desk) Apply(_ context.Context, o *v1alpha1.Orphan) (*v1alpha1.Orphan, error) {
	d.written = append(d.written, o.DeepCopy())
	o.UID = "record"
	return o, nil
}
func (d *desk) Forget(context.Context, string, string, types.UID) error { return nil }
func (d *desk) Note(facts.JobKey) (settle.Note, bool)                   { return d.note, true }
func (d *desk) Restore(settle.Note)                                     {}
func (d *desk) Attest(types.UID, nodeproof.Attestation)                 {}
func (d *desk) Unattest(types.UID)                                      {}
func (d *desk) Add(facts.JobKey)                                        { d.wait = 0 }
func (d *desk) AddAfter(_ facts.JobKey, after time.Duration)            { d.wait = after }

func TestARefusalIsWrittenWhenItChangesAndNotWhenItStays(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(start.Time())
	d := &desk{note: note(1)}
	var refused []Refusal
	l := New(Config{Records: d, Queue: d, Clock: clk, Refusals: func(facts.JobKey) []Refusal { return refused }})
	l.Serve(d)
	l.Enable(true)
	sync := func(after time.Duration, writes int) {
		t.Helper()
		clk.SetTime(clk.Now().Add(after))
		if err := l.Sync(t.Context(), d.note.Job); err != nil {
			t.Fatal(err)
		}
		if len(d.written) != writes {
			t.Errorf("%d writes, want %d", len(d.written), writes)
		}
	}
	sync(0, 1)
	refused = []Refusal{refusal("Pod", "p", "NodesUnreachable", "a storm", start)}
	sync(time.Second, 1) // only people read it: it waits
	if d.wait != lazily-time.Second {
		t.Errorf("it waits for %v", d.wait)
	}
	sync(d.wait, 2)
	if r := d.written[1].Status.Refusals; len(r) != 1 || r[0].Reason != "NodesUnreachable" || r[0].Objects[0] != "pod/p" {
		t.Errorf("written: %+v", r)
	}
	for range 10 {
		sync(time.Hour, 2)
	}
	refused[0].Reason, refused[0].Message = "Kept", "kept"
	sync(time.Hour, 3)
	refused = nil
	sync(time.Hour, 4)
	if r := d.written[3].Status.Refusals; len(r) != 0 {
		t.Errorf("what was refused is deleted, and its refusal is still there: %+v", r)
	}
}
