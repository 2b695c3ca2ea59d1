package scenarios_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/orphand/orphand/e2e/cluster"
	"github.com/orphand/orphand/e2e/daemon"
	"github.com/orphand/orphand/pkg/signals"
)

// The parts share a cluster and an orphand, in this order: they are about the only
// orphand of a cluster, or have accidents that no other scenario should notice.
func TestAClusterOfItsOwn(t *testing.T) {
	c, err := cluster.Start(t.Context(), cluster.Options{Nodes: 1, MonitorGrace: patience, Progress: t.Logf,
		Without: []cluster.Component{cluster.JobSet, cluster.Trainer}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	d, err := daemon.Launch(t.Context(), c, daemon.Options{Program: program})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Stop(); err != nil {
			t.Error(err)
		}
	})
	t.Run("Trainer is followed from when it is installed", func(t *testing.T) { trainerComesLate(openOn(t, c, d)) })
	t.Run("records are kept from when their kind is installed", func(t *testing.T) { recordsComeLate(openOn(t, c, d)) })
	t.Run("records survive SIGKILL before, during and after a deletion", func(t *testing.T) { recordsSurviveKills(openOn(t, c, d)) })
	t.Run("the API server is away in the middle of a deletion", func(t *testing.T) { apiServerIsAway(openOn(t, c, d)) })
}

func trainerComesLate(s *scene) {
	t := s.t
	for _, kind := range []string{"TrainJob", "JobSet"} {
		absent := s.hears(daemon.Kind(kind, "Absent"))
		if !strings.Contains(absent.Cure, "install") {
			t.Errorf("a person who reads this line does not learn the cure: %s", absent.Line)
		}
	}
	_, body, err := s.d.Get(t.Context(), "/readyz?verbose")
	s.ok(err)
	t.Logf("/readyz:\n%s", body)
	if !strings.Contains(body, "install Kubeflow Trainer") {
		t.Error("/readyz?verbose does not say that Trainer is missing")
	}
	s.ok(s.c.InstallJobSet(t.Context()))
	s.ok(s.c.InstallTrainer(t.Context()))
	// The garbage collector would notice the new kinds within 30 s, too.
	s.ok(s.c.StopComponent(cluster.ControllerManager))
	s.ok(s.c.StartComponent(t.Context(), cluster.ControllerManager))
	s.hears(daemon.Kind("JobSet", "Watching"))
	s.hears(daemon.Kind("TrainJob", "Watching"))
	job, pods := s.run(cluster.TrainJobSpec{Name: "late", On: []string{s.node("late-0").Name}})
	s.delete(job)
	s.says(pods[0], "Gone", "KubeletConfirmed")
	s.settles(job)
}

func recordsComeLate(s *scene) {
	t := s.t
	absent := s.hears(daemon.Kind("Orphan", "Absent"))
	if !strings.Contains(absent.Cure, "manifests/base/crds") || !strings.Contains(absent.Cure, "restart") {
		t.Errorf("the line says neither the cure nor what goes without: %s", absent.Line)
	}
	if body := s.readiness(); !strings.Contains(body, "[+]records ok: kept in memory only") {
		t.Errorf("/readyz?verbose does not say that records are kept in memory only:\n%s", body)
	}
	s.ok(daemon.InstallRecords(t.Context(), s.c))
	s.hears(daemon.Kind("Orphan", "Watching"))
	if body := s.readiness(); !strings.Contains(body, "[+]records ok: kept as orphans.orphand.dev") {
		t.Errorf("/readyz?verbose does not say that records are kept:\n%s", body)
	}
	job, _ := s.run(cluster.TrainJobSpec{Name: "recorded", On: []string{s.node("recorded-0").Name}})
	s.delete(job)
	s.settles(job)
	s.record(job, daemon.Settled)
}

func (s *scene) readiness() string {
	s.t.Helper()
	_, body, err := s.d.Get(s.t.Context(), "/readyz?verbose")
	s.ok(err)
	return body
}

// outage is how long the API server is away: long enough for every watch and
// request to break and be tried again; a minute with ORPHAND_E2E_OUTAGE=60s.
func outage(t *testing.T) time.Duration {
	text := os.Getenv("ORPHAND_E2E_OUTAGE")
	if text == "" {
		return 20 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func apiServerIsAway(s *scene) {
	t := s.t
	near, far, forced := s.node("away-0"), s.node("away-1"), s.node("away-2")
	grace := int64(5)
	job, pods := s.run(cluster.TrainJobSpec{Name: "away", On: []string{near.Name, far.Name, forced.Name}, GraceSeconds: &grace, Command: refuses()})
	s.cutOff(far)
	s.ok(forced.CutOff())
	s.ok(forced.WaitUnreachable(t.Context()))
	s.delete(job)
	s.says(pods[0], "Alive", "Terminating")
	s.says(pods[1], "Unproven", "NodeUnreachable")
	s.says(pods[2], "Unproven", "NodeUnreachable")

	s.refused(pods[0])

	length := outage(t)
	began := time.Now()
	s.ok(s.c.StopAPIServer())
	s.hears(daemon.Line("APIUnreachable", func(e daemon.Event) bool {
		return e.Code == signals.APIUnreachable && e.Phase == string(signals.Started)
	}))
	// Its kubelet ends the pod meanwhile, and nobody can be told.
	_, err := s.c.WaitTruth(t.Context(), func(now cluster.Truth) bool { return !now.Alive(pods[0].UID) })
	s.ok(err)
	s.lives(pods[1])
	if status, body, err := s.d.Get(t.Context(), "/livez"); err != nil || status != 200 {
		t.Errorf("/livez during the outage: %d %s %v; a restart would not help", status, body, err)
	}
	// The outage has to take its time: nothing is waited for.
	<-time.After(time.Until(began.Add(length)))
	for _, p := range pods {
		s.never(s.d, p, "Gone", "")
	}
	s.ok(s.c.StartAPIServer(t.Context()))
	served := time.Now()
	// Before orphand watches again, a pod vanishes.
	s.ok(s.c.ForceDeletePod(t.Context(), pods[2]))
	s.hears(daemon.Line("the API answers again", func(e daemon.Event) bool {
		return e.Code == signals.APIUnreachable && e.Phase == string(signals.Ended)
	}))
	removed := s.hears(daemon.Line("the third pod was removed", func(e daemon.Event) bool {
		return e.PodUID == pods[2].UID && e.Verdict == "Unproven" && (e.Reason == "RemovedUnseen" || e.Reason == "RemovedUnconfirmed")
	}))
	if blind := removed.At.Sub(served); blind > 15*time.Second {
		t.Errorf("orphand looked again only %s after the API server was back", blind)
	}
	s.lives(pods[2])
	// The first one's end was confirmed, unless the confirmation fell into the gap.
	word := s.hears(daemon.Line("the first pod is gone, or went unseen", func(e daemon.Event) bool {
		return e.PodUID == pods[0].UID && (e.Verdict == "Gone" || e.Reason == "RemovedUnseen" || e.Reason == "RemovedUnconfirmed")
	}))
	s.notSettled(s.d, job)

	s.ok(far.BringBack())
	s.says(pods[1], "Gone", "KubeletConfirmed")
	s.notSettled(s.d, job)
	s.ok(forced.PowerOff())
	s.ok(forced.WaitUnreachable(t.Context()))
	s.ok(forced.Taint(t.Context(), cluster.OutOfService()))
	s.says(pods[2], "Gone", "OutOfService")
	if word.Verdict != "Gone" {
		_, err := near.Reboot()
		s.ok(err)
		s.says(pods[0], "Gone", "NodeRebooted")
	}
	s.settles(job)
}
