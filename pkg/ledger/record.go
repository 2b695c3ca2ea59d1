package ledger

import (
	"fmt"
	"slices"
	"strings"

	"github.com/orphand/orphand/api/v1alpha1"
	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/nodeproof"
	"github.com/orphand/orphand/pkg/settle"
	"github.com/orphand/orphand/pkg/signals"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The bounds of what a record lists for people. Its memory holds all.
const (
	maxNodes    = 40
	maxPods     = 100
	maxFindings = 64
	maxJobSets  = 64
)

// Name is the name of a job's record: the TrainJob's and the first 8 characters of its UID, or of the JobSet's UID where
// the TrainJob's is not known.
func Name(job facts.JobKey) string {
	uid := strings.TrimPrefix(string(job.UID), facts.UnknownPrefix)
	if len(uid) > 8 {
		uid = uid[:8]
	}
	return strings.TrimRight(job.Name+"-"+strings.ToLower(uid), "-.")
}

// Record makes a job's record of what the engine notes of it. before are the conditions as they were last written, for
// their transition times.
func Record(n settle.Note, before []metav1.Condition, now facts.Instant) (*v1alpha1.Orphan, error) {
	memory, err := pack(slices.Concat(n.Pods, n.Proven))
	if err != nil {
		return nil, fmt.Errorf("packing the pods of %s: %w", n.Job, err)
	}
	o := &v1alpha1.Orphan{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.KindOrphan},
		ObjectMeta: metav1.ObjectMeta{Namespace: n.Job.Namespace, Name: Name(n.Job)},
		Spec:       v1alpha1.OrphanSpec{TrainJob: v1alpha1.TrainJobReference{Name: n.Job.Name, UID: string(n.Job.UID)}},
		Status: v1alpha1.OrphanStatus{
			State: string(n.State),
			Pods: v1alpha1.PodCounts{Total: int32(n.Alive + n.Unproven + n.Gone), Alive: int32(n.Alive), Unproven: int32(n.Unproven),
				Gone: int32(n.Gone)},
			WaitingFor: n.WaitingFor,
			GoneAt:     stamp(n.GoneAt),
			SettledAt:  stamp(n.SettledAt),
			Nodes:      nodesOf(n.Pods),
			Memory:     memory,
			Conditions: slices.Clone(before),
		},
	}
	for i, uid := range n.JobSets {
		if len(n.JobSets)-i <= maxJobSets { // the newest
			o.Status.JobSets = append(o.Status.JobSets, string(uid))
		}
	}
	for _, e := range n.Evidence {
		o.Status.Evidence = append(o.Status.Evidence, v1alpha1.EvidenceSummary{Reason: string(e.Reason), Weak: e.Weak, Count: int32(e.Count),
			First: *stamp(e.First), Last: *stamp(e.Last), Sources: e.Sources})
	}
	for i, f := range n.Findings {
		if len(n.Findings)-i <= maxFindings {
			o.Status.Findings = append(o.Status.Findings, v1alpha1.FindingSummary{Code: string(f.Code), Cause: f.Cause, Message: f.Message,
				Since: *stamp(f.Since), Until: stamp(f.Until)})
		}
	}
	condition(&o.Status.Conditions, v1alpha1.ConditionSettled, n.State.Over(), n, now)
	condition(&o.Status.Conditions, v1alpha1.ConditionCleared, n.State == settle.Cleared, n, now)
	return o, nil
}

func condition(all *[]metav1.Condition, kind string, holds bool, n settle.Note, now facts.Instant) {
	c := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: string(n.State), Message: message(n), LastTransitionTime: *stamp(now)}
	switch {
	case holds:
		c.Status = metav1.ConditionTrue
	case n.State == settle.Elsewhere:
		c.Status, c.Reason = metav1.ConditionUnknown, "RunsElsewhere"
	}
	for i := range *all {
		if have := &(*all)[i]; have.Type == kind {
			if have.Status == c.Status {
				c.LastTransitionTime = have.LastTransitionTime
			}
			*have = c
			return
		}
	}
	*all = append(*all, c)
}

// message says in one sentence how the job stands.
func message(n settle.Note) string {
	switch n.State {
	case settle.Elsewhere:
		return "The TrainJob is managed by another controller: its pods are in another cluster."
	case settle.Settled:
		return "No process of the job can be running, and nothing is left that could start one; some of its objects are left."
	case settle.Cleared:
		return "No process of the job can be running, and nothing of it is left."
	case settle.Unproven:
		return fmt.Sprintf("%d of %d pods are not proven to be gone; waiting for %s.", n.Unproven, n.Alive+n.Unproven+n.Gone, n.WaitingFor)
	case settle.Settling:
		if n.WaitingFor == "" {
			return "Waiting for children that may arrive late."
		}
		return "Waiting for " + n.WaitingFor + "."
	}
	return "The TrainJob is there."
}

// nodesOf groups the pods that are not Gone by the machine that they may run on.
func nodesOf(pods []settle.PodNote) []v1alpha1.NodeRemains {
	type key struct {
		node string
		uid  types.UID
		m    facts.Machine
		boot string
	}
	at := map[key]int{}
	var nodes []v1alpha1.NodeRemains
	listed := 0
	for i := range pods {
		h := pods[i].History
		k := key{node: h.Pod.Node}
		if n := len(h.Runs); n > 0 {
			r := &h.Runs[n-1]
			for j := range h.Runs { // the one that nothing accounts for yet
				if h.Runs[j].Proof == nil {
					r = &h.Runs[j]
					break
				}
			}
			k = key{r.Node, r.NodeUID, r.Machine, r.Boot}
		}
		x, known := at[k]
		if !known {
			if len(nodes) == maxNodes {
				continue
			}
			x = len(nodes)
			at[k] = x
			nodes = append(nodes, v1alpha1.NodeRemains{Name: k.node, UID: string(k.uid), SystemUUID: k.m.SystemUUID, MachineID: k.m.MachineID, BootID: k.boot})
		}
		if listed == maxPods {
			nodes[x].More++
			continue
		}
		listed++
		nodes[x].Pods = append(nodes[x].Pods, v1alpha1.PodRemains{Name: h.Pod.Name, UID: string(h.Pod.UID), Verdict: string(pods[i].Said.Verdict),
			Reason: string(pods[i].Said.Reason), Since: *stamp(pods[i].Since)})
	}
	return nodes
}

func stamp(i facts.Instant) *metav1.Time {
	if !i.Known() {
		return nil
	}
	t := metav1.NewTime(i.Time())
	return &t
}

func instant(t *metav1.Time) facts.Instant {
	if t == nil {
		return 0
	}
	return facts.At(t.Time)
}

// Read makes a note of a record, for another process to go on from. It fails when orphand's own part of the record was
// damaged.
func Read(o *v1alpha1.Orphan) (settle.Note, error) {
	pods, err := unpack(o.Status.Memory, o.Namespace)
	if err != nil {
		return settle.Note{}, fmt.Errorf("reading record %s/%s: %w", o.Namespace, o.Name, err)
	}
	n := settle.Note{
		Job:        facts.JobKey{Namespace: o.Namespace, Name: o.Spec.TrainJob.Name, UID: types.UID(o.Spec.TrainJob.UID)},
		State:      settle.State(o.Status.State),
		Alive:      int(o.Status.Pods.Alive),
		Unproven:   int(o.Status.Pods.Unproven),
		Gone:       int(o.Status.Pods.Gone),
		GoneAt:     instant(o.Status.GoneAt),
		SettledAt:  instant(o.Status.SettledAt),
		WaitingFor: o.Status.WaitingFor,
	}
	for i := range pods {
		if pods[i].Said.Verdict == nodeproof.Gone {
			n.Proven = append(n.Proven, pods[i])
		} else {
			n.Pods = append(n.Pods, pods[i])
		}
	}
	for _, uid := range o.Status.JobSets {
		n.JobSets = append(n.JobSets, types.UID(uid))
	}
	for i := range o.Status.Evidence {
		e := &o.Status.Evidence[i]
		n.Evidence = append(n.Evidence, settle.EvidenceNote{Reason: nodeproof.Reason(e.Reason), Weak: e.Weak, Count: int(e.Count),
			First: facts.At(e.First.Time), Last: facts.At(e.Last.Time), Sources: e.Sources})
	}
	for i := range o.Status.Findings {
		f := &o.Status.Findings[i]
		n.Findings = append(n.Findings, settle.FindingNote{Code: signals.Finding(f.Code), Cause: f.Cause, Message: f.Message,
			Since: facts.At(f.Since.Time), Until: instant(f.Until)})
	}
	return n, nil
}
