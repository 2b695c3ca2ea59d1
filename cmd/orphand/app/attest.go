package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/orphand/orphand/api/v1alpha1"
	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/ledger"
)

func newAttestCommand(streams Streams) *cobra.Command {
	a := &attester{streams: streams, clock: clock.RealClock{}}
	all := false
	cmd := &cobra.Command{
		Use:   "attest node|pod NAME --uid UID --reason TEXT",
		Short: "Vouch that no process of a pod, or of any pod on a Node, is running",
		Long: `attest puts a person's word on the records of the jobs that wait for a pod, or for pods
on a Node: nothing of it runs any more. Such a pod then counts as Gone, and its job may be
run again. Give your word only for a machine that you know to be off, or a process that
you have seen dead: two executions of one job destroy its results.

The word is of one UID: the Node object under which the machine ran the pods, or the pod.
It carries the name under which the API server knows you; where the cluster has orphand's
admission policy, nobody can give another's word, and the verb attest on orphans is needed.

A word that has not been used yet can be taken back with --revoke. A pod that was called
Gone by it stays Gone.`,
		Example: `  orphand attest node gpu-17 --uid 0b9a7c3e-... --reason "powered off at the rack, ticket 4711"
  orphand attest pod llm-node-0-1-x7k2p -n team-a --uid 51c0d2aa-... --reason "looked on the node: no process"`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usage("attest needs node or pod, and a NAME")
			}
			return nil
		},
	}
	cluster := clusterFlags(cmd)
	cmd.Flags().StringVar(&a.uid, "uid", "", "UID of the Node or pod")
	cmd.Flags().StringVar(&a.reason, "reason", "", "how you know")
	cmd.Flags().BoolVarP(&all, "all-namespaces", "A", false, "of a Node: the records of every namespace; the default for a Node without -n")
	cmd.Flags().BoolVar(&a.revoke, "revoke", false, "take the word back")
	cmd.Flags().BoolVarP(&a.yes, "yes", "y", false, "do not ask")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch strings.ToLower(args[0]) {
		case "node", "nodes", "no":
			a.kind = facts.KindNode
		case "pod", "pods", "po":
			a.kind = facts.KindPod
		default:
			return usage("%q: attest a node or a pod", args[0])
		}
		a.name = args[1]
		switch {
		case a.uid == "":
			return usage("--uid is needed: a name may belong to another machine or pod by now")
		case !a.revoke && strings.TrimSpace(a.reason) == "":
			return usage("--reason is needed: say how you know")
		}
		s, err := openSession(cluster)
		if err != nil {
			return err
		}
		a.session = s
		namespace := s.namespace
		if a.kind == facts.KindNode && (all || *cluster.Namespace == "") {
			namespace = ""
		}
		return clusterFailure(a.run(cmd.Context(), namespace))
	}
	return cmd
}

// attester gives a person's word.
type attester struct {
	*session
	streams                 Streams
	clock                   clock.PassiveClock
	kind, name, uid, reason string
	revoke, yes             bool
}

func (a *attester) run(ctx context.Context, namespace string) error {
	records, _, served, err := a.records(ctx, namespace)
	switch {
	case err != nil:
		return err
	case !served:
		return errors.New("this cluster keeps no records (apply orphand's CustomResourceDefinition): there is nothing to put a word on")
	}
	var chosen []*v1alpha1.Orphan
	var concerned []string
	for _, o := range records {
		has := slices.ContainsFunc(o.Spec.Attestations, func(x v1alpha1.Attestation) bool { return x.UID == a.uid })
		pods, err := a.pods(o)
		if err != nil {
			return err
		}
		if a.revoke && has || !a.revoke && len(pods) > 0 {
			chosen = append(chosen, o)
			concerned = append(concerned, pods...)
		}
	}
	switch {
	case len(chosen) == 0 && a.revoke:
		return fmt.Errorf("no record has a word on UID %s", a.uid)
	case len(chosen) == 0:
		return fmt.Errorf("no record waits for %s %s with UID %s", strings.ToLower(a.kind), a.name, a.uid)
	}
	me, err := a.whoAmI(ctx)
	if err != nil {
		return err
	}
	if !a.revoke && !a.yes {
		question := fmt.Sprintf("You, %s, vouch that no process of these runs any more:\n  %s\nTheir jobs may then be run again. Do you know it?", me, strings.Join(shorten(concerned, 20), "\n  "))
		if err := confirm(a.streams.Err, os.Stdin, question); err != nil {
			return err
		}
	}
	for _, o := range chosen {
		if err := a.write(ctx, o, me); err != nil {
			return fmt.Errorf("record %s/%s: %w", o.Namespace, o.Name, err)
		}
		done := "vouched for by " + me
		if a.revoke {
			done = "the word was taken back"
		}
		fmt.Fprintf(a.streams.Out, "orphan.orphand.dev/%s -n %s: %s %s: %s\n", o.Name, o.Namespace, strings.ToLower(a.kind), a.name, done)
	}
	return nil
}

// pods lists the pods of a record that the word would be about.
func (a *attester) pods(o *v1alpha1.Orphan) ([]string, error) {
	note, err := ledger.Read(o)
	if err != nil {
		return nil, err
	}
	var list []string
	for _, p := range note.Pods {
		f := p.History.Pod
		about := a.kind == facts.KindPod && f.UID == types.UID(a.uid) && f.Name == a.name
		for _, r := range p.History.Runs {
			about = about || a.kind == facts.KindNode && r.NodeUID == types.UID(a.uid) && r.Node == a.name
		}
		if about {
			list = append(list, fmt.Sprintf("%s/%s (%s/%s)", f.Namespace, f.Name, p.Said.Verdict, p.Said.Reason))
		}
	}
	return list, nil
}

// whoAmI asks the API server under which name it knows this person.
func (a *attester) whoAmI(ctx context.Context) (string, error) {
	review, err := a.clients.Kube.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("asking the API server who you are: %w", err)
	}
	return review.Status.UserInfo.Username, nil
}

// write puts the word on a record, or takes it back: by server-side apply under a field manager that is this word's own, so
// that it touches nobody else's.
func (a *attester) write(ctx context.Context, o *v1alpha1.Orphan, by string) error {
	words := []any{}
	if !a.revoke {
		words = append(words, map[string]any{"kind": a.kind, "name": a.name, "uid": a.uid, "by": by, "reason": a.reason,
			"at": a.clock.Now().UTC().Format(time.RFC3339)})
	}
	part := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.Orphans.GroupVersion().String(), "kind": v1alpha1.KindOrphan,
		// The UID: never the record of another incarnation that has the name by now.
		"metadata": map[string]any{"namespace": o.Namespace, "name": o.Name, "uid": string(o.UID)},
		"spec":     map[string]any{"attestations": words},
	}}
	_, err := a.clients.Dynamic.Resource(v1alpha1.Orphans).Namespace(o.Namespace).Apply(ctx, o.Name, part,
		metav1.ApplyOptions{FieldManager: "orphand-attest-" + a.uid, Force: false})
	return err
}
