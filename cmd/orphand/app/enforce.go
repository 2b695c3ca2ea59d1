package app

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/clock"

	"github.com/orphand/orphand/api/v1alpha1"
	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/ledger"
	"github.com/orphand/orphand/pkg/reap"
	"github.com/orphand/orphand/pkg/signals"
)

// runtimeCopies selects the adapter's runtime copies; nil when nobody says how they are marked: an empty selector would
// select every runtime of the cluster.
func (o *Options) runtimeCopies() (labels.Selector, error) {
	if o.RuntimeCopyLabels == "" {
		return nil, nil
	}
	s, err := labels.Parse(o.RuntimeCopyLabels)
	if err != nil || s.Empty() {
		return nil, err
	}
	return s, nil
}

// isRuntimeCopy says by its labels whether a runtime is an adapter's copy.
func (o *Options) isRuntimeCopy() func(map[string]string) bool {
	s, err := o.runtimeCopies()
	if err != nil || s == nil {
		return nil
	}
	return func(l map[string]string) bool { return s.Matches(labels.Set(l)) }
}

// cleans says whether orphans of the namespace may be deleted.
func (o *Options) cleans(namespace string) bool {
	if slices.Contains(o.ExcludeNamespaces, namespace) {
		return false
	}
	return len(o.Namespaces) == 0 || slices.Contains(o.Namespaces, namespace)
}

// enforcement is what a process needs to delete.
type enforcement struct {
	api      reap.API
	clock    clock.PassiveClock
	sink     signals.Sink
	recorder reap.Recorder
	// mode says whether anything is deleted in a namespace.
	mode func(namespace string) (reap.Reason, bool)
	// leads says whether this process may write, at the moment when it is asked.
	leads func() bool
	// refused is told of a job of which something is not deleted for another reason than before; nil for nobody.
	refused func(facts.JobKey)
	// deleter and brakes are one for everything that deletes.
	deleter *reap.Deleter
	brakes  *reap.Brakes
}

// gate is asked immediately before a write: a process that slept since it decided must not send what it decided.
func gate(leads func() bool) func() error {
	return func() error {
		if !leads() {
			return reap.ErrNotLeading
		}
		return nil
	}
}

// enforcement completes e with what sends deletes and what holds them back.
func (o *Options) enforcement(e enforcement) enforcement {
	e.deleter = reap.NewDeleter(e.api, e.clock, gate(e.leads), e.recorder)
	e.brakes = reap.NewBrakes(reap.BrakeOptions{MaxPerMinute: o.MaxDeletesPerMinute, MaxUnreachable: o.MaxUnreachable, Calm: o.Calm})
	return e
}

// forget deletes a record, which is orphand's own and no longer needed: in either mode, and by the same hand as all else.
func (e enforcement) forget(ctx context.Context, ref facts.Ref) error {
	order, err := reap.NewOrder(reap.Target{Kind: reap.Kind{Kind: ref.Kind, Resource: v1alpha1.Orphans}, Ref: ref})
	if err != nil {
		return err
	}
	if !e.leads() {
		return reap.ErrNotLeading
	}
	if err := e.api.Delete(ctx, order); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return err
	}
	return nil
}

// enforcer is what the flags ask of deleting, live or on a replayed history.
func (o *Options) enforcer(e enforcement) *reap.Enforcer {
	copies, _ := o.runtimeCopies()
	return reap.NewEnforcer(reap.EnforcerConfig{
		API: e.api, Clock: e.clock, Sink: e.sink, Recorder: e.recorder, Mode: e.mode, Leads: e.leads,
		Deleter:       e.deleter,
		Brakes:        e.brakes,
		Namespaces:    o.cleans,
		RuntimeCopies: copies,
		DryRun:        o.DryRun,
		Changed:       e.refused,
	})
}

// refusals lists for its record why what is left of a job is not deleted.
func refusals(e *reap.Enforcer) func(facts.JobKey) []ledger.Refusal {
	return func(job facts.JobKey) []ledger.Refusal {
		var list []ledger.Refusal
		for _, r := range e.Refusals(job) {
			list = append(list, ledger.Refusal{Object: r.Ref, Reason: string(r.Reason), Message: r.Words(), Since: facts.At(r.Since)})
		}
		return list
	}
}
