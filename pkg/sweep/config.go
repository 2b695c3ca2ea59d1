package sweep

import (
	"context"
	"time"

	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/reap"
	"github.com/orphand/orphand/pkg/retention"
	"github.com/orphand/orphand/pkg/signals"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// Key is one piece of work: an object or a pod by UID, the objects that keepLast may count together, or the release of
// what is due.
type Key struct {
	UID types.UID
	Pod bool
	// Group is a kind and a namespace.
	Group string
	// Release lets what is due go, as fast as the brakes allow.
	Release bool
	// Memory reads and stores what was removed.
	Memory bool
}

// Live reads the API server itself, not a cache.
type Live interface {
	// Object reads an object; nil with a nil error means that there is none.
	Object(ctx context.Context, k *retention.Kind, namespace, name string) (*unstructured.Unstructured, error)
	// Pod reads a pod; nil with a nil error means that there is none.
	Pod(ctx context.Context, namespace, name string) (*facts.Pod, error)
	// Owner says whether an owner is there, under the UID that the reference names. An error means that nobody can tell.
	Owner(ctx context.Context, namespace string, o facts.Owner) (present bool, err error)
}

// Pods knows the verdicts on the pods of TrainJobs.
type Pods interface {
	// PodsOf lists the pods of a job, those that vanished without proof among them; false when the job is not known yet.
	PodsOf(facts.JobKey) ([]retention.Pod, bool)
	// JobOf names the job that a pod is of, and says whether the pod is over; false when the pod is not known.
	JobOf(pod types.UID) (job facts.JobKey, over, known bool)
	// Keeps says whether anything between a TrainJob and its pods asks to be kept.
	Keeps(facts.JobKey) bool
}

// Queue is the work queue.
type Queue interface {
	Add(Key)
	AddAfter(Key, time.Duration)
}

// Deleter sends DELETEs. A *reap.Deleter is one.
type Deleter interface {
	Due(types.UID) (bool, reap.Answer)
	Send(context.Context, reap.Order, reap.Cause) (reap.Answer, error)
	Gone(types.UID)
}

// Brakes hold deletes back. *reap.Brakes are some.
type Brakes interface {
	// Take says why nothing may be deleted at now, or "" when one DELETE may be sent, and when to ask again.
	Take(now time.Time) (reap.Reason, time.Time)
}

// Recorder counts.
type Recorder interface {
	// Retention moves one object from one decision to another: verbs and reasons of package retention, "" for none.
	Retention(fromVerb, fromReason, toVerb, toReason string)
	// RetentionLateness is the time from when something was due, and could be known to be, to its DELETE.
	RetentionLateness(time.Duration)
	// Refused counts what is due and is not deleted, once for each object and reason.
	Refused(reason string)
	Finding(code string, started bool)
}

// Config is what a Sweeper works with.
type Config struct {
	Policy *retention.Policy
	Clock  clock.PassiveClock
	Live   Live
	// Pods are the verdicts on TrainJobs' pods.
	Pods    Pods
	Queue   Queue
	Deleter Deleter
	Brakes  Brakes
	// Notices make notices of deletions; nil for in the log alone. Notice is how long before, by rules that do not say so.
	Notices Notices
	Notice  time.Duration
	// MayDelete is the reason why nothing is deleted in a namespace, "" for none.
	MayDelete func(namespace string) reap.Reason
	// Leads says whether this process may write; nil for always.
	Leads func() bool
	// Store keeps what was removed over restarts; nil for in memory only.
	Store Store
	Sink  signals.Sink
	// Recorder counts; nil for nobody.
	Recorder Recorder
	// GCGrace is how long the garbage collector is given with an object whose owner is gone.
	GCGrace time.Duration
	// Share bounds what may go of a backlog.
	Share retention.Share
}

type uncounted struct{}

func (uncounted) Retention(_, _, _, _ string)     {}
func (uncounted) RetentionLateness(time.Duration) {}
func (uncounted) Refused(string)                  {}
func (uncounted) Finding(string, bool)            {}
