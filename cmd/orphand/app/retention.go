package app

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/restmapper"
	"k8s.io/utils/clock"

	"github.com/orphand/orphand/pkg/access"
	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/informers"
	"github.com/orphand/orphand/pkg/metrics"
	"github.com/orphand/orphand/pkg/queue"
	"github.com/orphand/orphand/pkg/retention"
	"github.com/orphand/orphand/pkg/settle"
	"github.com/orphand/orphand/pkg/signals"
	"github.com/orphand/orphand/pkg/sweep"
)

const (
	// policyEvery is how often the policy's file is read: a ConfigMap's volume changes without a word.
	policyEvery = 5 * time.Second
	// stateEvery is how often it is looked whether every watch that decisions need has come to something.
	stateEvery = 100 * time.Millisecond
	// touchDelay gathers changes of verdicts on one job's pods.
	touchDelay = 50 * time.Millisecond
	// flushTimeout is how long the last write may take at a stop.
	flushTimeout = 2 * time.Second
)

// retainer keeps a policy in force: it reads the file when that changes, watches what the policy is for, and has a sweeper
// carry it out. A file with a mistake changes nothing but what is said of it.
type retainer struct {
	options  Options
	clock    clock.WithTicker
	sink     signals.Sink
	recorder *metrics.Recorder
	clients  informers.Clients
	engine   *settle.Engine
	force    enforcement
	live     *sweep.Kube
	store    *sweep.ConfigMapStore
	// ready says that what the engine knows of pods can be relied upon.
	ready func() bool
	queue *queue.Queue[sweep.Key]
	noise *noise
	// announce takes what is to be told in the cluster as well; nil for nothing.
	announce func(signals.Event)

	mu sync.Mutex
	// seen is the file that was looked at last; refused is what is wrong with it.
	seen    string
	refused error
	// hindered is why what is in force is not what the file and the namespaces say now; wrong is what is wrong with the
	// rules that namespaces bring, by namespace.
	hindered error
	wrong    map[string]string
	// base is the file's policy and digest its identity; brought is that of what is in force, with what namespaces bring.
	base            *retention.Policy
	digest, brought string
	// watches serve the sweeper until stop is called.
	policy  *retention.Policy
	sweeper *sweep.Sweeper
	watches []*informers.Watcher
	stop    func()
	states  map[string]informers.State
}

func newRetainer(options Options, clients informers.Clients, clk clock.WithTicker, sink signals.Sink, recorder *metrics.Recorder, engine *settle.Engine, force enforcement, ready func() bool) *retainer {
	r := &retainer{options: options, clock: clk, sink: sink, recorder: recorder, clients: clients, engine: engine, force: force, ready: ready,
		noise: newNoise(clk), states: map[string]informers.State{}, stop: func() {}}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(clients.Kube.Discovery()))
	r.live = &sweep.Kube{Core: clients.Kube, Dynamic: clients.Dynamic, Metadata: clients.Metadata, Mapper: mapper, Clock: clk}
	r.store = &sweep.ConfigMapStore{Client: clients.Kube, Namespace: options.LeaseNS, Leads: force.leads}
	r.queue = queue.New(queue.Options[sweep.Key]{Name: "retention", Clock: clk, Workers: options.Workers, Metrics: recorder.Queues(), OnFailure: r.failed})
	return r
}

func (r *retainer) close() { r.queue.ShutDown() }

// run keeps the file's policy in force until ctx ends.
func (r *retainer) run(ctx context.Context) error {
	if r.options.RetentionPolicy == "" {
		return nil
	}
	var working sync.WaitGroup
	var stuck error
	working.Go(func() { stuck = r.queue.Run(ctx, r.sync) })
	ticker := r.clock.NewTicker(policyEvery)
	defer ticker.Stop()
	for {
		r.load()
		r.put(ctx)
		select {
		case <-ctx.Done():
			working.Wait() // the watches end after the workers
			r.flush(ctx)
			r.stop()
			return stuck
		case <-ticker.C():
		}
	}
}

// flush stores what was removed just now, while this process still leads.
func (r *retainer) flush(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	if s := r.current(); s != nil {
		if err := s.Flush(ctx); err != nil {
			r.sink.Emit(signals.Event{Code: signals.WorkFailed, Reason: err.Error()})
		}
	}
}

func (r *retainer) sync(ctx context.Context, k sweep.Key) error {
	ctx, cancel := context.WithTimeout(ctx, turnTimeout)
	defer cancel()
	if s := r.current(); s != nil {
		return s.Sync(ctx, k)
	}
	return nil
}

func (r *retainer) current() *sweep.Sweeper {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sweeper
}

// touch has the policy's word on a TrainJob asked again, a little later: the verdicts on its pods change together.
func (r *retainer) touch(uid types.UID) {
	if uid != "" && r.options.RetentionPolicy != "" {
		r.queue.AddAfter(sweep.Key{UID: uid}, touchDelay)
	}
}

// again has everything decided anew: whether this process may write has changed.
func (r *retainer) again() {
	if s := r.current(); s != nil {
		s.Again()
	}
}

// load reads the file when it has changed.
func (r *retainer) load() {
	data, err := os.ReadFile(r.options.RetentionPolicy)
	sum := sha256.Sum256(data)
	digest := "sha256:" + hex.EncodeToString(sum[:])
	if err != nil {
		digest = err.Error()
	}
	if digest == r.seen {
		return
	}
	r.seen = digest
	var policy *retention.Policy
	var problems retention.Problems
	if err == nil {
		policy, problems = retention.Load(data)
		err = problems.Err()
	}
	r.recorder.Policy(err == nil)
	r.mu.Lock()
	was := r.refused
	r.refused = err
	r.recorder.PolicyRefused(r.refused != nil || r.hindered != nil)
	r.mu.Unlock()
	if err != nil {
		r.tell(r.refusal(err))
		return
	}
	if was != nil {
		r.tell(signals.Event{Code: signals.PolicyRefused, Phase: signals.Ended, Message: "The retention policy is good again.",
			Attrs: []signals.Attr{{Key: "file", Value: r.options.RetentionPolicy}}})
	}
	if digest == r.digest {
		return // back to the one that is in force
	}
	r.mu.Lock()
	r.digest, r.base, r.brought = digest, policy, ""
	r.mu.Unlock()
	var warnings string
	for _, w := range problems.Warnings() {
		warnings += w.String() + "; "
	}
	r.sink.Emit(signals.Event{Code: signals.PolicyLoaded, Reason: warnings, Attrs: []signals.Attr{{Key: "file", Value: r.options.RetentionPolicy},
		{Key: "digest", Value: digest}, {Key: "rules", Value: policy.Rules()}, {Key: "dryRun", Value: policy.DryRun()}}})
}

// put puts the file's policy in force, with the rules that namespaces bring where it lets them, when either has changed.
func (r *retainer) put(ctx context.Context) {
	if r.base == nil {
		return
	}
	policy, digest := r.base, r.digest
	if r.base.NamespacePolicies() != "" {
		files, err := r.namespaces(ctx)
		if err != nil {
			// What is in force stays: without a namespace's rules its objects could go that it keeps.
			r.hinder(fmt.Errorf("reading the rules that namespaces bring: %w", err))
			return
		}
		for _, namespace := range slices.Sorted(maps.Keys(files)) {
			digest += "\n" + namespace + "\n" + string(files[namespace])
		}
		if digest == r.brought {
			r.hinder(nil)
			return
		}
		var problems map[string]retention.Problems
		policy, problems = r.base.WithNamespaces(files)
		r.judged(problems)
	}
	if digest == r.brought {
		return
	}
	err := r.enforce(ctx, policy)
	r.hinder(err)
	if err == nil {
		r.brought = digest
	}
}

// hinder takes note of what keeps the present policy from being in force; nil when nothing does.
func (r *retainer) hinder(err error) {
	r.mu.Lock()
	was := r.hindered
	r.hindered = err
	r.recorder.PolicyRefused(r.refused != nil || r.hindered != nil)
	r.mu.Unlock()
	switch {
	case err != nil && was == nil:
		r.tell(r.refusal(err))
	case err == nil && was != nil:
		r.tell(signals.Event{Code: signals.PolicyRefused, Phase: signals.Ended, Message: "The retention policy can be put in force again.",
			Attrs: []signals.Attr{{Key: "file", Value: r.options.RetentionPolicy}}})
	}
}

// judged tells of the namespaces whose rules have mistakes, once for each and mistake.
func (r *retainer) judged(problems map[string]retention.Problems) {
	wrong := map[string]string{}
	about := func(namespace string) signals.Event {
		return signals.Event{Code: signals.PolicyRefused, Phase: signals.Ended, Namespace: namespace, Message: "The rules that a namespace brings have no mistakes any more.",
			Attrs: []signals.Attr{{Key: "file", Value: namespace + "/" + r.base.NamespacePolicies()}}}
	}
	for _, namespace := range slices.Sorted(maps.Keys(problems)) {
		e := about(namespace)
		e.Phase, e.As, e.Reason = signals.Started, signals.Warn, oneLine(problems[namespace].Error())
		e.Message = "The rules that a namespace brings have mistakes: none of them counts, and its objects stay for as long as the limits allow."
		if wrong[namespace] = e.Reason; r.wrong[namespace] != e.Reason {
			r.sink.Emit(e)
		}
	}
	for _, namespace := range slices.Sorted(maps.Keys(r.wrong)) {
		if wrong[namespace] == "" {
			r.sink.Emit(about(namespace))
		}
	}
	r.wrong = wrong
}

// refusal is the line on a policy that is not in force.
func (r *retainer) refusal(err error) signals.Event {
	return signals.Event{Code: signals.PolicyRefused, Phase: signals.Started, Reason: oneLine(err.Error()),
		Attrs: []signals.Attr{{Key: "file", Value: r.options.RetentionPolicy}}}
}

// tell tells of the policy in the log and, by announce, in the cluster.
func (r *retainer) tell(e signals.Event) {
	r.sink.Emit(e)
	if r.announce != nil {
		r.announce(e)
	}
}

// standing is what is wrong with the policy now, for who comes to lead: what was told before, only the log has.
func (r *retainer) standing() (signals.Event, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := cmp.Or(r.refused, r.hindered); err != nil {
		return r.refusal(err), true
	}
	return signals.Event{}, false
}

// namespaces reads the rules that namespaces bring.
func (r *retainer) namespaces(ctx context.Context) (map[string][]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, turnTimeout)
	defer cancel()
	list, err := r.clients.Kube.CoreV1().ConfigMaps(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		FieldSelector: "metadata.name=" + r.base.NamespacePolicies(), ResourceVersion: "0"})
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for i := range list.Items {
		m := &list.Items[i]
		if m.Namespace == access.Namespace {
			continue
		}
		if text, ok := m.Data[retention.NamespaceKey]; ok {
			files[m.Namespace] = []byte(text)
		} else {
			files[m.Namespace] = nil
		}
	}
	return files, nil
}

// enforce puts a policy in force. Where it reads objects as the one before it did, the watches stay.
func (r *retainer) enforce(ctx context.Context, p *retention.Policy) error {
	if r.policy != nil && r.policy.Reading() == p.Reading() && slices.Equal(names(r.policy.Kinds()), names(p.Kinds())) && r.policy.PodStages() == p.PodStages() {
		r.mu.Lock()
		r.policy = p
		r.mu.Unlock()
		r.sweeper.SetPolicy(p)
		return nil
	}
	r.stop()
	config := r.options.sweep(r.force, r.engine, p)
	config.Queue, config.Live, config.Notices, config.Store = r.queue, r.live, r.live, r.store
	next := sweep.New(config)
	if r.sweeper != nil {
		next = r.sweeper.Remembering(config)
		r.sweeper.End()
	}
	watches, err := r.watch(next, p)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	for _, w := range watches {
		running.Go(func() { w.Run(ctx) })
	}
	running.Go(func() { r.begin(ctx, next, watches) })
	r.mu.Lock()
	r.policy, r.sweeper, r.watches, r.stop = p, next, watches, func() { cancel(); running.Wait() }
	r.mu.Unlock()
	return nil
}

func names(kinds []*retention.Kind) []string {
	var list []string
	for _, k := range kinds {
		list = append(list, k.GroupResource())
	}
	return list
}

// watch makes the watches of a policy: its kinds, and the pods of those whose pods nobody else tells of.
func (r *retainer) watch(s *sweep.Sweeper, p *retention.Policy) ([]*informers.Watcher, error) {
	var watches []*informers.Watcher
	pods := map[string]bool{}
	for _, k := range p.Kinds() {
		w, err := informers.NewWatcher(r.clients.Dynamic, r.clock, informers.Watch{
			Name: watchName(k.Name), Resources: k.Resources(), Handler: s.ObjectHandlers(k),
			Read: func(u *unstructured.Unstructured) facts.Record { return p.Read(k, u) }},
			func(st informers.Status) {
				s.SetUnserved(k, st.State == informers.Absent)
				r.changed(st)
			})
		if err != nil {
			return nil, err
		}
		watches = append(watches, w)
		selector := k.PodSelector()
		if pods[selector] || k.Kind == facts.KindTrainJob && !p.PodStages() {
			continue
		}
		pods[selector] = true
		w, err = informers.NewPodWatcher(r.clients.Kube, r.clock, watchName("pods of "+k.Name), k.PodLabel, podJob(k), s.PodHandlers(selector),
			func(st informers.Status) {
				s.SetBlind(selector, st.State != informers.Watching)
				r.changed(st)
			})
		if err != nil {
			return nil, err
		}
		watches = append(watches, w)
		s.SetBlind(selector, true)
	}
	return watches, nil
}

// watchName tells these watches from those that follow TrainJobs.
func watchName(kind string) string { return "retention/" + kind }

// podJob names the object of the kind that a pod is of.
func podJob(k *retention.Kind) func(*corev1.Pod) string {
	return func(p *corev1.Pod) string {
		if k.PodLabel != "" {
			return p.Labels[k.PodLabel]
		}
		for _, o := range p.OwnerReferences {
			if o.Kind == k.Kind && groupOfVersion(o.APIVersion) == k.Group {
				return o.Name
			}
		}
		return ""
	}
}

func groupOfVersion(apiVersion string) string {
	for i := range apiVersion {
		if apiVersion[i] == '/' {
			return apiVersion[:i]
		}
	}
	return ""
}

// begin starts decisions once every watch has come to something: it is there, or known not to be.
func (r *retainer) begin(ctx context.Context, s *sweep.Sweeper, watches []*informers.Watcher) {
	ticker := r.clock.NewTicker(stateEvery)
	defer ticker.Stop()
	for !r.ready() || slices.ContainsFunc(watches, func(w *informers.Watcher) bool {
		st := w.Status()
		return st.State == informers.Syncing || st.State == informers.Failing && !st.Synced
	}) {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
	}
	s.Begin()
}

// changed takes note of a watch's new state.
func (r *retainer) changed(s informers.Status) {
	r.mu.Lock()
	from := r.states[s.Kind]
	r.states[s.Kind] = s.State
	r.mu.Unlock()
	if from == s.State {
		return
	}
	e := signals.Event{Code: signals.KindStateChanged, Time: s.Since, From: string(from), State: string(s.State), Reason: s.Reason,
		Message: s.Kind + " is " + string(s.State) + ".", Attrs: []signals.Attr{{Key: "kind", Value: s.Kind}}}
	if s.State == informers.Forbidden {
		e.As = signals.Warn
	}
	r.sink.Emit(e)
}

// failed says what goes wrong with an object again and again, without repeating itself.
func (r *retainer) failed(failure queue.Failure[sweep.Key]) {
	code, attrs := signals.WorkFailed, []signals.Attr{{Key: "attempt", Value: failure.Attempt}}
	if failure.Stack != nil {
		r.recorder.Panic()
		code = signals.WorkPanicked
		attrs = append(attrs, signals.Attr{Key: "stack", Value: string(failure.Stack)})
	} else if failure.Attempt < worthALine {
		return
	}
	leftOut, ok := r.noise.admit(string(code))
	if !ok {
		return
	}
	if leftOut > 0 {
		attrs = append(attrs, signals.Attr{Key: "repeated", Value: leftOut})
	}
	r.sink.Emit(signals.Event{Code: code, UID: string(failure.Key.UID), Reason: failure.Err.Error(), Attrs: attrs})
}

// checks are retention's lines of /readyz. None of them makes a replica unready: it follows jobs all the same.
func (r *retainer) checks() []check {
	if r.options.RetentionPolicy == "" {
		return nil
	}
	list := []check{{name: "retention/policy", ask: func() (string, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		switch {
		case r.refused != nil && r.policy != nil:
			return "refused, the last good one is in force: " + oneLine(r.refused.Error()), nil
		case r.refused != nil:
			return "refused, none is in force: " + oneLine(r.refused.Error()), nil
		case r.hindered != nil && r.policy != nil:
			return "not in force yet, the one before it is: " + oneLine(r.hindered.Error()), nil
		case r.hindered != nil:
			return "not in force yet: " + oneLine(r.hindered.Error()), nil
		case r.policy == nil:
			return "not read yet", nil
		}
		return fmt.Sprintf("%s, %d rules", r.digest, len(r.policy.Rules())), nil
	}}}
	list = append(list, check{name: "retention/removals", ask: func() (string, error) {
		s := r.current()
		switch {
		case s == nil:
			return "not read yet", nil
		case s.Trouble() != "":
			return s.Trouble(), nil
		}
		return "kept in ConfigMap " + r.store.Namespace + "/" + sweep.StoreName, nil
	}})
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.watches {
		list = append(list, check{name: w.Status().Kind, ask: func() (string, error) {
			s := w.Status()
			text := string(s.State) + " since " + s.Since.UTC().Format(time.RFC3339)
			if s.Reason != "" {
				text += ": " + s.Reason
			}
			return text, nil
		}})
	}
	return list
}

// stuck says that work on an object has hung for too long, or nil.
func (r *retainer) stuck() error {
	if longest := r.queue.LongestInWork(); longest > stuckAfter {
		return errors.New("work on one object of the retention policy has hung for " + longest.Round(time.Second).String())
	}
	return nil
}
