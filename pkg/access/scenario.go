package access

import "slices"

// Scenario is an end-to-end test that needs permissions: orphand runs under exactly the roles of some features, something
// happens, and the calls are made. e2e/install plays each, and fails when a call that stands here is not made, is forbidden,
// or is in no role. So a rule that no scenario needs is one that can go.
type Scenario struct {
	Name string
	// Features are those whose roles orphand has.
	Features []Feature
	// Story is what happens, and Without what orphand says where one of the calls is not permitted.
	Story, Without string
	// Calls are what the scenario needs, as "verb resource": those that no scenario before it needs.
	Calls []string
}

// Scenarios lists the scenarios.
func Scenarios() []Scenario {
	list := []Scenario{
		{Name: "AJobIsDeleted", Features: []Feature{Observe, Records, Election},
			Story: "A TrainJob runs, is deleted, and its record comes to Settled and Cleared.",
			Without: "The kind is `Forbidden` in the log (`KindStateChanged`), in `/readyz?verbose` and in `orphand_kind_state`; without pods, JobSets or Jobs the replica is " +
				"not ready, without Nodes `NodesUnreadable` is said, without the Lease nobody leads (`orphand_leader`), and without reads by name a job is never Cleared.",
			Calls: []string{
				"watch trainjobs.trainer.kubeflow.org", "get trainjobs.trainer.kubeflow.org",
				"watch trainingruntimes.trainer.kubeflow.org",
				"watch jobsets.jobset.x-k8s.io", "get jobsets.jobset.x-k8s.io",
				"watch jobs.batch", "watch pods", "watch nodes",
				"get configmaps", "get secrets", "get services", "get podgroups.scheduling.x-k8s.io", "get podgroups.scheduling.volcano.sh",
				"watch orphans.orphand.dev", "patch orphans.orphand.dev", "patch orphans.orphand.dev/status",
				"create leases.coordination.k8s.io", "get leases.coordination.k8s.io orphand", "list leases.coordination.k8s.io orphand",
				"watch leases.coordination.k8s.io orphand", "update leases.coordination.k8s.io orphand",
			}},
		{Name: "TheServerCannotStreamLists", Features: []Feature{Observe, Records},
			Story:   "Lists are read page by page, as from an API server that cannot stream them, and after a watch that cannot be resumed.",
			Without: "As for a watch that is not permitted, and a survey of what is left of a job fails, so that it does not settle.",
			Calls: []string{"list trainjobs.trainer.kubeflow.org", "list trainingruntimes.trainer.kubeflow.org", "list jobsets.jobset.x-k8s.io",
				"list jobs.batch", "list pods", "list nodes", "list orphans.orphand.dev"}},
		{Name: "APodLosesItsLabels", Features: []Feature{Observe, Records},
			Story:   "Somebody takes the labels off a running pod, by which it is watched.",
			Without: "The read is counted in `orphand_live_reads_total{kind=\"Pod\",outcome=\"Forbidden\"}`; the pod holds its job back.",
			Calls:   []string{"get pods"}},
		{Name: "AMachineBurnsDown", Features: []Feature{Observe, Records},
			Story:   "A machine is off, and somebody taints its Node out of service.",
			Without: "The read is counted in `orphand_live_reads_total{kind=\"Node\",outcome=\"Forbidden\"}`; the pods stay Unproven.",
			Calls:   []string{"get nodes"}},
		{Name: "AFindingComesBack", Features: []Feature{Observe, Records},
			Story:   "A finding is raised, ends, and is raised again.",
			Without: "The log and the metrics have the finding; `kubectl describe` does not.",
			Calls:   []string{"create events.events.k8s.io", "patch events.events.k8s.io"}},
		{Name: "ARecordGrowsOld", Features: []Feature{Observe, Records},
			Story:   "A job has been cleared for longer than `--record-ttl`.",
			Without: "Old records stay; `WorkFailed` in the log.",
			Calls:   []string{"delete orphans.orphand.dev"}},
		{Name: "ARecordIsMade", Features: []Feature{Observe, Records},
			Story:   "A deletion is seen and no record is there: the API server asks itself for the permission to create one when it gets the apply.",
			Without: "No record is made; `/readyz?verbose` says so under `records`.",
			Calls:   []string{"create orphans.orphand.dev"}},
		{Name: "NobodyCollectsGarbage", Features: []Feature{Observe, Records, Enforce},
			Story:   "A TrainJob is deleted in a cluster without a garbage collector, and everything of it stays.",
			Without: "Without JobSets or pods nothing at all is deleted: `ModeChanged` in the log, `mode` in `/readyz?verbose`, the alert `OrphandModeNotInForce`. Without another kind the DELETE is counted as `Forbidden` in `orphand_deletes_total`, and the job's record says why that object stays.",
			Calls: []string{"create selfsubjectaccessreviews.authorization.k8s.io",
				"delete jobsets.jobset.x-k8s.io", "delete pods", "get jobs.batch", "delete jobs.batch",
				"get trainingruntimes.trainer.kubeflow.org", "delete trainingruntimes.trainer.kubeflow.org",
				"delete configmaps", "delete secrets", "delete services", "delete podgroups.scheduling.x-k8s.io", "delete podgroups.scheduling.volcano.sh"}},
		{Name: "FinishedJobsGo", Features: []Feature{Observe, Records, Enforce, Retention, Memory},
			Story:   "A job of each kind is finished and due by the policy, with a notice; rules come from a namespace too, and what was removed is remembered.",
			Without: "The kind is `Forbidden` in the log, or what is due stays and the log says why; rules of namespaces are `PolicyRefused`; what cannot be remembered is said under `retention/removals` in `/readyz?verbose`.",
			Calls: []string{"delete trainjobs.trainer.kubeflow.org", "list configmaps orphand-retention",
				"create configmaps", "patch configmaps orphand-removals", "get events.events.k8s.io",
				"get cronjobs.batch", "get cronworkflows.argoproj.io", "get scheduledsparkapplications.sparkoperator.k8s.io"}},
		{Name: "TheMetricsAreRead", Features: []Feature{Observe, Records, Guard},
			Story:   "Somebody with a token reads the protected metrics.",
			Without: "Whoever reads them gets 503; `ReviewsFailed` in the log, `metrics` in `/readyz?verbose`.",
			Calls:   []string{"create tokenreviews.authentication.k8s.io", "create subjectaccessreviews.authorization.k8s.io"}},
	}
	// What retention does to a kind, it does to all.
	for i := range list {
		for _, c := range Calls() {
			if list[i].Name == "FinishedJobsGo" && c.Feature == Retention && len(c.Verbs) == len(sweeping()) {
				for _, verb := range c.Verbs {
					list[i].Calls = append(list[i].Calls, verb+" "+c.String())
				}
			}
		}
	}
	return list
}

// Needs are the scenarios that need a verb of a call.
func (c Call) Needs(verb string) []Scenario {
	return slices.DeleteFunc(Scenarios(), func(s Scenario) bool {
		return !slices.Contains(s.Features, c.Feature) || !slices.Contains(s.Calls, verb+" "+c.String())
	})
}
