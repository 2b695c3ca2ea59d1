package ledger

import (
	"github.com/orphand/orphand/api/v1alpha1"
	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/nodeproof"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// Transform makes a typed record of what a dynamic watch delivers.
func Transform(obj any) (any, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return FromUnstructured(u)
	}
	return obj, nil
}

// Handlers keep the ledger informed of the records that are there, and the engine of what people vouch for.
func (l *Ledger) Handlers() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    l.see,
		UpdateFunc: func(_, obj any) { l.see(obj) },
		DeleteFunc: func(obj any) {
			if t, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = t.Obj
			}
			if o, ok := obj.(*v1alpha1.Orphan); ok {
				l.Gone(o)
			}
		},
	}
}

func (l *Ledger) see(obj any) {
	o, ok := obj.(*v1alpha1.Orphan)
	if !ok {
		return
	}
	l.Seen(o)
	l.vouch(o)
}

// vouch hands a record's attestations to the engine, and takes back those that are no longer on it. A word that was used
// already has become evidence, and evidence stays.
func (l *Ledger) vouch(o *v1alpha1.Orphan) {
	now := map[types.UID]nodeproof.Attestation{}
	for _, a := range o.Spec.Attestations {
		now[types.UID(a.UID)] = nodeproof.Attestation{By: a.By, Reason: a.Reason, At: facts.At(a.At.Time)}
	}
	key := recordKey{o.Namespace, o.Name}
	l.mu.Lock()
	before := l.vouched[key]
	if len(now) == 0 {
		delete(l.vouched, key)
	} else {
		l.vouched[key] = now
	}
	l.mu.Unlock()
	for uid, a := range now {
		if before[uid] != a {
			l.engine.Attest(uid, a)
		}
	}
	for uid := range before {
		if _, still := now[uid]; !still {
			l.engine.Unattest(uid)
		}
	}
}

type recordKey struct{ namespace, name string }
