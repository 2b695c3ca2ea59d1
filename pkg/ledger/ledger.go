package ledger

import (
	"context"
	"fmt"
	"hash"
	"hash/fnv"
	"math"
	"sync"
	"time"

	"github.com/orphand/orphand/api/v1alpha1"
	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/nodeproof"
	"github.com/orphand/orphand/pkg/settle"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// Records reads and writes the records. Apply is a server-side apply of the record's spec and then of its status, with
// orphand's own field manager, and returns the record as it then is.
type Records interface {
	Apply(ctx context.Context, o *v1alpha1.Orphan) (*v1alpha1.Orphan, error)
	// Forget deletes the record with the given UID.
	Forget(ctx context.Context, namespace, name string, uid types.UID) error
}

// Engine is what the ledger asks of the engine.
type Engine interface {
	Note(facts.JobKey) (settle.Note, bool)
	Restore(settle.Note)
	Attest(types.UID, nodeproof.Attestation)
	Unattest(types.UID)
}

// Queue is the ledger's own work queue.
type Queue interface {
	Add(facts.JobKey)
	AddAfter(facts.JobKey, time.Duration)
}

// Config is what a ledger works with.
type Config struct {
	Records Records
	Queue   Queue
	Clock   clock.PassiveClock
	// Leads says whether this process may write; nil for always.
	Leads func() bool
	// Refusals lists why what is left of a job is not deleted; nil for nobody. Whoever knows them calls Keep when they change.
	Refusals func(facts.JobKey) []Refusal
}

// The pace of writes. What a restart must not lose is written soon: a new state, a new pod, a pod that went without proof, and
// a little later a pod that was proven gone, which a restart without that would find gone unseen. What only people read waits.
// A record that changes again and again is written ever more rarely.
const (
	soon    = 200 * time.Millisecond
	lazily  = 30 * time.Second
	rarest  = 30 * time.Second
	slowest = time.Minute
)

// Ledger keeps the records. It is safe for concurrent use.
type Ledger struct {
	c      Config
	engine Engine

	mu      sync.Mutex
	enabled bool
	// trouble is why the last write failed; empty when it did not.
	trouble string
	written map[facts.JobKey]*entry
	vouched map[recordKey]map[types.UID]nodeproof.Attestation
}

// entry is what was last written of a job.
type entry struct {
	uid        types.UID
	state      settle.State
	kept       map[uint64]bool // digests of what a restart must not lose, one per pod
	all        uint64          // a digest of everything
	at         time.Time
	writes     int
	conditions []metav1.Condition
}

// New makes a ledger that keeps nothing until Enable.
func New(c Config) *Ledger {
	if c.Leads == nil {
		c.Leads = func() bool { return true }
	}
	if c.Refusals == nil {
		c.Refusals = func(facts.JobKey) []Refusal { return nil }
	}
	return &Ledger{c: c, written: map[facts.JobKey]*entry{}, vouched: map[recordKey]map[types.UID]nodeproof.Attestation{}}
}

// Serve names the engine whose jobs are recorded. It is called once, before anything else.
func (l *Ledger) Serve(e Engine) { l.engine = e }

// Trouble is why records cannot be written at present; empty when they can.
func (l *Ledger) Trouble() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.trouble
}

// Enable says whether records can be kept: their kind is served, and orphand may write it.
func (l *Ledger) Enable(enabled bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.enabled = enabled
}

// Enabled says whether records are kept.
func (l *Ledger) Enabled() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.enabled
}

// Keep satisfies settle.Ledger.
func (l *Ledger) Keep(key facts.JobKey) {
	l.mu.Lock()
	enabled, known := l.enabled, l.written[key] != nil
	l.mu.Unlock()
	switch {
	case !enabled:
	case known:
		l.c.Queue.AddAfter(key, soon)
	default: // a job without a record is what a restart forgets
		l.c.Queue.Add(key)
	}
}

// Adopt goes on from a record that is there when the process begins. It must be called before any job is worked on.
func (l *Ledger) Adopt(o *v1alpha1.Orphan) error {
	n, err := Read(o)
	if err != nil {
		return err
	}
	l.Seen(o)
	l.engine.Restore(n)
	return nil
}

// Seen remembers which record a job has, from a watch or a write.
func (l *Ledger) Seen(o *v1alpha1.Orphan) {
	key := facts.JobKey{Namespace: o.Namespace, Name: o.Spec.TrainJob.Name, UID: types.UID(o.Spec.TrainJob.UID)}
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.written[key]
	if e == nil {
		e = &entry{state: settle.State(o.Status.State)}
		l.written[key] = e
	}
	e.uid, e.conditions = o.UID, o.Status.Conditions
}

// UID is the UID of the job's record; empty when it has none.
func (l *Ledger) UID(key facts.JobKey) types.UID {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.written[key]; e != nil {
		return e.uid
	}
	return ""
}

// Gone notes that somebody deleted a record. What is still known of its job is written again.
func (l *Ledger) Gone(o *v1alpha1.Orphan) {
	key := facts.JobKey{Namespace: o.Namespace, Name: o.Spec.TrainJob.Name, UID: types.UID(o.Spec.TrainJob.UID)}
	l.mu.Lock()
	if e := l.written[key]; e != nil && e.uid == o.UID {
		delete(l.written, key)
	}
	l.mu.Unlock()
	l.Keep(key)
}

// Sync writes a job's record when that is due, or forgets it when the engine has.
func (l *Ledger) Sync(ctx context.Context, key facts.JobKey) error {
	if !l.Enabled() || !l.c.Leads() {
		return nil
	}
	n, wanted := l.engine.Note(key)
	l.mu.Lock()
	e := l.written[key]
	l.mu.Unlock()
	if !wanted {
		if e == nil || e.uid == "" {
			return nil
		}
		if err := l.c.Records.Forget(ctx, key.Namespace, Name(key), e.uid); err != nil {
			return fmt.Errorf("forgetting record %s/%s: %w", key.Namespace, Name(key), err)
		}
		l.mu.Lock()
		delete(l.written, key)
		l.mu.Unlock()
		return nil
	}
	refusals := summarize(l.c.Refusals(key))
	kept, all := digests(n, refusals)
	now := l.c.Clock.Now()
	if wait, same := e.wait(n.State, kept, all, now); same {
		return nil
	} else if wait > 0 {
		l.c.Queue.AddAfter(key, wait)
		return nil
	}
	var before []metav1.Condition
	if e != nil {
		before = e.conditions
	}
	o, err := Record(n, before, facts.At(now))
	if err != nil {
		return err
	}
	o.Status.Refusals = refusals
	stored, err := l.c.Records.Apply(ctx, o)
	if err != nil && !l.c.Leads() {
		return nil // the leader writes its own
	}
	l.mu.Lock()
	l.trouble = ""
	if err != nil {
		l.trouble = err.Error()
	}
	l.mu.Unlock()
	if err != nil {
		return fmt.Errorf("writing record %s/%s: %w", o.Namespace, o.Name, err)
	}
	next := &entry{uid: stored.UID, state: n.State, kept: kept, all: all, at: now, writes: 1, conditions: o.Status.Conditions}
	if e != nil {
		next.writes = e.writes + 1
	}
	l.mu.Lock()
	l.written[key] = next
	l.mu.Unlock()
	return nil
}

// wait is how long the next write may wait, and whether there is nothing to write.
func (e *entry) wait(state settle.State, kept map[uint64]bool, all uint64, now time.Time) (time.Duration, bool) {
	switch {
	case e == nil || e.at.IsZero() || e.state != state:
		return 0, false
	case e.all == all:
		return 0, true
	}
	pause := lazily
	if missing(e.kept, kept) {
		pause = min(2*time.Second*time.Duration(math.Pow(3, float64(min(e.writes, 10)-1))), slowest)
	}
	if missing(kept, e.kept) {
		pause = min(pause, time.Second<<min(e.writes, 5), rarest)
	}
	return max(0, pause-now.Sub(e.at)), false
}

// missing says whether something of one set is not in the other.
func missing(of, in map[uint64]bool) bool {
	for digest := range of {
		if !in[digest] {
			return true
		}
	}
	return false
}

// digests condense a note: what a restart must not lose of each pod, and everything.
func digests(n settle.Note, refusals []v1alpha1.RefusalSummary) (kept map[uint64]bool, all uint64) {
	kept = make(map[uint64]bool, len(n.Pods)+len(n.Proven))
	h, each := fnv.New64a(), fnv.New64a()
	put := func(h hash.Hash, parts ...string) {
		for _, p := range parts {
			_, _ = h.Write([]byte(p))
			_, _ = h.Write([]byte{0})
		}
	}
	keep := func() {
		kept[each.Sum64()] = true
		_, _ = h.Write(each.Sum(nil))
		each.Reset()
	}
	for i := range n.Pods {
		p := &n.Pods[i]
		put(each, string(p.History.Pod.UID))
		if p.Said.Verdict == nodeproof.Unproven {
			put(each, string(p.Said.Reason))
			if p.History.Anchored.Known() {
				put(each, "anchored")
			}
		}
		for j := range p.History.Runs {
			r := &p.History.Runs[j]
			put(each, string(r.NodeUID), r.Machine.SystemUUID, r.Machine.MachineID, r.Boot)
			if r.Proof != nil {
				put(each, string(r.Proof.Reason))
			}
			if r.TaintStale {
				put(each, "stale")
			}
			if r.TakenOver {
				put(each, "taken")
			}
			if r.Unsure {
				put(each, "unsure")
			}
		}
		keep()
	}
	for i := range n.Proven {
		put(each, "proven", string(n.Proven[i].History.Pod.UID))
		keep()
	}
	put(h, string(n.State), n.WaitingFor, fmt.Sprint(n.Alive, n.Unproven, n.Gone, len(n.Findings)))
	for _, f := range n.Findings {
		put(h, f.Cause, f.Message, fmt.Sprint(f.Until))
	}
	for _, r := range refusals {
		put(h, r.Reason, r.Message, fmt.Sprint(r.Objects, r.More))
	}
	return kept, h.Sum64()
}
