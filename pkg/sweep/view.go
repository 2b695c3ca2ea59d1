package sweep

import (
	"cmp"
	"slices"

	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/retention"
)

// View is what is decided of an object or a pod at one moment.
type View struct {
	facts.Ref
	retention.Decision
	// Object is nil for a pod.
	Object *retention.Object
}

// Views lists every object and every pod that belongs to one, with what is decided of it now, by namespace, kind and name.
func (s *Sweeper) Views() []View {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	var list []View
	for _, e := range s.objects {
		list = append(list, View{Ref: e.o.Ref(), Decision: s.policy.Decide(s.caseOf(e, now)), Object: e.o})
	}
	for uid, p := range s.pods {
		if _, d, _ := s.judgePod(uid); d.Verb != "" {
			list = append(list, View{Ref: p.Ref(), Decision: d})
		}
	}
	slices.SortFunc(list, func(a, b View) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	return list
}
