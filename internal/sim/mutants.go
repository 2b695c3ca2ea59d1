package sim

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Mutant is a deliberately broken variant of the rule or the engine, as an edit of its source: the program that people run
// has no switch for it. A simulator that does not catch a mutant would not notice if somebody made that mistake.
type Mutant struct {
	// Name says what the mutant believes.
	Name string
	// File is the source file, seen from the module's root, and Edits what is changed in it.
	File  string
	Edits []Edit
	// Tests are the packages whose tests catch it, where another guard stands behind the one that it does without: in
	// histories the two are hardly ever apart, and only a test knows which of them answered.
	Tests []string
}

// Edit replaces a text that occurs exactly once.
type Edit struct{ Old, New string }

// Mutants lists the mutants: for each row of the table of verdicts, and each guard of the rule and the engine, one that does
// without it.
func Mutants() []Mutant {
	judge := mutantsIn("pkg/nodeproof/judge.go")
	history := mutantsIn("pkg/nodeproof/history.go")
	confirm := mutantsIn("pkg/nodeproof/confirm.go")
	nodes := mutantsIn("pkg/nodeproof/nodes.go")
	settle := func(name, file, old, with string) Mutant { return mutantsIn("pkg/settle/"+file)(name, old, with) }
	return append(mutantsOfDeleting(), []Mutant{
		// The rows of the table.
		judge("a pod that waits for a node is gone",
			"j.set(Alive, Pending)", "j.gone(Evidence{Reason: NeverStarted, Source: p.Ref(), At: j.now})"),
		judge("a pod last seen unbound whose end nobody saw was never bound",
			"case p.Terminating(), h.Removal == Deleted, h.Removal == Unseen && p.Inert:", "case p.Terminating(), h.Removal != Present:"),
		judge("nodes that may not be read prove as much as others",
			"if !j.nodes.Readable {", "if false {"),
		judge("an object that is gone is a pod that is gone",
			"	if !j.nodes.Readable {", "	if h.Removal != Present {\n		j.gone(Evidence{Reason: KubeletConfirmed, Source: p.Ref(), At: j.now})\n		return\n	}\n	if !j.nodes.Readable {"),
		judge("a node that is silent for five minutes is dead",
			"	if !n.Heard() {\n		j.set(Unproven, NodeUnreachable)", "	if !n.Heard() {\n		if h.Asked.Known() && j.due(h.Asked.After(5*time.Minute)) {\n			j.gone(Evidence{Reason: NodeDeleted, Source: p().Ref(), At: j.now})\n			return\n		}\n		j.set(Unproven, NodeUnreachable)").
			and("func (j *judgement) doubt() {\n	h := j.h", "func (j *judgement) doubt() {\n	h := j.h\n	p := func() *facts.Pod { return h.Pod }"),
		judge("what was proven may be unproven when the taint or the Node is gone",
			"	if h.Proof != nil {\n		j.Verdict", "	if false {\n		j.Verdict").
			and("if r.Proof == nil && e.Machine == r.Machine && e.Boot == r.Boot {", "if false {"),
		judge("one machine accounted for is enough",
			"if len(h.Runs) > 0 && unaccounted == 0 {", "if len(h.Runs) > 0 && unaccounted < len(h.Runs) {"),
		judge("evidence of the node counts for a pod that nobody asked to terminate",
			"if r.Before || j.h.Pod.Mirror || !j.h.Asked.Known() || !j.h.Anchored.Known() {", "if r.Before || j.h.Pod.Mirror {"),

		// The kubelet's word.
		confirm("a terminal phase is a confirmation", "|| p.Forged() || p.AnyRunning() {", "{").
			and("	case lost:\n		return weak", "	case false:\n		return weak").
			and("return unconfirmed\n		}\n	}\n	switch {", "return confirmed\n		}\n	}\n	switch {"),
		confirm("whoever wrote the phase is a kubelet", "|| p.Forged() ||", "||"),
		confirm("a container that the kubelet lost has ended", "	case lost:\n		return weak", "	case false:\n		return weak"),
		confirm("a pod without statuses never ran", "		return weak\n	}\n	for", "		return bare\n	}\n	for"),
		confirm("only the app containers count", "if c.HasID || c.HasLast {\n				return unconfirmed\n			}", "if false {\n			}").
			and("|| p.AnyRunning() {", "|| anyApp(p) {").
			and("// confirmedBy says", "func anyApp(p *facts.Pod) bool {\n	for i := range p.Containers {\n		if c := &p.Containers[i]; c.Role == facts.App && c.State == facts.Running {\n			return true\n		}\n	}\n	return false\n}\n\n// confirmedBy says"),
		confirm("one container of a machine speaks for all", "return yes && (i == len(h.Runs)-1 || !theirs), known", "return yes && (theirs || !theirs), known").by("./pkg/nodeproof"),
		judge("weak evidence counts at once", "from = max(h.WeakSeen, in.ReadySince).After(j.o.WeakEvidenceDelay)", "from = max(h.WeakSeen, in.ReadySince)"),
		judge("whoever has the node's name speaks for the pod", "if yes, known := h.confirmedBy(i); known {\n			return e, yes && j.spoke(i)\n		}", "return e, true"),
		judge("containers without IDs are the machine's that the watch shows",
			"l, ok := j.read(p.Node, h.ConfirmSeen)\n			return e, ok && l.Node != nil && l.Node.MachineID() == r.Machine", "return e, n.MachineID() == r.Machine").by("./pkg/nodeproof"),
		judge("a kubelet's word does not age when another machine had the name",
			"in.HeldSince > h.ConfirmSeen && r.Seen <= h.ConfirmSeen", "false").by("./pkg/nodeproof"),
		judge("whoever ended the containers wrote the phase", "return e, yes && j.spoke(i)", "return e, yes").by("./pkg/nodeproof"),
		history("every container is the last machine's", "certain := original && atOnce(p, c) && len(last.Late) == 0", "certain := true"),
		history("a container is as old as what is known of its Node", "case since.Known() && c.Started.Known() && c.Started < since.Add(clocksDiffer):", "case false && since.Known():").by("./pkg/nodeproof"),
		history("a container is the first in its place for ever", "	was := h.Named & bit\n", "	was := uint64(0)\n").by("./pkg/nodeproof"),
		history("a container is the first in its place when it is seen first", "original := h.first(i) && !again(c)", "original := h.first(i)").by("./pkg/nodeproof"),
		history("a pod is as old as its Node", "return at.Known() && node.Created.Known() && at < node.Created", "return at < 0"),
		history("a pod first seen late ran on the present machine only", "if at.Known() && at < f.Until.Add(clocksDiffer) {", "if at < 0 {"),

		// The reboot.
		history("the watch of Nodes is never behind that of pods",
			"	if l, ok := nodes.Live(h.Pod.Node); ok && l.At >= h.Asked && h.anchoring == nil {\n		h.anchoring = &l\n		if l.Node != nil {\n			h.mayRunOn(l.Node, now)\n		}\n	}\n",
			"	if h.Anchored = now; h.Anchored.Known() {\n		return\n	}\n"),
		history("the watch of Nodes is never behind a live read", "if l == nil || !nodes.reached(h.Pod.Node, *l) {", "if l == nil {").by("./pkg/nodeproof"),
		judge("any other boot is a later one", "case in.Node.UID == r.NodeUID, in.BootSeen > j.h.Anchored:", "default:"),
		Mutant{Name: "a live read says what was when it was answered", File: "pkg/settle/sync.go", Edits: []Edit{{"e.nodes.SeeLive(name, n, wanted)", "e.nodes.SeeLive(name, n, now)"}}},

		history("a pod first seen after its Node ran on no machine that is known", "if len(h.Runs) == 0 && in == nil {\n		h.mayHaveRunBefore(nodes.past(h.Pod.Node), now)\n", "if len(h.Runs) == 0 && in == nil {\n").by("./pkg/nodeproof"),
		history("a pod that is older than its Node ran on no machine that is known", "if h.startedBefore(in.Node) {\n			h.mayHaveRunBefore", "if false {\n			h.mayHaveRunBefore"),
		nodes("a live read tells of the present only", "		in.Shown = node\n", ""),

		// The taint.
		nodes("a taint is of this outage, though the node was back meanwhile", "		in.TaintStale = true\n", ""),
		nodes("a taint is of this outage, though nobody can tell when it was set", "node.Ready == facts.ReadyTrue || node.TaintRewritten ||\n", "node.Ready == facts.ReadyTrue ||\n"),
		judge("a taint on a Ready node is proof", "in.TaintStale || in.Node.Ready == facts.ReadyTrue || !r.on(in.Node)", "!r.on(in.Node)").
			and("l.Node.OutOfService && l.Node.Ready != facts.ReadyTrue && r.on(l.Node)", "l.Node.OutOfService && r.on(l.Node)"),
		judge("a taint is as young as the pod", "return start > seen || n.TaintedAt.Known() && n.TaintedAt < start", "return false").by("./pkg/nodeproof"),

		// The deletion of a Node.
		judge("a Node that is gone is a machine that is gone", "from := max(a.since.After(j.o.NodeDeletionQuarantine), j.h.Asked)", "from := max(a.since, j.h.Asked)"),
		judge("a Node that was Ready proves as much as one that was silent", "	if a.ready {\n		from = max(", "	if a.ready && false {\n		from = max("),
		judge("SIGKILL comes with the end of the grace", "const killMargin = 10 * time.Second", "const killMargin = time.Duration(0)"),
		judge("a kubelet that came back has no grace left to give", "heard: in.ReadySince}", "heard: 0}"),
		history("the last grace that the API shows is the kubelet's", "if grace < p.SpecGrace {", "if false {"),
		judge("the watch of Nodes misses nothing", "	l, ok := j.read(r.Node, from)\n	if !ok {\n		return e, false\n	}\n	if l.Node == nil {\n		return e, true\n	}\n	return e, r.NodeUID", "	l := Live{}\n	if l.Node == nil {\n		return e, true\n	}\n	return e, r.NodeUID"),
		judge("a machine that nobody looks for is not there", "if r.TakenOver || j.nodes.unwatched {", "if r.TakenOver {").
			and("if again := j.nodes.watchedSince; again > a.since {", "if again := j.nodes.watchedSince; again < 0 {"),
		judge("a machine is looked for under its own Node only", "if in.Node.UID != r.NodeUID && r.same(in.Node) {\n			return in", "if false {\n			return in").
			and("	return e, r.NodeUID != \"\" && l.Node.UID != r.NodeUID && !r.same(l.Node)", "	return e, r.NodeUID != \"\" && l.Node.UID != r.NodeUID").by("./pkg/nodeproof"),
		judge("the last machine of a Node is every machine that it had", "in != nil && in.machine() != r.Machine {\n		return e, false", "in != nil && false {\n		return e, false").
			and("if r.TakenOver || j.nodes.unwatched {", "if j.nodes.unwatched {"),

		// A person's word.
		judge("a person's word is for ever", "return a, ok && j.h.Asked.Known() && a.At >= j.h.Asked", "return a, ok && j.h.Asked.Known()"),
		judge("a person's word on a Node is for every machine that it had", "ok && j.shows(i, a.At) {", "ok {"),

		// What the watches say.
		{Name: "a deletion without a deletionTimestamp is a deletion", File: "pkg/informers/observe.go", Edits: []Edit{{"if how == Final && (!p.Terminating() || p.Grace > 0) {", "if false {"}}},
		{Name: "the last state that was cached is the final one", File: "pkg/settle/observe.go", Edits: []Edit{{"	case informers.Missed:\n		e.vanish(p, nodeproof.Unseen, nil, now)", "	case informers.Missed:\n		e.vanish(p, nodeproof.Deleted, f, now)"}}},
		{Name: "one name is one object", File: "pkg/informers/observe.go", Edits: []Edit{{"return old.Identity().UID != now.Identity().UID", "return false"}}},
		history("a pod that was missing from a list was asked to terminate", "		h.Asked, h.GraceEnds, h.Anchored, h.anchoring = 0, 0, 0, nil\n", "").by("./pkg/nodeproof"),

		// The job.
		settle("a TrainJob that nobody saw is gone", "sync.go", "	if !j.present && !j.sure ||", "	if !j.present && !j.sure {\n		j.sure = true\n		if !j.gone.Known() {\n			j.gone = now\n		}\n	}\n	if false ||"),
		settle("no child arrives late", "job.go", "return max(from, j.stirred).After(o.Quiet)", "return from"),
		settle("a JobSet that is left starts nothing", "job.go", "		if makesPods(o) {\n			return true", "		if o.Kind == \"\" {\n			return true"),
		settle("the caches know of every pod", "job.go", "now < j.quietEnds(o), j.surveyed < j.quietEnds(o):", "now < j.quietEnds(o):"),
		settle("a pod that is unproven is none of the job's business", "job.go", "	case j.counts[nodeproof.Unproven] > 0:\n		return Unproven\n", ""),
		settle("a JobSet whose owner was taken off is nobody's", "observe.go", "if known, ok := e.jobSets[uid]; ok && (known == key || key == (facts.JobKey{})) {", "if known, ok := e.jobSets[uid]; ok && known == key {"),
		settle("a watch that is behind knows better than a live read", "observe.go", "	if j.sure { // a live read", "	if false { // a live read"),

		// The findings.
		settle("a machine that comes back is nothing to speak of", "findings.go", "func (e *Engine) nodeReturned(p *pod, node string, m facts.Machine, boot string, unsure bool) {\n", "func (e *Engine) nodeReturned(p *pod, node string, m facts.Machine, boot string, unsure bool) {\n	if p != nil {\n		return\n	}\n"),
		settle("a taint on a Ready node is nothing to speak of", "findings.go", "e.set(n.OutOfService && n.Ready == facts.ReadyTrue, j, signals.OutOfServiceOnReadyNode", "e.set(false, j, signals.OutOfServiceOnReadyNode"),
		settle("a child that arrives late is nothing to speak of", "findings.go", "	if j.state.Over() {\n		e.raise(j, signals.ReExecution, \"late:\"", "	if false {\n		e.raise(j, signals.ReExecution, \"late:\""),
		settle("a container that starts after all is nothing to speak of", "findings.go", "	switch proof := p.h.Proof; {\n	case proof != nil &&", "	switch proof := p.h.Proof; {\n	case false && proof != nil &&"),
	}...)
}

// mutantsIn makes mutants of one source file.
func mutantsIn(file string) func(name, old, with string) Mutant {
	return func(name, old, with string) Mutant { return Mutant{Name: name, File: file, Edits: []Edit{{old, with}}} }
}

// by leaves a mutant to the tests of packages.
func (m Mutant) by(packages ...string) Mutant {
	m.Tests = packages
	return m
}

func (m Mutant) and(old, with string) Mutant {
	m.Edits = append(m.Edits, Edit{old, with})
	return m
}

// Source is the mutant's source file, made from the one under root.
func (m Mutant) Source(root string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(root, m.File))
	if err != nil {
		return nil, err
	}
	s := string(text)
	for _, e := range m.Edits {
		if n := strings.Count(s, e.Old); n != 1 {
			return nil, fmt.Errorf("mutant %q: %q occurs %d times in %s: the source has changed, and the mutant must follow it", m.Name, e.Old, n, m.File)
		}
		s = strings.Replace(s, e.Old, e.New, 1)
	}
	return []byte(s), nil
}
