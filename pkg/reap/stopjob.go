package reap

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/nodeproof"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// Trial says whether deletes are carried out.
type Trial string

// The trials.
const (
	ForReal     Trial = ""
	TryOnClient Trial = "client" // nothing is sent
	TryOnServer Trial = "server" // the API server checks each DELETE and carries none out
)

// StopOptions are the options of StopJob.
type StopOptions struct {
	// Timeout is how long to go on; 10 min when zero.
	Timeout time.Duration
	Trial   Trial
	// Confirm is asked before anything is deleted where the job's TrainJob is there, which is the one that its UID names; its
	// error ends StopJob. nil for nobody to ask.
	Confirm func(*facts.TrainJob) error
	// Progress is told how things stand after each look; nil for nobody. It must not change the report.
	Progress func(*Report)
}

// Errors of StopJob that ask for something else to be given.
var (
	// ErrNoSuchJob: neither a TrainJob nor any remain has the name.
	ErrNoSuchJob = errors.New("there is no such job, and nothing is left of one")
	// ErrAmbiguous: several incarnations have the name; the key needs a UID.
	ErrAmbiguous = errors.New("several jobs have this name")
	// ErrNotPermitted: a permission is missing without which a job could be left half stopped. Nothing was deleted.
	ErrNotPermitted = errors.New("not permitted")
)

// StopJob deletes a TrainJob and every remain of it, each under its own UID, and looks again until nothing is left and every
// pod is Gone, or the time is up. Without a UID the key means the only incarnation that there is.
//
// It deletes roots only: what a controller that lives would make again goes with its controller. The report says what
// became of each object. It is complete also when the time was up, or ctx ended; the error then is nil, or ctx's.
func (r *Reaper) StopJob(ctx context.Context, job facts.JobKey, o StopOptions) (*Report, error) {
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Minute
	}
	s := &stopping{
		Reaper: r, o: o, witness: newWitness(r.c.API, r.c.Clock, r.c.Proof), lineage: newLineage(r.c.RuntimeCopies),
		items: map[types.UID]*Item{}, far: newFar(), began: r.c.Clock.Now(), wake: make(chan struct{}, 1),
	}
	if err := s.identify(ctx, job); err != nil {
		return nil, err
	}
	t, err := s.root(ctx)
	if err != nil {
		return nil, err
	}
	if o.Trial != TryOnClient {
		if err := s.permitted(ctx, t != nil); err != nil {
			return nil, err
		}
	}
	if t != nil && o.Confirm != nil {
		if err := o.Confirm(t); err != nil {
			return nil, err
		}
		s.began = r.c.Clock.Now() // a person may take their time
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	if o.Trial == ForReal {
		s.watch(watching)
	}
	for n := 0; ; n++ {
		over, err := s.look(ctx)
		report := s.report()
		if o.Progress != nil {
			o.Progress(report)
		}
		switch {
		case ctx.Err() != nil:
			return report, ctx.Err()
		case err != nil && !transient(err):
			return report, err
		case over, o.Trial != ForReal && err == nil:
			return report, nil
		}
		left := o.Timeout - r.c.Clock.Since(s.began)
		if left <= 0 {
			report.TimedOut = true
			return report, nil
		}
		s.wait(ctx, min(pollPause(n), left))
	}
}

// pollPause is the pause after the n-th look.
func pollPause(n int) time.Duration {
	switch {
	case n < 4:
		return 500 * time.Millisecond
	case n < 30:
		return time.Second
	}
	return 5 * time.Second
}

// stopping is one StopJob under way.
type stopping struct {
	*Reaper
	o        StopOptions
	job      facts.JobKey
	trainJob *facts.TrainJob // its last known state; nil when it was never seen
	present  bool            // the TrainJob is there
	gone     time.Time       // when it was first seen to be gone
	began    time.Time
	witness  *witness
	lineage  *lineage
	items    map[types.UID]*Item
	far      *far
	services []string // names of headless Services that pods have told, for when these are gone
	wake     chan struct{}
	recalled time.Time // when the records were last read
}

// recallEvery is how often the records are read for people's words that were given meanwhile.
const recallEvery = 10 * time.Second

// identify finds the incarnation that is meant.
func (s *stopping) identify(ctx context.Context, job facts.JobKey) error {
	s.job = job
	if job.Namespace == "" || job.Name == "" {
		return errors.New("a job is named by namespace and name")
	}
	if job.UID != "" {
		return nil
	}
	found, err := s.find(ctx, job, s.witness, s.lineage)
	if err != nil {
		return err
	}
	keys := []facts.JobKey{}
	for _, t := range s.lineage.trainJobs {
		keys = append(keys, t.JobKey())
	}
	for _, k := range Incarnations(found) {
		if !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}
	key, err := onlyOne(keys, func(k facts.JobKey) bool { return s.lineage.trainJobs[k.UID] != nil })
	if err != nil {
		return fmt.Errorf("%s/%s: %w", job.Namespace, job.Name, err)
	}
	s.job = key
	return nil
}

// onlyOne picks the job that a name means. What nobody can assign to an incarnation goes with the one that is gone; a
// TrainJob that lives is never taken for the one whose leftovers are meant.
func onlyOne(keys []facts.JobKey, lives func(facts.JobKey) bool) (facts.JobKey, error) {
	var certain, assignable []facts.JobKey
	for _, k := range keys {
		switch {
		case isRuntimeKey(k):
		case k.Unknown():
			assignable = append(assignable, k)
		default:
			certain = append(certain, k)
		}
	}
	switch {
	case len(keys) == 0:
		return facts.JobKey{}, ErrNoSuchJob
	case len(keys) == 1:
		return keys[0], nil
	case len(certain) == 1 && (len(assignable) == 0 || !lives(certain[0])):
		return certain[0], nil
	case len(certain) == 0 && len(assignable) == 1:
		return assignable[0], nil
	}
	uids := make([]string, 0, len(keys))
	for _, k := range keys {
		uids = append(uids, string(k.UID))
	}
	return facts.JobKey{}, fmt.Errorf("%w, give the UID of one: %s", ErrAmbiguous, strings.Join(uids, ", "))
}

// root reads the job's TrainJob; nil when it is not there, whatever has its name.
func (s *stopping) root(ctx context.Context) (*facts.TrainJob, error) {
	o, err := s.c.API.Get(ctx, trainJobKind(), s.job.Namespace, s.job.Name)
	switch {
	case errors.Is(err, ErrNotServed):
		return nil, nil
	case err != nil:
		return nil, err
	case o == nil || o.GetUID() != s.job.UID:
		return nil, nil
	}
	return facts.FromTrainJob(o.(*unstructured.Unstructured))
}

// permitted asks for every permission without which the job could be left half stopped; with that to delete a TrainJob where
// there is one.
func (s *stopping) permitted(ctx context.Context, root bool) error {
	kinds := NeededKinds()
	if root {
		kinds = append(kinds, trainJobKind())
	}
	var missing []string
	for _, k := range kinds {
		yes, err := s.c.API.Allowed(ctx, "delete", k, s.job.Namespace)
		if err != nil {
			return err
		}
		if !yes {
			missing = append(missing, k.String())
		}
	}
	if missing != nil {
		return fmt.Errorf("delete on %s in namespace %s is %w; nothing was deleted", strings.Join(missing, " and "), s.job.Namespace, ErrNotPermitted)
	}
	return nil
}

// watch follows the job's pods beside the polling, and waits a little until it does.
func (s *stopping) watch(ctx context.Context) {
	watcher, ok := s.c.API.(Watcher)
	if !ok {
		return
	}
	synced := make(chan struct{})
	go watcher.WatchPods(ctx, s.job.Namespace, hasLabel(facts.LabelJobSetName, s.job.Name), Told{
		Changed: func(o metav1.Object, gone bool) {
			p := facts.FromPod(o.(*corev1.Pod))
			if !gone {
				s.witness.sees(p, false)
				return
			}
			s.witness.sees(p, false) // for a pod that nobody saw while it was there
			s.witness.misses(p.UID, p)
			select {
			case s.wake <- struct{}{}:
			default:
			}
		},
		Synced: func() { close(synced) },
	})
	timer := s.c.Clock.NewTimer(watchPatience)
	defer timer.Stop()
	select {
	case <-synced:
	case <-timer.C():
	case <-ctx.Done():
	}
}

// watchPatience is how long the first list of the watch may take before StopJob goes on without it.
const watchPatience = 10 * time.Second

// wait lets the time pass until the next look; the end of a pod ends it, after what may come with it.
func (s *stopping) wait(ctx context.Context, d time.Duration) {
	const together = 200 * time.Millisecond
	if !s.sleep(ctx, min(d, together), nil) || d <= together {
		return
	}
	s.sleep(ctx, d-together, s.wake)
}

func (s *stopping) sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	timer := s.c.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-wake:
	case <-timer.C():
	}
	return true
}

// look finds what there is, deletes what may be, and says whether the job is over.
func (s *stopping) look(ctx context.Context) (over bool, err error) {
	if now := s.c.Clock.Now(); s.recalled.IsZero() || now.Sub(s.recalled) >= recallEvery {
		if err := s.recall(ctx, s.job.Namespace, s.job.Name, s.witness, s.lineage); err != nil {
			return false, err
		}
		s.recalled = now
	}
	snap, err := takeSnapshot(ctx, s.c.API, s.job.Namespace, s.job.Name, s.services)
	if err != nil {
		return false, err
	}
	s.services = snap.services
	found := s.lineage.of(s.job, s.lineage.relate(snap))
	for _, p := range snap.pods {
		s.witness.sees(p.Pod, false)
	}
	if err := s.missing(ctx, snap); err != nil {
		return false, err
	}
	if err := s.witness.judge(ctx); err != nil {
		return false, err
	}
	s.seeRoot(snap)
	s.update(found, snap)
	s.delete(ctx, snap)
	return s.over(), nil
}

// missing reads the pods that a list no longer shows.
func (s *stopping) missing(ctx context.Context, snap *snapshot) error {
	listed := map[types.UID]bool{}
	for _, p := range snap.pods {
		listed[p.UID] = true
	}
	for _, uid := range s.witness.uids() {
		p, present := s.witness.known(uid)
		if listed[uid] || !present {
			continue
		}
		o, err := s.c.API.Get(ctx, podKind(), p.Namespace, p.Name)
		switch {
		case err != nil:
			return err
		case o == nil || o.GetUID() != uid:
			s.witness.misses(uid, nil)
		default:
			s.witness.sees(facts.FromPod(o.(*corev1.Pod)), false)
		}
	}
	return nil
}

// seeRoot takes note of what became of the TrainJob.
func (s *stopping) seeRoot(snap *snapshot) {
	s.present = false
	for _, t := range snap.trainJobs {
		if t.UID == s.job.UID {
			s.trainJob, s.present = t, true
		}
	}
	if s.present {
		s.gone = time.Time{}
	} else if s.gone.IsZero() {
		s.gone = s.c.Clock.Now()
	}
	if s.trainJob == nil {
		return
	}
	it := s.item(Remain{Target: Target{trainJobKind(), s.trainJob.Ref()}, Job: s.job})
	it.Created, it.Deletion, it.Keep, it.HeldBy, it.Removed = s.trainJob.Created, s.trainJob.Deletion, s.trainJob.Keep, nil, !s.present
	if it.Terminating() {
		it.HeldBy = s.trainJob.Finalizers
	}
}

func (s *stopping) item(r Remain) *Item {
	it := s.items[r.UID]
	if it == nil {
		it = &Item{Remain: r}
		s.items[r.UID] = it
	}
	return it
}

// update brings the items up to date with what was found.
func (s *stopping) update(found []Remain, snap *snapshot) {
	there := map[types.UID]bool{}
	for _, r := range found {
		s.item(r).Remain = r
		there[r.UID] = !r.Removed
	}
	// Pods whose objects are gone, those included that came and went between two looks.
	for _, uid := range s.witness.uids() {
		if there[uid] || s.items[uid] != nil {
			continue
		}
		if v, ok := s.lineage.vanished(s.witness, uid); ok && s.lineage.counts(s.job, v.Job) {
			s.item(v)
		}
	}
	names := map[Target]bool{}
	for _, o := range snap.objects {
		names[nameOf(Target{o.kind, o.Ref()})] = true
	}
	for _, p := range snap.pods {
		names[nameOf(Target{podKind(), p.Ref()})] = true
	}
	for _, t := range snap.trainJobs {
		names[nameOf(Target{trainJobKind(), t.Ref()})] = true
	}
	for uid, it := range s.items {
		if it.Ref.Kind != facts.KindTrainJob {
			it.Removed = !there[uid]
		}
		if it.Ref.Kind == facts.KindPod {
			s.witness.describe(&it.Remain)
		}
		if it.Removed {
			s.deleter.Gone(uid)
		}
		it.Status, it.Detail = statusOf(it, names[nameOf(it.Target)])
	}
	if t := s.trainJob; t != nil && t.ManagedBy != "" && !s.present {
		it := s.items[t.UID]
		it.Status, it.Detail = StatusUnproven, "managed by "+t.ManagedBy+": it ran in another cluster, and nothing can be known of its processes here"
	}
}

func nameOf(t Target) Target {
	t.UID = ""
	return t
}

// statusOf says what became of an object, before any word of the API server's on deleting it. taken: its name is another's.
func statusOf(it *Item, taken bool) (Status, string) {
	if it.Ref.Kind == facts.KindPod {
		switch it.Verdict {
		case nodeproof.Unproven:
			return StatusUnproven, ""
		case nodeproof.Alive:
			return StatusTerminating, heldDetail(it.HeldBy)
		}
	}
	switch {
	case it.Removed && taken:
		return StatusReplaced, "the name belongs to another instance, which was not touched"
	case it.Removed:
		return StatusGone, ""
	}
	return StatusTerminating, heldDetail(it.HeldBy)
}

// heldDetail names the finalizers that somebody else must lift.
func heldDetail(finalizers []string) string {
	if len(finalizers) == 0 {
		return ""
	}
	return "held by finalizer " + strings.Join(finalizers, ", ")
}

// delete sends what may be sent now, roots first.
func (s *stopping) delete(ctx context.Context, snap *snapshot) {
	alive := map[types.UID]bool{}
	for _, t := range snap.trainJobs {
		alive[t.UID] = true
	}
	labelled := map[types.UID]map[string]string{}
	for _, o := range snap.objects {
		alive[o.UID] = true
		labelled[o.UID] = o.Labels
	}
	in := newInspector(s.c.API, s.c.RuntimeCopies)
	in.far = s.far.again()
	for _, it := range s.sorted() {
		if it.Removed || it.Terminating() || ctx.Err() != nil {
			continue
		}
		if root := livingOwner(it.owners, alive); root != "" && !it.Keep {
			it.Detail = "goes with " + root
			continue
		}
		st, err := in.stand(ctx, it.Target, it.owners, it.Keep || s.keptBelow(it), it.mirror, labelled[it.UID])
		if err != nil {
			it.Detail = err.Error()
			continue
		}
		if reason, about := st.decide(); reason != "" {
			if reason == OwnerLives {
				it.Detail = "goes with " + about
			} else {
				it.Status, it.Detail = StatusFailed, said(reason, about)
			}
			continue
		}
		if s.o.Trial == TryOnClient {
			it.Detail = "would be deleted"
			continue
		}
		s.send(ctx, it)
	}
}

func livingOwner(owners []facts.Owner, alive map[types.UID]bool) string {
	for _, o := range owners {
		if alive[o.UID] {
			return lower(o.Kind) + "/" + o.Name
		}
	}
	return ""
}

// keptBelow says whether something that would go with the object is to be kept.
func (s *stopping) keptBelow(root *Item) bool {
	for _, it := range s.items {
		if it.Keep && !it.Removed && s.under(it, root.UID, 5) {
			return true
		}
	}
	return false
}

func (s *stopping) under(it *Item, root types.UID, depth int) bool {
	for _, o := range it.owners {
		if o.UID == root {
			return true
		}
		if up := s.items[o.UID]; up != nil && depth > 0 && s.under(up, root, depth-1) {
			return true
		}
	}
	return false
}

// send deletes one object, or says why it could not be.
func (s *stopping) send(ctx context.Context, it *Item) {
	order, err := NewOrder(it.Target)
	if err != nil {
		it.Status, it.Detail = StatusFailed, err.Error()
		return
	}
	if s.o.Trial == TryOnServer {
		order = order.Tried()
	}
	a, err := s.deleter.Send(ctx, order, CauseStop)
	switch {
	case err != nil:
		it.Status, it.Detail = StatusFailed, err.Error()
	case a.Settled() && s.o.Trial == TryOnServer:
		it.Detail = "would be deleted, says the API server"
	case a.Settled(), a.Outcome == Conflict, a.Outcome == "":
	case a.Outcome == Forbidden:
		it.Status, it.Detail = StatusForbidden, a.Err.Error()
	default:
		it.Status, it.Detail = StatusFailed, fmt.Sprintf("attempt %d: %v", a.Attempts, a.Err)
	}
}

func (s *stopping) sorted() []*Item {
	list := make([]*Item, 0, len(s.items))
	for _, it := range s.items {
		list = append(list, it)
	}
	slices.SortFunc(list, func(a, b *Item) int { return compareTargets(a.Target, b.Target) })
	return list
}

// over says whether there is nothing more to wait for: nothing is left and late children have had their time, or nothing
// that is left can be helped.
func (s *stopping) over() bool {
	left, hopeless := 0, 0
	for _, it := range s.items {
		switch {
		case it.blocks():
			left++
			if it.Status == StatusForbidden || it.Status == StatusFailed && !s.pausing(it.UID) {
				hopeless++
			}
		}
	}
	if left > 0 {
		return left == hopeless
	}
	return !s.present && s.c.Clock.Since(s.gone) >= s.c.Quiet
}

// pausing says whether another attempt will be made.
func (s *stopping) pausing(uid types.UID) bool {
	_, last := s.deleter.Due(uid)
	return !last.Next.IsZero()
}

func (s *stopping) report() *Report {
	r := &Report{Job: s.job, DryRun: s.o.Trial != ForReal, Elapsed: s.c.Clock.Since(s.began)}
	for _, it := range s.sorted() {
		r.Items = append(r.Items, *it)
	}
	return r
}
