package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/orphand/orphand/pkg/access"
)

func newCheckCommand(streams Streams) *cobra.Command {
	options := DefaultOptions()
	cluster := newClusterFlags()
	var unreadable []string
	var output string
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Say what orphand run would miss in this cluster",
		Long: `check asks the cluster, with the credentials and the flags that run would have, which
kinds it serves and in which versions, and whether everything that run does in this mode
is permitted. It prints what is missing as lines to add to a manifest, and exits with 7
when something is.

	orphand check --mode enforce --as system:serviceaccount:orphand:orphand`,
		Args: noArguments,
	}
	own := pflag.NewFlagSet("check", pflag.ContinueOnError)
	options.AddFlags(own)
	collectProblems(own, &unreadable)
	cmd.Flags().AddFlagSet(own)
	cmd.Flags().StringVarP(&output, "output", "o", "", "json, or empty for text")
	cluster.AddFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		problems := append(unreadable, options.Validate()...)
		if output != "" && output != "json" {
			problems = append(problems, fmt.Sprintf("--output %q: use json, or leave it out", output))
		}
		found, err := loadCluster(cluster)
		if err != nil {
			problems = append(problems, err.Error())
		}
		if err := joinProblems(problems); err != nil {
			return err
		}
		if options.LeaseNS == "" {
			if options.LeaseNS = leaseNamespace(); options.LeaseNS == "" {
				options.LeaseNS = access.Namespace
			}
		}
		pool, err := newClients(found, options, userAgent(readBuildInfo()))
		if err != nil {
			return err
		}
		client, err := kubernetes.NewForConfigAndClient(pool.config, pool.http)
		if err != nil {
			return fmt.Errorf("making the client: %w", err)
		}
		report, err := inspect(cmd.Context(), client, options)
		if err != nil {
			return err
		}
		if report.Server, err = serverURL(found); err != nil {
			return err
		}
		if output == "json" {
			encoder := json.NewEncoder(streams.Out)
			encoder.SetIndent("", "  ")
			err = encoder.Encode(report)
		} else {
			err = report.print(streams.Out)
		}
		if err != nil {
			return err
		}
		if !report.Complete {
			return &failure{Code: ExitIncomplete, Said: true, err: fmt.Errorf("something is missing")}
		}
		return nil
	}
	cmd.AddCommand(newCheckPolicyCommand(streams))
	return cmd
}

// Inspection is what `orphand check` found. Its JSON is a public interface.
type Inspection struct {
	Server     string `json:"server"`
	Kubernetes string `json:"kubernetes"`
	// User is as whom was asked; empty where the cluster does not say.
	User string `json:"user,omitempty"`
	Mode string `json:"mode"`
	// Complete says that nothing is missing.
	Complete    bool              `json:"complete"`
	Kinds       []KindFound       `json:"kinds"`
	Permissions []PermissionFound `json:"permissions"`
	// Add holds, for each role, the rules that are missing from it, as lines of YAML.
	Add []RulesToAdd `json:"add,omitempty"`
}

// KindFound is a kind that orphand uses and how the cluster serves it.
type KindFound struct {
	Resource string `json:"resource"`
	Version  string `json:"version"`
	// Served lists the versions in which the cluster serves it.
	Served []string `json:"served"`
	OK     bool     `json:"ok"`
	// Cure is what to do where it is not.
	Cure string `json:"cure,omitempty"`
}

// PermissionFound is one permission and whether it is there.
type PermissionFound struct {
	Feature  string `json:"feature"`
	Verb     string `json:"verb"`
	Resource string `json:"resource"`
	// Namespace is empty for all namespaces.
	Namespace string `json:"namespace,omitempty"`
	Allowed   bool   `json:"allowed"`
	Why       string `json:"why"`
}

// RulesToAdd are rules for one role.
type RulesToAdd struct {
	Role  string `json:"role"`
	Rules string `json:"rules"`
}

// inspect asks the cluster for kinds, versions and permissions.
func inspect(ctx context.Context, client kubernetes.Interface, options Options) (*Inspection, error) {
	i := &Inspection{Mode: options.Mode, Complete: true}
	version, err := client.Discovery().ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("asking for the server's version: %w", err)
	}
	i.Kubernetes = version.GitVersion
	if me, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{}); err == nil {
		i.User = me.Status.UserInfo.Username
	}

	features := access.ForMode(options.Mode, options.LeaderElect)
	if options.RetentionPolicy != "" {
		features = append(features, access.Retention, access.Memory)
	}
	if options.MetricsAddress != "" {
		features = append(features, access.Guard)
	}
	calls := access.Of(features...)
	served := map[string]bool{}
	for _, c := range calls {
		key := c.Group + "/" + c.Resource
		if _, asked := served[key]; asked || strings.Contains(c.Resource, "/") {
			continue
		}
		kind, err := servedAs(client, c)
		if err != nil {
			return nil, err
		}
		served[key] = len(kind.Served) > 0
		if len(kind.Served) == 0 && optional(c) {
			continue
		}
		i.Kinds = append(i.Kinds, kind)
		i.Complete = i.Complete && kind.OK
	}
	for _, c := range calls {
		if !served[c.Group+"/"+strings.Split(c.Resource, "/")[0]] && optional(c) {
			continue
		}
		if c.Feature == access.Election && c.Name != "" {
			c.Name = options.LeaseName
		}
		if err := i.ask(ctx, client, c, options); err != nil {
			return nil, err
		}
	}
	return i, nil
}

// optional says that a cluster may well do without the kind.
func optional(c access.Call) bool {
	return c.Resource == "podgroups" || c.Feature == access.Retention && c.Spare
}

// servedAs finds the versions in which a resource is served.
func servedAs(client kubernetes.Interface, c access.Call) (KindFound, error) {
	kind := KindFound{Resource: c.String(), Version: c.Version}
	kind.Resource, _, _ = strings.Cut(kind.Resource, " ")
	groups, err := client.Discovery().ServerGroups()
	if err != nil {
		return kind, fmt.Errorf("asking for the API's groups: %w", err)
	}
	for _, g := range groups.Groups {
		if g.Name != c.Group {
			continue
		}
		for _, v := range g.Versions {
			list, err := client.Discovery().ServerResourcesForGroupVersion(v.GroupVersion)
			if apierrors.IsNotFound(err) {
				continue
			}
			if err != nil {
				return kind, fmt.Errorf("asking what %s serves: %w", v.GroupVersion, err)
			}
			if slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == c.Resource }) {
				kind.Served = append(kind.Served, v.Version)
			}
		}
	}
	kind.OK = slices.Contains(kind.Served, c.Version)
	switch {
	case kind.OK:
	case len(kind.Served) > 0:
		kind.Cure = fmt.Sprintf("this version of orphand speaks %s, the cluster %s: install a release of either that fits", c.Version, strings.Join(kind.Served, ", "))
	case c.Feature == access.Records:
		kind.Cure = "kubectl apply --server-side -f manifests/base/crds"
	case c.Group == "jobset.x-k8s.io":
		kind.Cure = "install JobSet, which Kubeflow Trainer needs"
	default:
		kind.Cure = "install Kubeflow Trainer, if this cluster should have it"
	}
	return kind, nil
}

// ask asks for each verb of the call, and notes the rule that would allow what is not allowed.
func (i *Inspection) ask(ctx context.Context, client kubernetes.Interface, c access.Call, options Options) error {
	spaces := []string{""}
	switch {
	case c.Feature.Namespaced():
		spaces = []string{options.LeaseNS}
	case c.Feature == access.Enforce && len(options.Namespaces) > 0 && !c.Implied:
		spaces = options.Namespaces
	}
	resource, sub, _ := strings.Cut(c.Resource, "/")
	missing := c
	missing.Verbs = nil
	for _, verb := range c.Verbs {
		lacking := false
		for _, namespace := range spaces {
			review, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
				Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
					Verb: verb, Group: c.Group, Version: c.Version, Resource: resource, Subresource: sub, Name: c.Name, Namespace: namespace}},
			}, metav1.CreateOptions{})
			if err != nil {
				return fmt.Errorf("asking whether %s on %s is allowed: %w", verb, c, err)
			}
			i.Permissions = append(i.Permissions, PermissionFound{Feature: string(c.Feature), Verb: verb, Resource: c.String(),
				Namespace: namespace, Allowed: review.Status.Allowed, Why: c.Why})
			lacking = lacking || !review.Status.Allowed
		}
		if lacking {
			missing.Verbs = append(missing.Verbs, verb)
		}
	}
	if len(missing.Verbs) == 0 {
		return nil
	}
	i.Complete = false
	role := access.RoleName(c.Feature)
	at := slices.IndexFunc(i.Add, func(r RulesToAdd) bool { return r.Role == role })
	if at < 0 {
		i.Add = append(i.Add, RulesToAdd{Role: role})
		at = len(i.Add) - 1
	}
	i.Add[at].Rules += missing.YAML()
	return nil
}

// print writes the report for people: what is missing first and last, so that it is not overlooked.
func (i *Inspection) print(w io.Writer) error {
	var b strings.Builder
	user := ""
	if i.User != "" {
		user = " as " + i.User
	}
	fmt.Fprintf(&b, "Kubernetes %s at %s%s, mode %s\n", i.Kubernetes, i.Server, user, i.Mode)
	for _, k := range i.Kinds {
		if k.OK {
			fmt.Fprintf(&b, "ok       %s is served as %s\n", k.Resource, k.Version)
		} else {
			fmt.Fprintf(&b, "MISSING  %s %s: %s\n", k.Resource, k.Version, k.Cure)
		}
	}
	allowed := 0
	for _, p := range i.Permissions {
		if p.Allowed {
			allowed++
			continue
		}
		fmt.Fprintf(&b, "MISSING  %s on %s %s: %s\n", p.Verb, p.Resource, inNamespace(p.Namespace), p.Why)
	}
	fmt.Fprintf(&b, "ok       %d of %d permissions\n", allowed, len(i.Permissions))
	for _, a := range i.Add {
		fmt.Fprintf(&b, "\nAdd to the rules of %s, and bind it:\n\n%s", a.Role, a.Rules)
	}
	if i.Complete {
		b.WriteString("Nothing is missing.\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
