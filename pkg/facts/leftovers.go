package facts

import "k8s.io/apimachinery/pkg/types"

// Leftovers is what is left of a job whose TrainJob is gone, as far as the watches and the last live look tell.
type Leftovers struct {
	Job JobKey
	// Objects are the remains other than pods; Pods are the pods whose objects are there.
	Objects []*Object
	Pods    []*Pod
	// Whole says that Objects has the remains of unwatched kinds as well: what is not in it is gone.
	Whole bool
	// Elsewhere says that a TrainJob with the job's UID lives in another namespace: the owner references are wrong.
	Elsewhere bool
	// Misplaced are those whose own owner is there, in another namespace: their owner references are wrong, whatever job they
	// are of.
	Misplaced []types.UID
}
