package app

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/orphand/orphand/api/v1alpha1"
	"github.com/orphand/orphand/pkg/informers"
	"github.com/orphand/orphand/pkg/ledger"
)

// clusterFlags are kubectl's flags for a command that a person types: which cluster, and which namespace.
func clusterFlags(cmd *cobra.Command) *genericclioptions.ConfigFlags {
	flags := genericclioptions.NewConfigFlags(true)
	flags.Timeout = nil
	flags.CacheDir = nil
	flags.AddFlags(cmd.Flags())
	return flags
}

// session is a cluster and a namespace in it, as a person's kubeconfig and flags choose them.
type session struct {
	namespace string
	clients   informers.Clients
}

// openSession finds the cluster as kubectl does. Its errors name the cure.
func openSession(flags *genericclioptions.ConfigFlags) (*session, error) {
	config, err := loadCluster(flags)
	if err != nil {
		return nil, err
	}
	namespace, _, err := flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, usage("the kubeconfig's namespace cannot be used: %v", err)
	}
	options := DefaultOptions()
	options.KubeAPIQPS, options.KubeAPIBurst = 50, 100
	pool, err := newClients(config, options, userAgent(readBuildInfo()))
	if err != nil {
		return nil, err
	}
	clients, err := newAPIClients(pool)
	if err != nil {
		return nil, err
	}
	return &session{namespace: namespace, clients: clients}, nil
}

// name splits [NAMESPACE/]NAME.
func (s *session) name(arg string) (namespace, name string, err error) {
	namespace, name, found := strings.Cut(arg, "/")
	if !found {
		namespace, name = s.namespace, arg
	}
	if namespace == "" || name == "" || strings.Contains(name, "/") {
		return "", "", usage("%q: use NAME or NAMESPACE/NAME", arg)
	}
	return namespace, name, nil
}

// records reads the records of a namespace. served is false where the cluster has no records at all.
func (s *session) records(ctx context.Context, namespace string) (list []*v1alpha1.Orphan, version string, served bool, err error) {
	found, err := s.clients.Dynamic.Resource(v1alpha1.Orphans).Namespace(namespace).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil, "", false, nil
	}
	if err != nil {
		return nil, "", false, fmt.Errorf("listing the records of namespace %s: %w", namespace, err)
	}
	for i := range found.Items {
		o, err := ledger.FromUnstructured(&found.Items[i])
		if err != nil {
			return nil, "", true, fmt.Errorf("reading record %s/%s: %w", namespace, found.Items[i].GetName(), err)
		}
		list = append(list, o)
	}
	return list, found.GetResourceVersion(), true, nil
}
