package facts

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Discovery is how an API server says what it serves. client-go's discovery client is one.
type Discovery interface {
	ServerGroups() (*metav1.APIGroupList, error)
	ServerResourcesForGroupVersion(groupVersion string) (*metav1.APIResourceList, error)
}

// ServedOtherwise is an error when the resource is served in another version than the one that r names, or when nobody can
// tell; nil says that it is not served at all, so that there are no objects of it: they go before their CRD does. A version
// that an upgrade has dropped answers like a CRD that was removed, while the objects are there.
func ServedOtherwise(d Discovery, r schema.GroupVersionResource) error {
	groups, err := d.ServerGroups()
	if err != nil {
		return fmt.Errorf("asking whether %s is served in another version than %s: %w", r.GroupResource(), r.Version, err)
	}
	for _, g := range groups.Groups {
		if g.Name != r.Group {
			continue
		}
		for _, v := range g.Versions {
			if v.Version == r.Version {
				continue
			}
			served, err := d.ServerResourcesForGroupVersion(v.GroupVersion)
			if err != nil {
				return fmt.Errorf("asking whether %s is served as %s: %w", r.GroupResource(), v.Version, err)
			}
			for i := range served.APIResources {
				if served.APIResources[i].Name == r.Resource {
					return fmt.Errorf("%s is served as %s and no more as %s, which this orphand reads: use a version of orphand that knows it",
						r.GroupResource(), v.Version, r.Version)
				}
			}
		}
	}
	return nil
}
