package reap_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/orphand/orphand/pkg/reap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// `orphand stop` would leave out what it cannot read, and report a job as stopped whose JobSet makes pods.
func TestJobSetsThatAreServedInAnotherVersionOnlyAreNotLeftOut(t *testing.T) {
	installed := true
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var answer any
		switch req.URL.Path {
		case "/api":
			answer = metav1.APIVersions{}
		case "/apis":
			answer = metav1.APIGroupList{Groups: []metav1.APIGroup{{Name: "jobset.x-k8s.io", Versions: []metav1.GroupVersionForDiscovery{{GroupVersion: "jobset.x-k8s.io/v9", Version: "v9"}}}}}
		case "/apis/jobset.x-k8s.io/v9":
			list := metav1.APIResourceList{GroupVersion: "jobset.x-k8s.io/v9"}
			if installed {
				list.APIResources = []metav1.APIResource{{Name: "jobsets"}}
			}
			answer = list
		default:
			http.NotFound(w, req)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
	}))
	defer server.Close()
	config := &rest.Config{Host: server.URL}
	kube := &reap.Kube{Core: kubernetes.NewForConfigOrDie(config), Metadata: metadata.NewForConfigOrDie(config)}
	jobSets, _ := reap.ParseKind("jobset")
	ask := func() map[string]error {
		_, got := kube.Get(t.Context(), jobSets, "team-a", "llm")
		_, listed := kube.List(t.Context(), jobSets, "team-a", labels.Everything())
		return map[string]error{"get": got, "list": listed}
	}
	for verb, err := range ask() {
		if err == nil || errors.Is(err, reap.ErrNotServed) || !strings.Contains(err.Error(), "served as v9") {
			t.Errorf("%s: %v", verb, err)
		}
	}
	installed = false
	for verb, err := range ask() {
		if !errors.Is(err, reap.ErrNotServed) {
			t.Errorf("%s without the CRD: %v", verb, err)
		}
	}
}
