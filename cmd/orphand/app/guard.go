package app

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"

	"github.com/orphand/orphand/pkg/signals"
)

const (
	// guardRemembers is how long an answer about a token stands: as long as Kubernetes' own components let it. A permission
	// that was taken away ends within it.
	guardRemembers = 10 * time.Second
	// guardAnswers is how many answers are remembered. Tokens that are made up push each other out, and one that is asked
	// about again costs a review.
	guardAnswers = 1024
	// guardPatience bounds one review, its turn included; Prometheus gives up after ten seconds by default.
	guardPatience = 8 * time.Second
	// guardQPS and guardBurst bound the reviews that whoever sends made-up tokens can make this process ask for.
	guardQPS, guardBurst = 10, 20
)

// guard lets a request through whose bearer token the Kubernetes API knows, and whose owner may get that path: the rule of
// RBAC for it is `nonResourceURLs: [/metrics], verbs: [get]`. It asks by TokenReview and SubjectAccessReview, as
// Kubernetes' own components do, so that whoever may scrape those may be let scrape this by the same means.
type guard struct {
	kube  kubernetes.Interface
	sink  signals.Sink
	turns flowcontrol.RateLimiter
	// answers are HTTP statuses by question. A question holds a token's digest and never the token, so that a dump of this
	// process's memory gives nobody's credentials away.
	answers *cache.LRUExpireCache

	mu sync.Mutex
	// trouble is why the last review could not be made; nil when it could.
	trouble error
}

// question is what the API is asked about.
type question struct {
	token      [sha256.Size]byte
	verb, path string
}

func newGuard(kube kubernetes.Interface, clk clock.PassiveClock, sink signals.Sink) *guard {
	return &guard{kube: kube, sink: sink, turns: flowcontrol.NewTokenBucketRateLimiter(guardQPS, guardBurst),
		answers: cache.NewLRUExpireCacheWithClock(guardAnswers, clk)}
}

// protect serves next to whoever may have it, and answers others with 401 (nobody known), 403 (known, and may not) or 503
// (the Kubernetes API could not be asked).
func (g *guard) protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, err := g.ask(r)
		switch {
		case err != nil:
			w.Header().Set("Retry-After", "5")
			http.Error(w, "whether you may read this cannot be asked now; see the log of orphand", http.StatusServiceUnavailable)
		case status == http.StatusUnauthorized:
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "send a bearer token that this cluster knows, such as a service account's", status)
		case status == http.StatusForbidden:
			http.Error(w, fmt.Sprintf("you may not %s %s: bind the ClusterRole orphand-scrape to whoever scrapes", verbOf(r), r.URL.Path), status)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// verbOf is the verb of a path that is no resource: the method, in lower case.
func verbOf(r *http.Request) string { return strings.ToLower(r.Method) }

// ask is the status that a request deserves. The error says that nobody could tell.
func (g *guard) ask(r *http.Request) (int, error) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return http.StatusUnauthorized, nil
	}
	q := question{token: sha256.Sum256([]byte(token)), verb: verbOf(r), path: r.URL.Path}
	if status, ok := g.answers.Get(q); ok {
		return status.(int), nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), guardPatience)
	defer cancel()
	status, err := g.review(ctx, q, token)
	if r.Context().Err() == nil { // Who has gone away says nothing of the API.
		g.note(err)
	}
	if err != nil {
		return 0, err
	}
	g.answers.Add(q, status, guardRemembers)
	return status, nil
}

// review asks the API who the token's owner is, and whether they may.
func (g *guard) review(ctx context.Context, q question, token string) (int, error) {
	if err := g.turns.Wait(ctx); err != nil {
		return 0, fmt.Errorf("so many unknown tokens are sent that reviews wait for their turn: %w", err)
	}
	known, err := g.kube.AuthenticationV1().TokenReviews().Create(ctx,
		&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return 0, fmt.Errorf("asking whose token it is: %w", err)
	}
	if !known.Status.Authenticated {
		return http.StatusUnauthorized, nil
	}
	user := known.Status.User
	extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	may, err := g.kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: q.path, Verb: q.verb}}}, metav1.CreateOptions{})
	if err != nil {
		return 0, fmt.Errorf("asking whether %s may %s %s: %w", user.Username, q.verb, q.path, err)
	}
	if !may.Status.Allowed || may.Status.Denied {
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}

// note says once that reviews fail, and once that they do no more: Prometheus shows a status and no reason.
func (g *guard) note(err error) {
	g.mu.Lock()
	before := g.trouble
	g.trouble = err
	g.mu.Unlock()
	switch {
	case err != nil && before == nil:
		cure := "see to the Kubernetes API; requests are refused until it answers"
		if apierrors.IsForbidden(err) {
			cure = "apply manifests/components/protected-metrics, whose ClusterRole orphand-guard allows to create tokenreviews and subjectaccessreviews"
		}
		g.sink.Emit(signals.Event{Code: signals.ReviewsFailed, Phase: signals.Started, Reason: oneLine(err.Error()),
			Attrs: []signals.Attr{{Key: "cure", Value: cure}}})
	case err == nil && before != nil:
		g.sink.Emit(signals.Event{Code: signals.ReviewsFailed, Phase: signals.Ended, Message: "Whoever reads the metrics can be reviewed again."})
	}
}

// check is a line of /readyz: metrics that nobody can read are no reason not to be ready.
func (g *guard) check() check {
	return check{name: "metrics", ask: func() (string, error) {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.trouble != nil {
			return "protected, and nobody is let in: " + oneLine(g.trouble.Error()), nil
		}
		return "protected", nil
	}}
}
