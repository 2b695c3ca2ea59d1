package sweep_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/sweep"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	clocktesting "k8s.io/utils/clock/testing"
)

// runs serves a kind of example.com in one version, which may change, with one object.
type runs struct{ version atomic.Value }

func (r *runs) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	v := r.version.Load().(string)
	var answer any
	switch req.URL.Path {
	case "/api":
		answer = metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions", APIVersion: "v1"}}
	case "/apis":
		served := metav1.GroupVersionForDiscovery{GroupVersion: "example.com/" + v, Version: v}
		answer = metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"},
			Groups: []metav1.APIGroup{{Name: "example.com", Versions: []metav1.GroupVersionForDiscovery{served}, PreferredVersion: served}}}
	case "/apis/example.com/" + v:
		answer = metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "example.com/" + v,
			APIResources: []metav1.APIResource{{Name: "runs", SingularName: "run", Namespaced: true, Kind: "Run", Verbs: metav1.Verbs{"get"}}}}
	case "/apis/example.com/" + v + "/namespaces/team-a/runs/r":
		answer = metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: "meta.k8s.io/v1"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "r", UID: "r"}}
	default:
		http.NotFound(w, req)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

// A CRD that was removed and installed again in a newer version: whatever it owns would be KEEP(owner unknown) for ever.
func TestAnOwnerIsFoundInTheVersionInWhichItsKindIsServedNow(t *testing.T) {
	server := &runs{}
	server.version.Store("v1")
	listener := httptest.NewServer(server)
	defer listener.Close()
	config := &rest.Config{Host: listener.URL}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discovery.NewDiscoveryClientForConfigOrDie(config)))
	clock := clocktesting.NewFakePassiveClock(start)
	kube := &sweep.Kube{Metadata: metadata.NewForConfigOrDie(config), Mapper: mapper, Clock: clock}
	owner := facts.Owner{Group: "example.com", Kind: "Run", Name: "r", UID: "r", Controller: true}
	there := func() (bool, error) { return kube.Owner(t.Context(), "team-a", owner) }

	if yes, err := there(); err != nil || !yes {
		t.Fatalf("it is not found: %v, %v", yes, err)
	}
	server.version.Store("v2")
	if yes, err := there(); err == nil {
		t.Fatalf("nobody can tell where v1 is served no more, and the answer is %v", yes)
	}
	clock.SetTime(start.Add(2 * time.Minute))
	if yes, err := there(); err != nil || !yes {
		t.Errorf("it is not found where it is served now: %v, %v", yes, err)
	}
}
