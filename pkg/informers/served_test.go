package informers_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/orphand/orphand/pkg/informers"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	jobsetclient "sigs.k8s.io/jobset/client-go/clientset/versioned"
)

// upgraded serves TrainJobs and JobSets as v9 only, or, without their CRDs, other resources of the same groups.
func upgraded(t *testing.T, installed bool) *rest.Config {
	resources := map[string]string{"trainer.kubeflow.org": "trainjobs", "jobset.x-k8s.io": "jobsets"}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var answer any
		group, version, _ := strings.Cut(strings.TrimPrefix(req.URL.Path, "/apis/"), "/")
		switch {
		case req.URL.Path == "/api":
			answer = metav1.APIVersions{}
		case req.URL.Path == "/apis":
			list := metav1.APIGroupList{}
			for g := range resources {
				list.Groups = append(list.Groups, metav1.APIGroup{Name: g, Versions: []metav1.GroupVersionForDiscovery{{GroupVersion: g + "/v9", Version: "v9"}}})
			}
			answer = list
		case resources[group] != "" && version == "v9":
			list := metav1.APIResourceList{GroupVersion: group + "/v9", APIResources: []metav1.APIResource{{Name: "others"}}}
			if installed {
				list.APIResources = append(list.APIResources, metav1.APIResource{Name: resources[group]})
			}
			answer = list
		default:
			http.NotFound(w, req) // as the API server answers for a path that it does not know
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}
}

// An upgrade that drops the version that orphand reads leaves every object there: that none is found in the old one must not
// make a job settled.
func TestAnObjectThatIsServedInAnotherVersionOnlyIsNotSaidToBeGone(t *testing.T) {
	for _, installed := range []bool{true, false} {
		config := upgraded(t, installed)
		live := informers.Live{Clients: informers.Clients{Kube: kubernetes.NewForConfigOrDie(config), JobSets: jobsetclient.NewForConfigOrDie(config),
			Dynamic: dynamic.NewForConfigOrDie(config)}}
		_, trainJob := live.TrainJob(t.Context(), "team-a", "llm")
		_, jobSet := live.JobSet(t.Context(), "team-a", "llm")
		for kind, err := range map[string]error{"trainjobs": trainJob, "jobsets": jobSet} {
			switch {
			case !installed && err != nil:
				t.Errorf("%s, whose CRD is not there: %v", kind, err)
			case installed && (err == nil || !strings.Contains(err.Error(), kind) || !strings.Contains(err.Error(), "served as v9")):
				t.Errorf("%s that are served as v9 are taken for gone: %v", kind, err)
			}
		}
	}
}
