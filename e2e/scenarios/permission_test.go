package scenarios_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/orphand/orphand/e2e/cluster"
	"github.com/orphand/orphand/e2e/daemon"
	"github.com/orphand/orphand/pkg/signals"
)

func TestWithoutPermissionToReadNodesNothingIsProvenUntilItIsGranted(t *testing.T) {
	t.Parallel()
	s := open(t)
	const user = "blind"
	rules := daemon.Without(daemon.Permissions(), "orphans")
	_, err := s.c.UserWithRules(t.Context(), user, daemon.Without(rules, "nodes"))
	s.ok(err)
	far := s.node("blind-0")
	blind := s.also(daemon.Options{User: user})
	forbidden := s.hearsFrom(blind, daemon.Kind("Node", "Forbidden"))
	if !strings.Contains(forbidden.Cure, "nodes") {
		t.Errorf("the cure does not name the permission: %s", forbidden.Line)
	}
	s.hearsFrom(blind, daemon.Code(signals.NodesUnreadable))
	s.hearsFrom(blind, daemon.Code(signals.CachesSynced))
	early, earlyPods := s.run(cluster.TrainJobSpec{Name: "early", On: []string{far.Name}})
	staying, stayingPods := s.run(cluster.TrainJobSpec{Name: "staying", On: []string{far.Name}})
	s.hearsFrom(blind, daemon.Pod(earlyPods[0].UID, "Alive", "NodesUnreadable"))
	s.delete(early)
	s.says(earlyPods[0], "Gone", "KubeletConfirmed") // the other orphand sees the proof
	s.gone(cluster.Pods, early.Namespace, earlyPods[0].Name)
	s.settles(early)
	s.never(blind, earlyPods[0], "Gone", "")
	s.notSettled(blind, early)
	for _, e := range blind.Events() {
		if e.Finding == string(signals.ForcedRemoval) && e.PodUID == earlyPods[0].UID {
			t.Errorf("nobody removed the pod by force: %s", e.Line)
		}
	}
	status, body, err := blind.Get(t.Context(), "/readyz?verbose")
	s.ok(err)
	t.Logf("/readyz: %d\n%s", status, body)
	if !strings.Contains(body, "kind/Node") || !strings.Contains(body, "allow get, list and watch on nodes") {
		t.Error("/readyz?verbose does not say what is missing")
	}
	if m, err := blind.Metrics(t.Context()); err != nil || m["orphand_nodes_readable"] != 0 {
		t.Errorf("orphand_nodes_readable is %v (%v), want 0", m["orphand_nodes_readable"], err)
	}

	_, err = s.c.UserWithRules(t.Context(), user, rules)
	s.ok(err)
	s.hearsFrom(blind, daemon.Kind("Node", "Watching"))
	s.delete(staying)
	s.hearsFrom(blind, daemon.Pod(stayingPods[0].UID, "Gone", "KubeletConfirmed"))
	s.hearsFrom(blind, daemon.Over(staying.UID))
	// What its kubelet confirmed while nobody could read Nodes is proven by hindsight.
	s.hearsFrom(blind, daemon.Pod(earlyPods[0].UID, "Gone", "KubeletConfirmed"))
	s.hearsFrom(blind, daemon.Over(early.UID))
	if status, _, err := blind.Get(t.Context(), "/readyz"); err != nil || status != http.StatusOK {
		t.Errorf("/readyz: %d, %v", status, err)
	}
}
