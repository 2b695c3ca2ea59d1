package scenarios_test

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/orphand/orphand/e2e/cluster"
	"github.com/orphand/orphand/pkg/sweep"
)

// wrongDeletes lists what orphand, whoever ran it, should not have asked of the API server: a DELETE that is not of one UID,
// not in the background, or with a grace; and a write of anything but its own records, its Lease, its memory and inert runtimes.
func wrongDeletes(c *cluster.Cluster) ([]string, error) {
	writes, err := c.Writes()
	if err != nil {
		return nil, err
	}
	var wrong []string
	deletes := 0
	for _, w := range writes {
		if !strings.HasPrefix(w.UserAgent, "orphand/") {
			continue
		}
		say := func(format string, args ...any) {
			wrong = append(wrong, fmt.Sprintf("%s of %s %s by %s: ", w.Verb, w.Resource, w.NamespacedName, w.User)+fmt.Sprintf(format, args...))
		}
		o := w.Options
		switch w.Verb {
		case "delete":
			deletes++
			if o == nil || o.Preconditions == nil || o.Preconditions.UID == nil || *o.Preconditions.UID == "" {
				say("names no UID")
			} else if o.PropagationPolicy == nil || *o.PropagationPolicy != metav1.DeletePropagationBackground {
				say("is not in the background")
			} else if o.GracePeriodSeconds != nil {
				say("has a grace of %d s", *o.GracePeriodSeconds)
			}
		case "deletecollection":
			say("must not be")
		case "patch", "update":
			memory := w.Resource == "configmaps" && w.Name == sweep.StoreName
			if w.Resource != "orphans" && w.Resource != "leases" && !memory {
				say("is no business of orphand's")
			}
		}
	}
	progress("audit: %d DELETEs by orphand, %d wrong", deletes, len(wrong))
	return wrong, nil
}
