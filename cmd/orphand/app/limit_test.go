package app

import (
	"context"
	"testing"

	"github.com/orphand/orphand/pkg/reap"
)

func TestWhatTheBrakesLetPassIsNotHeldBehindOtherCalls(t *testing.T) {
	l := newLimit(1e-6, 1)
	if err := l.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := l.Wait(reap.InTurn(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if l.Wait(reap.InTurn(ended)) == nil {
		t.Error("a request that was called off passed")
	}
}

func TestALiftedLimitLetsThoseWhoWaitPassAndEveryoneAfterThem(t *testing.T) {
	l := newLimit(1e-6, 1)
	if err := l.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	waiting := make(chan error)
	go func() { waiting <- l.Wait(context.Background()) }()
	l.lift()
	if err := <-waiting; err != nil {
		t.Errorf("who waited: %v", err)
	}
	if err := l.Wait(context.Background()); err != nil {
		t.Errorf("who came after: %v", err)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if l.Wait(ended) == nil {
		t.Error("a request that was called off passed")
	}
}
