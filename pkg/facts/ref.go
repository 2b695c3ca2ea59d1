package facts

import (
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Ref names one object instance the way orphand prints it: namespace/kind/name in lower case, with the UID apart.
type Ref struct {
	Namespace, Kind, Name string
	UID                   types.UID
}

// String is "<namespace>/<kind>/<name>", or "<kind>/<name>" for a cluster-scoped object.
func (r Ref) String() string {
	s := strings.ToLower(r.Kind) + "/" + r.Name
	if r.Namespace == "" {
		return s
	}
	return r.Namespace + "/" + s
}

// JobKey names one job: a TrainJob incarnation by namespace, name and UID. The same name with another UID is another
// job. A job whose TrainJob's UID cannot be known any more has the UID "jobset:<jobset-uid>".
type JobKey struct {
	Namespace, Name string
	UID             types.UID
}

// UnknownPrefix starts the identity of a job whose TrainJob was gone before anybody could learn its UID.
const UnknownPrefix = "jobset:"

// Unknown says whether the TrainJob's own UID is not known.
func (k JobKey) Unknown() bool { return strings.HasPrefix(string(k.UID), UnknownPrefix) }

// String is "<namespace>/<name>/<uid>".
func (k JobKey) String() string { return k.Namespace + "/" + k.Name + "/" + string(k.UID) }

// Incarnations names every job of one namespace and name, whatever its UID.
func (k JobKey) Incarnations() types.NamespacedName {
	return types.NamespacedName{Namespace: k.Namespace, Name: k.Name}
}
