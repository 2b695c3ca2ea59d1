package app

import (
	"context"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// standIn reads live what a person looks at who wants to know how orphand fares: the Lease that its replicas share, which
// outlives each of them; without an election its own pod; nil where it runs outside of the cluster.
func standIn(l *leadership, kube kubernetes.Interface) func(context.Context) (*corev1.ObjectReference, error) {
	return func(ctx context.Context) (*corev1.ObjectReference, error) {
		if l != nil {
			lease, err := l.leases.Leases(l.options.LeaseNS).Get(ctx, l.options.LeaseName, metav1.GetOptions{})
			if err != nil {
				return nil, fmt.Errorf("reading Lease %s/%s: %w", l.options.LeaseNS, l.options.LeaseName, err)
			}
			return &corev1.ObjectReference{APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Namespace: lease.Namespace, Name: lease.Name, UID: lease.UID}, nil
		}
		namespace := leaseNamespace()
		if namespace == "" {
			return nil, nil
		}
		name, err := os.Hostname() // a pod's, unless it has the host's network
		if err != nil {
			return nil, fmt.Errorf("finding the host's name: %w", err)
		}
		pod, err := kube.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("reading orphand's own pod %s/%s: %w", namespace, name, err)
		}
		return &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}, nil
	}
}
