package app

import (
	"context"
	"fmt"
	"io"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/ledger"
	"github.com/orphand/orphand/pkg/nodeproof"
	"github.com/orphand/orphand/pkg/reap"
)

// recorded gives what finds and stops jobs the records of the cluster.
type recorded struct {
	*session
	warn io.Writer
	once sync.Once
}

// Recorded satisfies reap.Records. Records that are not served or may not be read are none: what is said then of pods
// whose objects are gone is less, never wrong.
func (r *recorded) Recorded(ctx context.Context, namespace, name string) ([]reap.Recorded, error) {
	records, _, _, err := r.records(ctx, namespace)
	if apierrors.IsForbidden(err) {
		r.once.Do(func() {
			fmt.Fprintln(r.warn, "warning: the records of orphand may not be read: pods whose objects are gone are not known")
		})
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []reap.Recorded
	for _, o := range records {
		if name != "" && o.Spec.TrainJob.Name != name {
			continue
		}
		note, err := ledger.Read(o)
		if err != nil {
			return nil, err
		}
		rec := reap.Recorded{Job: note.Job, JobSets: note.JobSets, Attestations: map[types.UID]nodeproof.Attestation{}}
		for i := range note.Pods {
			rec.Pods = append(rec.Pods, note.Pods[i].History)
		}
		for _, a := range o.Spec.Attestations {
			rec.Attestations[types.UID(a.UID)] = nodeproof.Attestation{By: a.By, Reason: a.Reason, At: facts.At(a.At.Time)}
		}
		list = append(list, rec)
	}
	return list, nil
}
