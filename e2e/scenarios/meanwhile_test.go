package scenarios_test

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/orphand/orphand/e2e/cluster"
)

// onceEach fails if the user asked for one UID twice.
func (s *scene) onceEach(user string) {
	s.t.Helper()
	seen := map[string]int{}
	for _, w := range s.deletesOf(user) {
		if w.Code < 300 {
			seen[string(*w.Options.Preconditions.UID)]++
		}
	}
	for uid, n := range seen {
		if n > 1 {
			s.t.Errorf("%s was deleted %d times by %s", uid, n, user)
		}
	}
}

func TestStopCountsWhatOthersDeleteMeanwhileAsGone(t *testing.T) {
	t.Parallel()
	s := open(t)
	user := s.stopper("stop-amid")
	grace := int64(15)
	job, pods := s.run(cluster.TrainJobSpec{Name: "amid", On: []string{s.node("amid-0").Name, s.node("amid-1").Name}, IgnoreSIGTERM: true, GraceSeconds: &grace})
	background := metav1.DeletePropagationBackground
	options := metav1.DeleteOptions{PropagationPolicy: &background}
	// From above and from below: the JobSet just before stop comes, the pods while it waits for them.
	s.ok(s.c.Dynamic().Resource(cluster.JobSets).Namespace(job.Namespace).Delete(t.Context(), job.Name, options))
	done := make(chan stopped)
	go func() { done <- s.stop(user, job.Name, "-n", job.Namespace, "--uid", string(job.UID)) }()
	s.gone(cluster.TrainJobs, job.Namespace, job.Name)
	for _, p := range pods {
		if err := s.c.Client().CoreV1().Pods(p.Namespace).Delete(t.Context(), p.Name, options); err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	}
	err := s.c.Dynamic().Resource(cluster.TrainingRuntimes).Namespace(job.Namespace).Delete(t.Context(), job.Name, options)
	if err != nil && !apierrors.IsNotFound(err) {
		t.Error(err)
	}
	r := <-done
	if r.code != 0 || r.TimedOut {
		t.Errorf("stop ended with %d: %s", r.code, r.errors)
	}
	for _, it := range r.Items {
		if it.Status != "Gone" {
			t.Errorf("%s is %s: %s", it.Reference, it.Status, it.Detail)
		}
	}
	for _, p := range pods {
		s.dead(p)
	}
	s.onceEach("stop-amid")
	s.settles(job)
}

// doorkeeper is an admission webhook that lets nobody delete the JobSet of a name, until it has refused one user for some
// times.
type doorkeeper struct {
	user string
	left int

	mu      sync.Mutex
	refused int
}

func (d *doorkeeper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
		http.Error(w, fmt.Sprint("no AdmissionReview: ", err), http.StatusBadRequest)
		return
	}
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	d.mu.Lock()
	if d.left > 0 {
		review.Response.Allowed = false
		review.Response.Result = &metav1.Status{Message: "the door is shut", Code: http.StatusForbidden}
		if review.Request.UserInfo.Username == d.user {
			d.left--
			d.refused++
		}
	}
	d.mu.Unlock()
	review.Request = nil
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(&review)
}

// guard has the doorkeeper asked about each DELETE of JobSets of a name.
func (s *scene) guard(name string, d *doorkeeper) {
	s.t.Helper()
	server := httptest.NewTLSServer(d)
	s.t.Cleanup(server.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	fail, none, exact := registrationv1.Fail, registrationv1.SideEffectClassNone, registrationv1.Exact
	hooks := s.c.Client().AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err := hooks.Create(s.t.Context(), &registrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "doorkeeper-" + name},
		Webhooks: []registrationv1.ValidatingWebhook{{
			Name: "doorkeeper.test.orphand.dev", FailurePolicy: &fail, SideEffects: &none, MatchPolicy: &exact, AdmissionReviewVersions: []string{"v1"},
			ClientConfig:    registrationv1.WebhookClientConfig{URL: &server.URL, CABundle: authority},
			MatchConditions: []registrationv1.MatchCondition{{Name: "this-one", Expression: `request.name == "` + name + `"`}},
			Rules: []registrationv1.RuleWithOperations{{Operations: []registrationv1.OperationType{registrationv1.Delete},
				Rule: registrationv1.Rule{APIGroups: []string{"jobset.x-k8s.io"}, APIVersions: []string{"*"}, Resources: []string{"jobsets"}}}},
		}}}, metav1.CreateOptions{})
	s.ok(err)
	s.t.Cleanup(func() {
		if err := hooks.Delete(s.afterwards(), "doorkeeper-"+name, metav1.DeleteOptions{}); err != nil {
			s.t.Error(err)
		}
	})
	s.inForce(name, "the door is shut")
}

func TestStopOutlastsAWebhookThatDeniesItTwice(t *testing.T) {
	t.Parallel()
	s := open(t)
	user := s.stopper("stop-hooked")
	job, pods := s.run(cluster.TrainJobSpec{Name: "hooked", On: []string{s.node("hooked-0").Name}})
	d := &doorkeeper{user: "stop-hooked", left: 2}
	s.guard(job.Name, d)
	r := s.stop(user, job.Name, "-n", job.Namespace, "--timeout", "90s")
	if r.code != 0 {
		t.Errorf("stop ended with %d: %s", r.code, r.errors)
	}
	denied, accepted := 0, 0
	for _, w := range s.deletesOf("stop-hooked") {
		switch {
		case w.Resource != "jobsets":
		case w.Code >= 400:
			denied++
		default:
			accepted++
		}
	}
	if d.refused != 2 || denied < 2 || accepted > 1 {
		t.Errorf("the webhook refused %d DELETEs of the JobSet; the audit log has %d refused and %d accepted", d.refused, denied, accepted)
	}
	s.dead(pods[0])
	s.settles(job)
}
