package scenarios_test

import (
	"testing"

	"github.com/orphand/orphand/e2e/cluster"
	"github.com/orphand/orphand/e2e/daemon"
)

// Without records a new orphand knows what is there and nothing else: it is enough
// for as long as the pod's object stays.
func TestAnOrphandWithoutRecordsThatIsKilledInTheMiddleOfADeletionStartsFromWhatIsThere(t *testing.T) {
	t.Parallel()
	s := open(t)
	const user = "forgetful"
	_, err := s.c.UserWithRules(t.Context(), user, daemon.Without(daemon.Without(daemon.Permissions(), "orphans"), "orphans/status"))
	s.ok(err)
	forgetful := s.also(daemon.Options{User: user})
	s.hearsFrom(forgetful, daemon.Kind("Orphan", "Forbidden"))
	near, far := s.node("killed-0"), s.node("killed-1")
	job, pods := s.run(cluster.TrainJobSpec{Name: "killed", On: []string{near.Name, far.Name}})
	s.cutOff(far)
	s.delete(job)
	before := s.hearsFrom(forgetful, daemon.Pod(pods[1].UID, "Unproven", "NodeUnreachable"))
	s.ok(forgetful.Kill())
	s.ok(forgetful.Restart(t.Context()))
	again := s.hearsFrom(forgetful, daemon.Pod(pods[1].UID, "Unproven", "NodeUnreachable").After(before))
	s.lives(pods[1])
	s.never(forgetful, pods[1], "Gone", "")
	if state := forgetful.State(again.JobUID); state == "Settled" || state == "Cleared" {
		t.Errorf("job %s is %s after the restart", again.Job, state)
	}
	s.ok(forgetful.Kill())
	s.ok(far.BringBack())
	s.ok(forgetful.Restart(t.Context()))
	s.says(pods[1], "Gone", "KubeletConfirmed")
	s.settles(job)
}
