package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/pager"
	"k8s.io/utils/clock"

	"github.com/orphand/orphand/pkg/access"
	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/reap"
	"github.com/orphand/orphand/pkg/retention"
	"github.com/orphand/orphand/pkg/sweep"
)

// policyConfigMap is where the policy in force is looked for, and policyKey the key in it.
const (
	policyConfigMap = "orphand-retention"
	policyKey       = "policy.yaml"
)

func newPlanCommand(streams Streams) *cobra.Command {
	output, file := "table", ""
	horizon := "24h"
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Say what the retention policy would delete, when and by which rule",
		Long: `plan reads every object that the policy is for from the cluster and decides on it as
"orphand run" would. It deletes nothing and needs no running orphand. With --policy it
tries a file; without, it takes the policy from the ConfigMap ` + access.Namespace + `/` + policyConfigMap + `.

The table sums up by rule and kind, then lists what is kept and skipped by reason. wide
adds every object that would go, and json has every object with its decision.`,
		Example: `  orphand plan
  orphand plan --policy new.yaml --within 7d -o wide
  orphand plan -o json | jq '.objects[] | select(.decision | startswith("SKIP"))'`,
		Args: noArguments,
	}
	cluster := clusterFlags(cmd)
	cmd.Flags().StringVarP(&output, "output", "o", output, "table, wide or json")
	cmd.Flags().StringVar(&file, "policy", file, "policy to try; - is standard input")
	cmd.Flags().StringVar(&horizon, "within", horizon, "how far to look ahead, such as 12h or 7d")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if !slices.Contains([]string{"table", "wide", "json"}, output) {
			return usage("-o %q: use table, wide or json", output)
		}
		within, err := retention.ParseDuration(horizon)
		if err != nil {
			return usage("--within %q: %v", horizon, err)
		}
		s, err := openSession(cluster)
		if err != nil {
			return err
		}
		data, err := s.policy(cmd.Context(), cmd.InOrStdin(), file)
		if err != nil {
			return err
		}
		policy, problems := retention.Load(data)
		for _, p := range problems {
			fmt.Fprintf(streams.Err, "%s:%s\n", cmp.Or(file, policyConfigMap), p)
		}
		if policy == nil {
			return &failure{Code: ExitUsage, Said: true, err: problems.Err()}
		}
		plan, err := s.plan(cmd.Context(), policy, policy.Kinds(), within, clock.RealClock{}, streams.Err)
		if err != nil {
			return err
		}
		if output == "json" {
			encoder := json.NewEncoder(streams.Out)
			encoder.SetIndent("", "  ")
			return encoder.Encode(plan)
		}
		return plan.print(streams.Out, output == "wide")
	}
	return cmd
}

// policy reads a policy from a file or, without one, from the cluster.
func (s *session) policy(ctx context.Context, input io.Reader, file string) ([]byte, error) {
	if file != "" {
		data, err := readPolicy(input, file)
		if err != nil {
			return nil, usage("--policy: %v", err)
		}
		return data, nil
	}
	found, err := s.clients.Kube.CoreV1().ConfigMaps(access.Namespace).Get(ctx, policyConfigMap, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, &failure{Code: ExitUsage, err: fmt.Errorf("there is %w: no ConfigMap %s/%s: give --policy FILE", errNoPolicy, access.Namespace, policyConfigMap)}
	case err != nil:
		return nil, fmt.Errorf("reading ConfigMap %s/%s: %w", access.Namespace, policyConfigMap, err)
	}
	text, ok := found.Data[policyKey]
	if !ok {
		return nil, usage("ConfigMap %s/%s has no key %s", access.Namespace, policyConfigMap, policyKey)
	}
	return []byte(text), nil
}

// Plan is what a policy comes to. Its JSON is a public interface.
type Plan struct {
	Now    time.Time `json:"now"`
	Until  time.Time `json:"until"`
	DryRun bool      `json:"dryRun"`
	// Rules sum up what goes; Kept and Skipped count the rest by reason.
	Rules   []PlanRule    `json:"rules"`
	Kept    []PlanReason  `json:"kept"`
	Skipped []PlanReason  `json:"skipped"`
	Objects []PlannedItem `json:"objects"`
}

// PlanRule is what goes of one kind by one rule.
type PlanRule struct {
	Rule string `json:"rule"`
	Kind string `json:"kind"`
	// Now counts what is due, Within what will be until the plan's end, Later what is due after it.
	Now    int `json:"now"`
	Within int `json:"within"`
	Later  int `json:"later"`
	// Bytes is the size of those due by the plan's end, as JSON.
	Bytes int64 `json:"bytes"`
}

// PlanReason counts objects by the reason for which they stay.
type PlanReason struct {
	Reason string `json:"reason"`
	Count  int    `json:"count"`
}

// PlannedItem is one object with its decision.
type PlannedItem struct {
	Object   string     `json:"object"`
	UID      types.UID  `json:"uid"`
	Decision string     `json:"decision"`
	Outcome  string     `json:"outcome,omitempty"`
	Finished *time.Time `json:"finished,omitempty"`
	Due      *time.Time `json:"due,omitempty"`
	Rule     string     `json:"rule,omitempty"`
	// Why is the decision in a sentence.
	Why   string `json:"why"`
	Bytes int64  `json:"bytes,omitempty"`
}

// plan lists all objects of some kinds and decides on them.
func (s *session) plan(ctx context.Context, p *retention.Policy, kinds []*retention.Kind, within time.Duration, clk clock.PassiveClock, warn io.Writer) (*Plan, error) {
	keys := &keys{}
	jobs := &podList{}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(s.clients.Kube.Discovery()))
	sweeper := sweep.New(sweep.Config{
		Policy: p, Clock: clk, Queue: keys, Pods: jobs, Deleter: reap.NewDeleter(nil, clk, nil, nil),
		Live:      &sweep.Kube{Core: s.clients.Kube, Dynamic: s.clients.Dynamic, Metadata: s.clients.Metadata, Mapper: mapper, Clock: clk},
		MayDelete: func(string) reap.Reason { return reap.ObserveOnly },
	})
	sizes := map[types.UID]int64{}
	listed := map[string]bool{}
	for _, k := range kinds {
		selector := k.PodSelector()
		if !listed[selector] {
			listed[selector] = true
			if err := s.eachPod(ctx, k, func(pod *corev1.Pod) {
				f := facts.FromPod(pod)
				if name := podJob(k)(pod); name != "" {
					sweeper.PodSeen(selector, name, f)
					if k.PodLabel == facts.LabelJobSetName {
						jobs.add(name, f)
					}
				}
			}); err != nil {
				fmt.Fprintf(warn, "warning: pods of %s cannot be listed: %v\n", k.Name, err)
				sweeper.SetBlind(selector, true)
				jobs.blind = jobs.blind || k.PodLabel == facts.LabelJobSetName
			}
		}
		err := s.eachObject(ctx, k, func(u *unstructured.Unstructured) {
			if text, err := u.MarshalJSON(); err == nil {
				sizes[u.GetUID()] = int64(len(text))
			}
			sweeper.ObjectSeen(p.Read(k, u))
		})
		switch {
		case apierrors.IsNotFound(err): // this cluster does not have the kind
		case err != nil:
			fmt.Fprintf(warn, "warning: %s cannot be listed: %v\n", k.GroupResource(), err)
		}
	}
	sweeper.Begin()
	for {
		k, more := keys.next()
		if !more {
			break
		}
		if k.Release {
			continue
		}
		if err := sweeper.Sync(ctx, k); err != nil {
			return nil, err
		}
	}
	now := clk.Now()
	views := sweeper.Views()
	if !p.PodStages() {
		views = slices.DeleteFunc(views, func(v sweep.View) bool { return v.Object == nil })
	}
	return planOf(views, sizes, p.DryRun(), now, now.Add(within)), nil
}

// planOf sums decisions up.
func planOf(views []sweep.View, sizes map[types.UID]int64, dryRun bool, now, until time.Time) *Plan {
	plan := &Plan{Now: now.UTC(), Until: until.UTC(), DryRun: dryRun, Rules: []PlanRule{}, Kept: []PlanReason{}, Skipped: []PlanReason{}, Objects: []PlannedItem{}}
	rules := map[[2]string]*PlanRule{}
	kept, skipped := map[string]int{}, map[string]int{}
	for _, v := range views {
		item := PlannedItem{Object: v.Ref.String(), UID: v.UID, Decision: v.Decision.String(), Rule: v.Rule, Why: v.Decision.Explain(), Bytes: sizes[v.UID]}
		if o := v.Object; o != nil && o.FinishedAt.Known() {
			at := o.FinishedAt.Time()
			item.Outcome, item.Finished = string(o.Outcome), &at
		}
		switch v.Verb {
		case retention.Keep:
			kept[v.Why()]++
		case retention.Skip:
			skipped[v.Why()]++
		case retention.Delete:
			due := v.Due.Time()
			item.Due = &due
			kind := v.Kind
			if v.Object != nil {
				kind = v.Object.Of.Name
			}
			r := rules[[2]string{v.Rule, kind}]
			if r == nil {
				r = &PlanRule{Rule: v.Rule, Kind: kind}
				rules[[2]string{v.Rule, kind}] = r
			}
			switch {
			case !due.After(now):
				r.Now++
			case !due.After(until):
				r.Within++
			default:
				r.Later++
			}
			if !due.After(until) {
				r.Bytes += item.Bytes
			}
		}
		plan.Objects = append(plan.Objects, item)
	}
	for _, r := range rules {
		plan.Rules = append(plan.Rules, *r)
	}
	slices.SortFunc(plan.Rules, func(a, b PlanRule) int {
		return cmp.Or(cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Kind, b.Kind))
	})
	plan.Kept, plan.Skipped = reasons(kept), reasons(skipped)
	return plan
}

func reasons(counts map[string]int) []PlanReason {
	list := []PlanReason{}
	for reason, n := range counts {
		list = append(list, PlanReason{reason, n})
	}
	slices.SortFunc(list, func(a, b PlanReason) int {
		return cmp.Or(-cmp.Compare(a.Count, b.Count), cmp.Compare(a.Reason, b.Reason))
	})
	return list
}

func (p *Plan) print(out io.Writer, wide bool) error {
	table := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0)
	if p.DryRun {
		fmt.Fprintln(table, "The policy is a dry run: nothing of this is deleted.")
	}
	fmt.Fprintf(table, "RULE\tKIND\tDUE NOW\tBY %s\tLATER\tBYTES\n", p.Until.Format("2006-01-02T15:04Z"))
	for _, r := range p.Rules {
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%d\t%d\n", r.Rule, r.Kind, r.Now, r.Within, r.Later, r.Bytes)
	}
	if len(p.Kept)+len(p.Skipped) > 0 {
		fmt.Fprintln(table, "\nSTAYS\tBECAUSE\tOBJECTS")
	}
	for _, r := range p.Kept {
		fmt.Fprintf(table, "%s\t%s\t%d\n", retention.Keep, r.Reason, r.Count)
	}
	for _, r := range p.Skipped {
		fmt.Fprintf(table, "%s\t%s\t%d\n", retention.Skip, r.Reason, r.Count)
	}
	if wide {
		fmt.Fprintln(table, "\nOBJECT\tDUE\tRULE\tWHY")
		items := slices.DeleteFunc(slices.Clone(p.Objects), func(i PlannedItem) bool { return i.Due == nil || i.Due.After(p.Until) })
		slices.SortStableFunc(items, func(a, b PlannedItem) int { return a.Due.Compare(*b.Due) })
		for _, i := range items {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", i.Object, i.Due.Format(time.RFC3339), i.Rule, i.Why)
		}
	}
	return table.Flush()
}

// eachObject lists the objects of a kind, in pages, in the first version that is served.
func (s *session) eachObject(ctx context.Context, k *retention.Kind, each func(*unstructured.Unstructured)) error {
	var err error
	for _, r := range k.Resources() {
		err = pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return s.clients.Dynamic.Resource(r).List(ctx, o)
		}).EachListItem(ctx, metav1.ListOptions{}, func(o runtime.Object) error {
			if u, ok := o.(*unstructured.Unstructured); ok {
				each(u)
			}
			return nil
		})
		if !apierrors.IsNotFound(err) {
			return err
		}
	}
	return err
}

func (s *session) eachPod(ctx context.Context, k *retention.Kind, each func(*corev1.Pod)) error {
	return pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return s.clients.Kube.CoreV1().Pods(metav1.NamespaceAll).List(ctx, o)
	}).EachListItem(ctx, metav1.ListOptions{LabelSelector: k.PodLabel}, func(o runtime.Object) error {
		if pod, ok := o.(*corev1.Pod); ok {
			each(pod)
		}
		return nil
	})
}

// keys is a queue that is worked off by hand; what is to be done later is not done.
type keys struct {
	waiting []sweep.Key
	known   map[sweep.Key]bool
}

func (k *keys) Add(key sweep.Key) {
	if k.known == nil {
		k.known = map[sweep.Key]bool{}
	}
	if !k.known[key] {
		k.known[key] = true
		k.waiting = append(k.waiting, key)
	}
}

func (k *keys) AddAfter(sweep.Key, time.Duration) {}

func (k *keys) next() (sweep.Key, bool) {
	if len(k.waiting) == 0 {
		return sweep.Key{}, false
	}
	key := k.waiting[0]
	k.waiting = k.waiting[1:]
	delete(k.known, key)
	return key, true
}

// podList knows the pods of TrainJobs by what their own status says. A running orphand knows more: a pod that vanished
// without proof keeps its TrainJob too, and so does a JobSet that asks to be kept.
type podList struct {
	blind bool
	pods  map[types.NamespacedName][]retention.Pod
}

func (l *podList) add(job string, p *facts.Pod) {
	if l.pods == nil {
		l.pods = map[types.NamespacedName][]retention.Pod{}
	}
	at := types.NamespacedName{Namespace: p.Namespace, Name: job}
	l.pods[at] = append(l.pods[at], retention.Pod{Pod: p, Over: retention.Ended(p)})
}

// PodsOf satisfies sweep.Pods. Pods of another incarnation of the name count as well: better kept than sorry.
func (l *podList) PodsOf(job facts.JobKey) ([]retention.Pod, bool) {
	return l.pods[job.Incarnations()], !l.blind
}

// JobOf satisfies sweep.Pods; nobody is asked for the incarnation.
func (l *podList) JobOf(types.UID) (job facts.JobKey, over, known bool) {
	return facts.JobKey{}, false, false
}

// Keeps satisfies sweep.Pods.
func (l *podList) Keeps(facts.JobKey) bool { return false }

var (
	errNoPolicy = errors.New("no retention policy")
	errNoKind   = errors.New("the retention policy knows no such kind")
)

// retention explains what the policy decides of an object; false when there is none of that name.
func (x *explainer) retention(ctx context.Context, input io.Reader, file, kind, namespace, name string) (bool, error) {
	data, err := x.policy(ctx, input, file)
	if apierrors.IsForbidden(err) {
		err = fmt.Errorf("%w can be read: %v", errNoPolicy, err)
	}
	if err != nil {
		return false, err
	}
	policy, problems := retention.Load(data)
	if policy == nil {
		return false, &failure{Code: ExitUsage, err: problems}
	}
	k := policy.Named(kind)
	if k == nil {
		return false, errNoKind
	}
	plan, err := x.plan(ctx, policy, []*retention.Kind{k}, 0, clock.RealClock{}, io.Discard)
	if err != nil {
		return false, err
	}
	ref := facts.Ref{Namespace: namespace, Kind: k.Kind, Name: name}.String()
	for _, o := range plan.Objects {
		if o.Object == ref {
			fmt.Fprintf(x.out, "%s (UID %s)\n  retention: %s\n", o.Object, o.UID, o.Decision)
			if o.Finished != nil {
				fmt.Fprintf(x.out, "  finished %s: %s\n", o.Finished.Format(time.RFC3339), o.Outcome)
			}
			_, err := fmt.Fprintf(x.out, "  %s\n", o.Why)
			return true, err
		}
	}
	return false, nil
}
