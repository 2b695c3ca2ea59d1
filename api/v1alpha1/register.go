package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of this API.
var GroupVersion = schema.GroupVersion{Group: "orphand.dev", Version: "v1alpha1"}

// Orphans is the resource of the records.
var Orphans = GroupVersion.WithResource("orphans")

// KindOrphan is the records' kind.
const KindOrphan = "Orphan"

// AddToScheme adds the types of this API to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &Orphan{}, &OrphanList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
