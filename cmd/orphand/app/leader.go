package app

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/orphand/orphand/pkg/signals"
)

// leadership takes part in the election and tells what came of it. Observing needs no leader, so that nothing else
// waits for it: every replica keeps its caches warm and serves its metrics.
type leadership struct {
	options Options
	leases  coordination.LeasesGetter
	me      string
	sink    signals.Sink
	record  func(leads bool)
	// regained is told when this process may write again that led all the while, and was not sure of it; nil for nobody.
	regained func()
	fence    *fencedLock

	mu      sync.Mutex
	elector *leaderelection.LeaderElector
	// again calls the present attempt to lead off, so that the next one is made at once.
	again  context.CancelFunc
	leads  bool
	leader string
}

// The states of LeadershipChanged.
const (
	leading    = "Leading"
	standingBy = "StandingBy"
)

func newLeadership(options Options, leases coordination.LeasesGetter, sink signals.Sink, record func(bool)) (*leadership, error) {
	// Two processes on one host, or one restarted under the same name, must not take each other for themselves.
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("finding the host's name for the leader election: %w", err)
	}
	return &leadership{options: options, leases: leases, me: host + "_" + string(uuid.NewUUID()), sink: sink, record: record,
		fence: &fencedLock{clock: clock.RealClock{}}}, nil
}

// run stands for election until ctx ends, again whenever leadership was lost, and gives the Lease back at the end.
func (l *leadership) run(ctx context.Context) error {
	lease := &leaseWatch{me: l.me, least: l.options.LeaseDuration, clock: clock.RealClock{}, free: l.retry} // the elector's own clock
	l.fence.regained = func() {
		if l.regained != nil && l.Leads() {
			l.regained()
		}
	}
	l.fence.Interface = watchedLock{watch: lease, Interface: &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: l.options.LeaseNS, Name: l.options.LeaseName},
		Client:     l.leases,
		LockConfig: resourcelock.ResourceLockConfig{Identity: l.me},
	}}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Name:            l.options.LeaseName,
		Lock:            l.fence,
		LeaseDuration:   l.options.LeaseDuration,
		RenewDeadline:   l.options.RenewDeadline,
		RetryPeriod:     l.options.RetryPeriod,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: l.started,
			OnStoppedLeading: l.stopped,
			OnNewLeader: func(identity string) {
				l.mu.Lock()
				defer l.mu.Unlock()
				l.leader = identity
			},
		},
	})
	if err != nil {
		return fmt.Errorf("starting the leader election: %w", err)
	}
	l.mu.Lock()
	l.elector = elector
	l.mu.Unlock()
	// The elector tells at the default level what LeadershipChanged says. Its errors are not subject to levels.
	ctx = klog.NewContext(ctx, klog.Background().V(1))
	// The watch outlives the election: it ends when the Lease was given back.
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	var watches sync.WaitGroup
	watches.Go(func() { lease.run(watching, l.leases.Leases(l.options.LeaseNS), l.options.LeaseName) })
	defer watches.Wait()
	defer stop()
	for ctx.Err() == nil {
		attempt, again := context.WithCancel(ctx)
		l.mu.Lock()
		l.again = again
		l.mu.Unlock()
		elector.Run(attempt)
		again()
	}
	return nil
}

// retry has the Lease tried for now, and not when the elector next would.
func (l *leadership) retry() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.leads && !l.elector.IsLeader() && l.again != nil {
		l.again()
	}
}

// started runs in a goroutine of its own and may come after stopped; by then its context has ended.
func (l *leadership) started(ctx context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ctx.Err() == nil {
		l.change(true)
	}
}

func (l *leadership) stopped() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.change(false)
}

// change is called with the lock held. The elector says stopped even where leading never began.
func (l *leadership) change(leads bool) {
	if leads == l.leads {
		return
	}
	l.leads = leads
	l.record(leads)
	from, to := standingBy, leading
	if !leads {
		from, to = to, from
	}
	l.sink.Emit(signals.Event{Code: signals.LeadershipChanged, From: from, State: to,
		Attrs: []signals.Attr{{Key: "identity", Value: l.me}}})
}

// Leads says whether this process certainly leads at this moment, whatever the elector has noticed of it yet: it does not
// when another is known to hold the Lease, or when its own last renewal was begun as long ago as the renew deadline. Others
// wait for the lease duration, which is longer, so that what was begun last is over before the next leader begins.
func (l *leadership) Leads() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leads && l.elector.IsLeader() && l.fence.holds(l.options.RenewDeadline)
}

// check is a line of /readyz: who leads, never a reason not to be ready.
func (l *leadership) check() check {
	return check{name: "leadership", ask: func() (string, error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		switch {
		case l.leads:
			return "leading", nil
		case l.leader == "":
			return "standing by; no leader seen yet", nil
		default:
			return "standing by for " + l.leader, nil
		}
	}}
}

// alive is a line of /livez: a leader that neither renews nor steps down hangs. One that has stepped down, for want of
// an API server, is well.
func (l *leadership) alive() check {
	return check{name: "lease", ask: func() (string, error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if !l.leads {
			return "", nil
		}
		return "", l.elector.Check(l.options.LeaseDuration)
	}}
}

// leaseNamespace is the pod's own namespace, or "" outside a cluster.
func leaseNamespace() string {
	const file = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
