package reap

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/nodeproof"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// Config is what a Reaper works with. Only API is needed.
type Config struct {
	API API
	// Clock is the machine's when nil.
	Clock clock.WithTicker
	// Proof are the delays of the rule; nodeproof.Defaults when zero.
	Proof nodeproof.Options
	// Quiet is how long after a TrainJob was seen gone late children are waited for; 5 s when zero.
	Quiet time.Duration
	// RuntimeCopies selects the TrainingRuntimes that are an adapter's copies for one TrainJob each. Without it, one that
	// no TrainJob owns is taken for an administrator's and is not found.
	RuntimeCopies labels.Selector
	// Records tells of pods whose objects were gone before this process looked; nil for nobody.
	Records Records
	// Gate is asked immediately before each DELETE and stops it with an error; nil lets all pass.
	Gate func() error
	// Recorder counts; nil for nobody.
	Recorder Recorder
}

// Records knows what nobody can find any more by looking: whose the JobSets were that are gone, and what the pods ran on
// whose objects are gone.
type Records interface {
	// Recorded lists what was recorded of every incarnation of the name; of every name and namespace where these are empty.
	Recorded(ctx context.Context, namespace, name string) ([]Recorded, error)
}

// Recorded is what was recorded of one job.
type Recorded struct {
	Job     facts.JobKey
	JobSets []types.UID
	// Pods are those that were not Gone when the record was written. The caller gives them away.
	Pods []*nodeproof.History
	// Attestations are people's words, by the UID of the Node or pod.
	Attestations map[types.UID]nodeproof.Attestation
}

// Reaper finds and stops jobs. It is safe for concurrent use.
type Reaper struct {
	c       Config
	deleter *Deleter
}

// New makes a Reaper.
func New(c Config) *Reaper {
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	if c.Proof == (nodeproof.Options{}) {
		c.Proof = nodeproof.Defaults()
	}
	if c.Quiet == 0 {
		c.Quiet = 5 * time.Second
	}
	return &Reaper{c: c, deleter: NewDeleter(c.API, c.Clock, c.Gate, c.Recorder)}
}

// Find lists every remain of a job by live reads: of the incarnation that the key names or, without a UID, of all
// incarnations of the name; without a name, of all jobs in the namespace, and without a namespace, in the cluster.
//
// Remains of which nobody can tell the incarnation any more count for every incarnation that is gone. Kinds that the API
// does not serve are left out. It fails when anything that could start or be a process cannot be read.
func (r *Reaper) Find(ctx context.Context, job facts.JobKey) ([]Remain, error) {
	w := newWitness(r.c.API, r.c.Clock, r.c.Proof)
	l := newLineage(r.c.RuntimeCopies)
	return r.find(ctx, job, w, l)
}

func (r *Reaper) find(ctx context.Context, job facts.JobKey, w *witness, l *lineage) ([]Remain, error) {
	// The records first: a pod that is on one and not in the snapshot was there before it was taken.
	if err := r.recall(ctx, job.Namespace, job.Name, w, l); err != nil {
		return nil, err
	}
	s, err := takeSnapshot(ctx, r.c.API, job.Namespace, job.Name, nil)
	if err != nil {
		return nil, err
	}
	list := l.relate(s)
	there := map[types.UID]bool{}
	for _, p := range s.pods {
		w.sees(p.Pod, true)
		there[p.UID] = true
	}
	for _, uid := range w.uids() {
		if !there[uid] {
			w.misses(uid, nil)
		}
	}
	if err := w.judge(ctx); err != nil {
		return nil, err
	}
	for i := range list {
		if list[i].Ref.Kind == facts.KindPod {
			w.describe(&list[i])
		}
	}
	for _, uid := range w.uids() {
		if there[uid] {
			continue
		}
		if v, ok := l.vanished(w, uid); ok && v.Verdict != nodeproof.Gone {
			list = append(list, v)
		}
	}
	sortRemains(list)
	return l.of(job, list), nil
}

// recall takes up what the records know.
func (r *Reaper) recall(ctx context.Context, namespace, name string, w *witness, l *lineage) error {
	if r.c.Records == nil {
		return nil
	}
	list, err := r.c.Records.Recorded(ctx, namespace, name)
	if err != nil {
		return fmt.Errorf("reading the records: %w", err)
	}
	for _, rec := range list {
		for _, uid := range rec.JobSets {
			if _, known := l.jobSets[uid]; !known && !rec.Job.Unknown() {
				l.jobSets[uid] = rec.Job
			}
		}
		w.recalls(rec)
	}
	return nil
}

// vanished is a pod whose object is gone, as a remain.
func (l *lineage) vanished(w *witness, uid types.UID) (Remain, bool) {
	p, _ := w.known(uid)
	key, ours := l.jobOfPod(p)
	if !ours {
		return Remain{}, false
	}
	r := l.remain(Target{podKind(), p.Ref()}, key, nil)
	r.Created, r.Node, r.Removed = p.Created, p.Node, true
	w.describe(&r)
	return r, true
}

// of keeps the remains that count for a job.
func (l *lineage) of(job facts.JobKey, list []Remain) []Remain {
	if job.UID == "" {
		return list
	}
	var mine []Remain
	for _, r := range list {
		if l.counts(job, r.Job) {
			mine = append(mine, r)
		}
	}
	return mine
}

// counts says whether remains of a job count for another one: its own do, and those that nobody can assign any more do
// for every incarnation that is gone.
func (l *lineage) counts(job, of facts.JobKey) bool {
	if job.UID == of.UID {
		return true
	}
	if job.Incarnations() != of.Incarnations() || l.trainJobs[job.UID] != nil {
		return false
	}
	return isRuntimeKey(of) || of.Unknown() && !job.Unknown() && !isRuntimeKey(job)
}

func isRuntimeKey(k facts.JobKey) bool {
	return len(k.UID) > len(RuntimePrefix) && string(k.UID[:len(RuntimePrefix)]) == RuntimePrefix
}

// Result is what a stop of one object came to.
type Result struct {
	Status Status
	Detail string
}

// ErrRefused: the object must not be deleted; the error's text says why.
var ErrRefused = errors.New("refused")

// Stop deletes one object instance, named by its UID. Gone and Replaced are both success: that instance is gone, and
// whatever has its name now is not touched. An object that somebody has asked to go is left alone (Terminating). One whose
// owner lives is refused with ErrRefused, since it would be made again: stop the owner.
//
// It makes one attempt: an error from the API server comes back with StatusFailed or StatusForbidden, and the same call may
// be made again.
func (r *Reaper) Stop(ctx context.Context, t Target) (Result, error) {
	order, err := NewOrder(t)
	if err != nil {
		return Result{}, err
	}
	o, err := r.c.API.Get(ctx, t.Kind, t.Namespace, t.Name)
	if err != nil {
		return failedBy(err), err
	}
	if res, over := standsAlready(t, o); over {
		return res, nil
	}
	in := newInspector(r.c.API, r.c.RuntimeCopies)
	in.far = newFar()
	s, err := in.stand(ctx, t, ownersOf(o), keeps(o), mirror(o), o.GetLabels())
	if err != nil {
		return failedBy(err), err
	}
	if reason, about := s.decide(); reason != "" {
		return Result{StatusFailed, said(reason, about)}, fmt.Errorf("%s is not deleted: %s: %w", t.Ref, said(reason, about), ErrRefused)
	}
	a, err := r.deleter.Send(ctx, order, CauseStop)
	if err != nil {
		return Result{StatusFailed, err.Error()}, err
	}
	if !a.Settled() && a.Outcome != Conflict {
		return failedBy(a.Err), a.Err
	}
	o, err = r.c.API.Get(ctx, t.Kind, t.Namespace, t.Name)
	if err != nil {
		return Result{StatusTerminating, "it was asked to go; whether it is gone could not be read: " + err.Error()}, nil
	}
	if res, over := standsAlready(t, o); over {
		r.deleter.Gone(t.UID)
		return res, nil
	}
	if a.Outcome == Conflict {
		return failedBy(a.Err), a.Err
	}
	r.deleter.Forget(t.UID) // nobody follows it from here
	return Result{StatusTerminating, ""}, nil
}

// standsAlready says what has become of an instance that needs no DELETE.
func standsAlready(t Target, o metav1.Object) (Result, bool) {
	switch {
	case o == nil:
		return Result{StatusGone, ""}, true
	case o.GetUID() != t.UID:
		return Result{StatusReplaced, "the name belongs to " + string(o.GetUID()) + ", which was not touched"}, true
	case o.GetDeletionTimestamp() != nil:
		return Result{StatusTerminating, heldDetail(o.GetFinalizers())}, true
	}
	return Result{}, false
}

func failedBy(err error) Result {
	if outcomeOf(err) == Forbidden {
		return Result{StatusForbidden, err.Error()}
	}
	return Result{StatusFailed, err.Error()}
}

// said is a reason in words.
func said(reason Reason, about string) string {
	text := reason.Meaning()
	if about != "" {
		text += ": " + about
	}
	return text
}

var _ metav1.Object = (*corev1.Pod)(nil)
