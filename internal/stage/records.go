package stage

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/orphand/orphand/api/v1alpha1"
	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/ledger"
	"github.com/orphand/orphand/pkg/settle"
	"k8s.io/apimachinery/pkg/types"
)

// Records are the Orphan records that the API serves. They outlive every process.
type Records struct {
	stored map[types.NamespacedName]*v1alpha1.Orphan
	made   int
	// Writes counts the writes of each record, by namespace/name.
	Writes map[types.NamespacedName]int
}

// NewRecords makes an API without any record.
func NewRecords() *Records {
	return &Records{stored: map[types.NamespacedName]*v1alpha1.Orphan{}, Writes: map[types.NamespacedName]int{}}
}

// Apply satisfies ledger.Records.
func (r *Records) Apply(_ context.Context, o *v1alpha1.Orphan) (*v1alpha1.Orphan, error) {
	name := types.NamespacedName{Namespace: o.Namespace, Name: o.Name}
	have := r.stored[name]
	if have == nil {
		r.made++
		have = &v1alpha1.Orphan{TypeMeta: o.TypeMeta, ObjectMeta: o.ObjectMeta}
		have.UID = types.UID(fmt.Sprintf("record-%d", r.made))
		r.stored[name] = have
	}
	have.Spec.TrainJob = o.Spec.TrainJob
	have.Status = *o.Status.DeepCopy()
	r.Writes[name]++
	return have.DeepCopy(), nil
}

// Forget satisfies ledger.Records.
func (r *Records) Forget(_ context.Context, namespace, name string, uid types.UID) error {
	at := types.NamespacedName{Namespace: namespace, Name: name}
	if have := r.stored[at]; have != nil && have.UID == uid {
		delete(r.stored, at)
	}
	return nil
}

// List is every record, by namespace and name.
func (r *Records) List() []*v1alpha1.Orphan {
	list := make([]*v1alpha1.Orphan, 0, len(r.stored))
	for _, o := range r.stored {
		list = append(list, o.DeepCopy())
	}
	slices.SortFunc(list, func(a, b *v1alpha1.Orphan) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return list
}

// Recorded is the Build of a process that is the engine with its ledger, as `orphand run` puts them together.
//
// further complete what the engine is made from; each is told of the parts.
func Recorded(o settle.Options, records *Records, further ...func(Parts, *settle.Config)) func(Parts) Process {
	return func(p Parts) Process {
		r := &RecordedEngine{records: records}
		r.queue = NewQueue(p.Loop, compareJobs, func(k facts.JobKey) error { return r.ledger.Sync(context.Background(), k) })
		r.ledger = ledger.New(ledger.Config{Records: records, Queue: r.queue, Clock: p.Clock, Leads: p.Leads})
		c := settle.Config{Options: o, Clock: p.Clock, Live: p.Live, Queue: p.Queue, Sink: p.Sink, Recorder: p.Recorder,
			Ledger: r.ledger, Readers: 1}
		for _, f := range further {
			f(p, &c)
		}
		r.Engine = settle.New(c)
		r.ledger.Serve(r.Engine)
		return r
	}
}

// RecordedEngine is an engine with its ledger.
type RecordedEngine struct {
	*settle.Engine
	ledger  *ledger.Ledger
	queue   *Queue[facts.JobKey]
	records *Records
}

// Begin goes on from the records that are there. A damaged one is left out, as `orphand run` does, which also says so.
func (r *RecordedEngine) Begin() {
	for _, o := range r.records.List() {
		_ = r.ledger.Adopt(o)
	}
	r.ledger.Enable(true)
	r.KeepAll()
}

// End ends the writing.
func (r *RecordedEngine) End() { r.queue.Stop() }
