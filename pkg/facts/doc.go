// Package facts holds the small immutable records of what was observed in the cluster, and the transforms that make
// them from Kubernetes objects.
//
// A record is never changed once made: informer stores, memories and workers share it without a lock.
package facts
