package app

import (
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	fakediscovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"github.com/orphand/orphand/api/v1alpha1"
	"github.com/orphand/orphand/pkg/access"
	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/reap"
)

// served is a cluster that serves everything but the resources left out, and allows everything but what refuse names.
func served(t *testing.T, without []string, refuse func(authorizationv1.ResourceAttributes) bool) *fake.Clientset {
	t.Helper()
	client := fake.NewClientset()
	groups := map[string]*metav1.APIResourceList{}
	var lists []*metav1.APIResourceList
	for _, c := range access.Calls() {
		if slices.Contains(without, c.Resource) || c.Resource == "podgroups" {
			continue
		}
		version := schema.GroupVersion{Group: c.Group, Version: c.Version}.String()
		if groups[version] == nil {
			groups[version] = &metav1.APIResourceList{GroupVersion: version}
			lists = append(lists, groups[version])
		}
		groups[version].APIResources = append(groups[version].APIResources, metav1.APIResource{Name: c.Resource})
	}
	client.Discovery().(*fakediscovery.FakeDiscovery).Resources = lists
	client.PrependReactor("create", "selfsubjectaccessreviews", func(a ktesting.Action) (bool, runtime.Object, error) {
		review := a.(ktesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview)
		review.Status.Allowed = !refuse(*review.Spec.ResourceAttributes)
		return true, review, nil
	})
	return client
}

func nothing(authorizationv1.ResourceAttributes) bool { return false }

func TestCheckFindsNothingMissingWhereEverythingIsServedAndAllowed(t *testing.T) {
	options := DefaultOptions()
	options.Mode, options.LeaderElect, options.LeaseNS = modeEnforce, true, "orphand"
	report, err := inspect(t.Context(), served(t, nil, nothing), options)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := report.print(&text); err != nil {
		t.Fatal(err)
	}
	if !report.Complete || !strings.HasSuffix(text.String(), "Nothing is missing.\n") || strings.Contains(text.String(), "MISSING") {
		t.Error(text.String())
	}
}

func TestCheckPrintsTheLinesToAddForWhatIsNotAllowed(t *testing.T) {
	options := DefaultOptions()
	options.LeaderElect, options.LeaseNS, options.LeaseName = true, "here", "mine"
	report, err := inspect(t.Context(), served(t, nil, func(a authorizationv1.ResourceAttributes) bool {
		return a.Resource == "nodes" && a.Verb == "watch" || a.Resource == "leases" && a.Namespace == "here" && a.Name == "mine"
	}), options)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := report.print(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"MISSING  watch on nodes in all namespaces: Nodes carry the evidence",
		"\nAdd to the rules of ClusterRole orphand-observe, and bind it:\n",
		"\n- apiGroups: [\"\"]\n  resources: [nodes]\n  verbs: [watch]\n",
		"\nAdd to the rules of Role orphand-election, and bind it:\n",
		"\n- apiGroups: [coordination.k8s.io]\n  resources: [leases]\n  resourceNames: [mine]\n  verbs: [get, list, watch, update]\n",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	if report.Complete || strings.Contains(text.String(), "Nothing is missing") || strings.Contains(text.String(), "delete on") {
		t.Error(text.String())
	}
}

func TestCheckNamesTheCureForAKindThatIsNotServed(t *testing.T) {
	report, err := inspect(t.Context(), served(t, []string{"orphans", "orphans/status"}, nothing), DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(report.Kinds, func(k KindFound) bool { return !k.OK })
	if report.Complete || at < 0 || report.Kinds[at].Resource != "orphans.orphand.dev" || !strings.Contains(report.Kinds[at].Cure, "manifests/base/crds") {
		t.Errorf("%+v", report.Kinds)
	}
}

func TestTheTableOfCallsHoldsEveryKindThatTheProgramNames(t *testing.T) {
	has := func(r schema.GroupVersionResource, verb string) bool {
		return slices.ContainsFunc(access.Calls(), func(c access.Call) bool {
			return c.Group == r.Group && c.Version == r.Version && c.Resource == r.Resource && slices.Contains(c.Verbs, verb)
		})
	}
	for _, r := range []schema.GroupVersionResource{facts.TrainJobs, facts.TrainingRuntimes, v1alpha1.Orphans} {
		if !has(r, "watch") {
			t.Errorf("no watch on %v", r)
		}
	}
	for _, k := range reap.Kinds() {
		// A TrainJob is deleted only by who asks for it, under their own permissions.
		if k.Kind != facts.KindTrainJob && !has(k.Resource, "delete") {
			t.Errorf("no delete on %v", k.Resource)
		}
	}
}
