package app

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/orphand/orphand/pkg/signals"
)

// candidate stands for election until the test, or stop, ends it. States it comes to are sent to states.
func candidate(t *testing.T, client *fake.Clientset, edits ...func(*Options)) (l *leadership, states chan string, stop func()) {
	t.Helper()
	options := DefaultOptions()
	options.LeaseNS = "orphand"
	options.LeaseDuration, options.RenewDeadline, options.RetryPeriod = 3*time.Second, 2*time.Second, 20*time.Millisecond
	for _, edit := range edits {
		edit(&options)
	}
	states = make(chan string, 10)
	l, err := newLeadership(options, client.CoordinationV1(), signals.SinkFunc(func(e signals.Event) { states <- e.State }), func(bool) {})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := l.run(ctx); err != nil {
			t.Error(err)
		}
	}()
	stop = func() { cancel(); <-ended }
	t.Cleanup(stop)
	return l, states, stop
}

func expectState(t *testing.T, states chan string, want string) {
	t.Helper()
	select {
	case got := <-states:
		if got != want {
			t.Fatalf("%s, want %s", got, want)
		}
	case <-time.After(20 * time.Second):
		t.Fatalf("never %s", want)
	}
}

func detail(t *testing.T, c check) string {
	t.Helper()
	text, err := c.ask()
	if err != nil {
		t.Error(err)
	}
	return text
}

func TestALeaderThatStopsGivesTheLeaseToTheNextAtOnce(t *testing.T) {
	client := fake.NewClientset()
	first, firstStates, stopFirst := candidate(t, client)
	expectState(t, firstStates, leading)
	if got := detail(t, first.check()); got != "leading" {
		t.Errorf("%q", got)
	}
	if err := func() error { _, err := first.alive().ask(); return err }(); err != nil {
		t.Error(err)
	}

	second, secondStates, stopSecond := candidate(t, client)
	stopFirst()
	expectState(t, firstStates, standingBy)
	expectState(t, secondStates, leading)
	if first.me == second.me {
		t.Error("two candidates of one host have one identity")
	}

	stopSecond()
	lease, err := client.CoordinationV1().Leases("orphand").Get(context.Background(), "orphand", metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != "" {
		t.Errorf("the lease was not given back: %+v, %v", lease.Spec, err)
	}
}
