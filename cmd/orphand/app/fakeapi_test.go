package app

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fakeAPI is an API server without objects: every watch begins with an empty list and then stays silent. Tests choose
// how it answers for each resource.
type fakeAPI struct {
	mu       sync.Mutex
	statuses map[string]int // by resource; 200 when absent
	cut      chan struct{}  // closed to end every watch
}

func newFakeAPI() *fakeAPI { return &fakeAPI{statuses: map[string]int{}, cut: make(chan struct{})} }

// answer sets how requests for a resource are answered from now on, and ends the watches that there are.
func (f *fakeAPI) answer(status int, resources ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range resources {
		f.statuses[r] = status
	}
	close(f.cut)
	f.cut = make(chan struct{})
}

func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resource := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	f.mu.Lock()
	status, found := f.statuses[resource]
	cut := f.cut
	f.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if found && status != http.StatusOK {
		w.WriteHeader(status)
		reason := map[int]metav1.StatusReason{401: metav1.StatusReasonUnauthorized, 403: metav1.StatusReasonForbidden, 404: metav1.StatusReasonNotFound}[status]
		_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
			Status: metav1.StatusFailure, Code: int32(status), Reason: reason, Message: fmt.Sprintf("%s: %d by the test", resource, status)})
		return
	}
	apiVersion, kind := typeOf(resource)
	switch query := r.URL.Query(); {
	case resource == "version":
		fmt.Fprint(w, `{"major":"1","minor":"37"}`)
	case query.Get("watch") == "":
		fmt.Fprintf(w, `{"kind":"%sList","apiVersion":%q,"metadata":{"resourceVersion":"1"},"items":[]}`, kind, apiVersion)
	default:
		if query.Get("sendInitialEvents") == "true" {
			fmt.Fprintf(w, `{"type":"BOOKMARK","object":{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"1","annotations":{"k8s.io/initial-events-end":"true"}}}}`+"\n", kind, apiVersion)
		}
		w.(http.Flusher).Flush()
		select {
		case <-cut:
		case <-r.Context().Done():
		}
	}
}

func typeOf(resource string) (apiVersion, kind string) {
	switch resource {
	case "pods":
		return "v1", "Pod"
	case "nodes":
		return "v1", "Node"
	case "configmaps":
		return "v1", "ConfigMap"
	case "jobsets":
		return "jobset.x-k8s.io/v1alpha2", "JobSet"
	case "trainjobs":
		return "trainer.kubeflow.org/v1alpha1", "TrainJob"
	default: // read as metadata
		return "meta.k8s.io/v1", "PartialObjectMetadata"
	}
}
