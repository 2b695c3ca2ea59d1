package app

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/orphand/orphand/pkg/signals"
)

// reviewers is an API that knows some tokens, and lets some users have some paths.
type reviewers struct {
	mu      sync.Mutex
	users   map[string]string // by token
	allowed []string          // "user path"
	err     error
	asked   int
}

func (r *reviewers) guard(clk *clocktesting.FakeClock, said *[]signals.Event) *guard {
	client := fake.NewClientset()
	client.PrependReactor("create", "tokenreviews", func(a ktesting.Action) (bool, runtime.Object, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.asked++
		review := a.(ktesting.CreateAction).GetObject().(*authenticationv1.TokenReview)
		review.Status.User.Username, review.Status.Authenticated = r.users[review.Spec.Token], r.users[review.Spec.Token] != ""
		review.Status.User.Groups = []string{"scrapers"}
		return true, review, r.err
	})
	client.PrependReactor("create", "subjectaccessreviews", func(a ktesting.Action) (bool, runtime.Object, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		review := a.(ktesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview)
		spec := review.Spec
		review.Status.Allowed = spec.NonResourceAttributes.Verb == "get" && spec.ResourceAttributes == nil && slices.Equal(spec.Groups, []string{"scrapers"}) &&
			slices.Contains(r.allowed, spec.User+" "+spec.NonResourceAttributes.Path)
		return true, review, nil
	})
	return newGuard(client, clk, signals.SinkFunc(func(e signals.Event) { *said = append(*said, e) }))
}

func TestTheMetricsAreForWhoeverTheClusterKnowsAndLetsHaveThem(t *testing.T) {
	api := &reviewers{users: map[string]string{"good": "prometheus", "other": "somebody"}, allowed: []string{"prometheus /metrics"}}
	clk := clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0))
	var said []signals.Event
	g := api.guard(clk, &said)
	inside := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("secret")) })
	get := func(path, authorization string) (int, string) {
		request := httptest.NewRequest("GET", path, nil)
		if authorization != "" {
			request.Header.Set("Authorization", authorization)
		}
		answer := httptest.NewRecorder()
		g.protect(inside).ServeHTTP(answer, request)
		if body := answer.Body.String(); answer.Code != http.StatusOK && strings.Contains(body, "secret") {
			t.Errorf("%s with %q: status %d, and yet %q", path, authorization, answer.Code, body)
		}
		return answer.Code, answer.Body.String()
	}
	for _, c := range []struct {
		path, authorization string
		status              int
	}{
		{"/metrics", "", 401},
		{"/metrics", "Basic good", 401},
		{"/metrics", "Bearer ", 401},
		{"/metrics", "Bearer unknown", 401},
		{"/metrics", "Bearer other", 403},
		{"/metrics", "Bearer good", 200},
		{"/metrics", "bearer good", 200},
		{"/debug/pprof/heap", "Bearer good", 403},
		{"/metrics/../debug/pprof/heap", "Bearer good", 403},
	} {
		if status, body := get(c.path, c.authorization); status != c.status {
			t.Errorf("%s with %q: status %d, want %d: %s", c.path, c.authorization, status, c.status, body)
		}
	}

	before := api.asked
	get("/metrics", "Bearer good")
	if api.asked != before {
		t.Error("asked again within the time that an answer stands")
	}
	api.allowed = nil
	clk.Step(guardRemembers + time.Second)
	if status, body := get("/metrics", "Bearer good"); status != 403 || !strings.Contains(body, "orphand-scrape") {
		t.Errorf("a permission that was taken away: status %d: %s", status, body)
	}
	if len(said) > 0 {
		t.Errorf("said %v", said)
	}
}

func TestNobodyIsLetInWhileTheApiCannotBeAskedAndThatIsSaidOnce(t *testing.T) {
	api := &reviewers{users: map[string]string{"good": "prometheus"}, allowed: []string{"prometheus /metrics"},
		err: apierrors.NewForbidden(schema.GroupResource{Group: "authentication.k8s.io", Resource: "tokenreviews"}, "", errors.New("no"))}
	var said []signals.Event
	g := api.guard(clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0)), &said)
	ask := func() (int, error) {
		request := httptest.NewRequest("GET", "/metrics", nil)
		request.Header.Set("Authorization", "Bearer good")
		return g.ask(request)
	}
	for range 3 {
		if status, err := ask(); err == nil {
			t.Errorf("status %d", status)
		}
	}
	if detail, err := g.check().ask(); err != nil || !strings.Contains(detail, "nobody is let in") {
		t.Errorf("/readyz says %q, %v", detail, err)
	}
	api.err = nil
	if status, err := ask(); status != 200 || err != nil {
		t.Errorf("once it answers again: %d, %v", status, err)
	}
	if len(said) != 2 || said[0].Code != signals.ReviewsFailed || said[0].Phase != signals.Started || said[1].Phase != signals.Ended {
		t.Fatalf("said %v", said)
	}
	if cure := said[0].Attrs[0]; cure.Key != "cure" || !strings.Contains(cure.Value.(string), "orphand-guard") {
		t.Errorf("the cure is %v", cure)
	}
}

func TestMadeUpTokensCannotMakeMoreReviewsThanTheLimit(t *testing.T) {
	api := &reviewers{}
	var said []signals.Event
	g := api.guard(clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0)), &said)
	// Whoever asks has no patience, so that what waits for its turn is refused and nothing else.
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	for n := range 10 * guardBurst {
		request := httptest.NewRequest("GET", "/metrics", nil).WithContext(ctx)
		request.Header.Set("Authorization", "Bearer "+strings.Repeat("x", n+1))
		_, _ = g.ask(request)
	}
	if api.asked > guardBurst+guardQPS {
		t.Errorf("%d reviews", api.asked)
	}
}

func TestProtectedMetricsAreAtTheirOwnAddressOnly(t *testing.T) {
	answer := func(status int) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
	}
	e := endpoints{metrics: answer(299), livez: answer(298), readyz: answer(297), pprof: true}
	get := func(h http.Handler, path string) int {
		recorded := httptest.NewRecorder()
		h.ServeHTTP(recorded, httptest.NewRequest("GET", path, nil))
		return recorded.Code
	}
	for path, want := range map[string]int{"/metrics": 299, "/livez": 298, "/readyz": 297, "/debug/pprof/cmdline": 200} {
		if got := get(e.open(), path); got != want {
			t.Errorf("without protection %s: %d, want %d", path, got, want)
		}
	}
	var said []signals.Event
	e.guard = (&reviewers{}).guard(clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0)), &said)
	for path, want := range map[string]int{"/metrics": 404, "/livez": 298, "/readyz": 297, "/debug/pprof/cmdline": 404} {
		if got := get(e.open(), path); got != want {
			t.Errorf("protected, at the open address %s: %d, want %d", path, got, want)
		}
		if got := get(e.protected(), path); got != 401 {
			t.Errorf("protected %s: %d, want 401", path, got)
		}
	}
}
