package informers

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// listStream is a watch that begins with a list. It tells when that is over.
type listStream struct {
	watch.Interface
	result chan watch.Event
	done   chan struct{}
	stop   sync.Once
}

func newListStream(w watch.Interface, listed func()) *listStream {
	s := &listStream{Interface: w, result: make(chan watch.Event), done: make(chan struct{})}
	go s.pass(listed)
	return s
}

// pass passes events on until the watch ends, or nobody takes them any more.
func (s *listStream) pass(listed func()) {
	defer close(s.result)
	for e := range s.Interface.ResultChan() {
		select {
		case s.result <- e:
		case <-s.done:
			return
		}
		if o, ok := e.Object.(metav1.Object); ok && e.Type == watch.Bookmark && o.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true" {
			listed()
		}
	}
}

// ResultChan satisfies watch.Interface.
func (s *listStream) ResultChan() <-chan watch.Event { return s.result }

// Stop satisfies watch.Interface.
func (s *listStream) Stop() {
	s.stop.Do(func() { close(s.done) })
	s.Interface.Stop()
}
