package ledger

import (
	"errors"
	"testing"

	"github.com/orphand/orphand/api/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	ktesting "k8s.io/client-go/testing"
)

// A new record takes three calls: its status, which is not there, the record, and its status. A process that was paused between
// two of them no longer leads when it goes on.
func TestAWriteThatWasBegunAsTheLeaderIsNotGoneOnWithByWhoLeadsNoMore(t *testing.T) {
	kinds := map[schema.GroupVersionResource]string{v1alpha1.Orphans: "OrphanList"}
	lost := errors.New("not leading")
	for asked := 1; asked <= 3; asked++ {
		client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds)
		sent, made := 0, false
		client.PrependReactor("patch", "orphans", func(a ktesting.Action) (bool, runtime.Object, error) {
			sent++
			if a.GetSubresource() == "status" && !made {
				return true, nil, apierrors.NewNotFound(v1alpha1.Orphans.GroupResource(), "llm")
			}
			made = true
			return true, &unstructured.Unstructured{Object: map[string]any{}}, nil
		})
		gates := 0
		c := &Client{Dynamic: client, Gate: func() error {
			if gates++; gates >= asked {
				return lost
			}
			return nil
		}}
		o, err := Record(note(1), nil, start)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Apply(t.Context(), o); !errors.Is(err, lost) || sent != asked-1 {
			t.Errorf("when it is lost before call %d: %d calls were sent, %v", asked, sent, err)
		}
	}
}
