package retention

import "time"

// The version and kind that a policy file names.
const (
	APIVersion   = "orphand.dev/v1alpha1"
	DocumentKind = "RetentionPolicy"
)

// Document is a policy file. Decoding, the JSON Schema and the documentation all come from these types.
type Document struct {
	APIVersion string    `json:"apiVersion,omitempty" doc:"Version of the file's format." enum:"orphand.dev/v1alpha1"`
	Kind       string    `json:"kind,omitempty" doc:"Always RetentionPolicy." enum:"RetentionPolicy"`
	Metadata   *Metadata `json:"metadata,omitempty" doc:"Names the policy for people; decides nothing."`
	DryRun     bool      `json:"dryRun,omitempty" doc:"Decide and report, but delete nothing, whatever the rules say. A first installation starts with true."`
	Rules      []Rule    `json:"rules,omitempty" doc:"The first rule that matches an object decides on it. An object that no rule matches is kept."`
	Kinds      []NewKind `json:"kinds,omitempty" doc:"Kinds beyond the built-in ones."`
	// GitOpsMarks adds to the marks that are known.
	GitOpsMarks []string    `json:"gitOpsMarks,omitempty" doc:"Further labels or annotations that say that an object is kept in place by a GitOps tool, which would bring it back and run it again."`
	Recreation  *Recreation `json:"recreation,omitempty" doc:"When an object that comes back after its clean-up is left alone."`
	Namespaced  *Namespaced `json:"namespacePolicies,omitempty" doc:"Lets namespaces bring rules of their own, within limits."`
}

// Metadata is the usual metadata, as far as a file has it.
type Metadata struct {
	Name        string            `json:"name,omitempty" doc:"Name of the policy."`
	Labels      map[string]string `json:"labels,omitempty" doc:"Labels for whoever keeps the file."`
	Annotations map[string]string `json:"annotations,omitempty" doc:"Annotations for whoever keeps the file."`
}

// Rule says what becomes of the objects that it matches.
type Rule struct {
	Name  string `json:"name,omitempty" doc:"Name of the rule in decisions, logs and metrics; unique in the file."`
	Match *Match `json:"match,omitempty" doc:"What the rule is for; everything, when left out."`

	TTL              *ByOutcome `json:"ttlAfterFinished,omitempty" doc:"How long an object stays after it finished. 0s: it goes at once. Left out: it stays, unless another field says more."`
	Succeeded        *Duration  `json:"succeeded,omitempty" doc:"ttlAfterFinished for objects that succeeded."`
	Failed           *Duration  `json:"failed,omitempty" doc:"ttlAfterFinished for objects that failed."`
	DeadlineExceeded *Duration  `json:"deadlineExceeded,omitempty" doc:"ttlAfterFinished for objects that failed because their deadline passed; failed, when left out."`
	Min              *Duration  `json:"min,omitempty" doc:"Least time after the finish that an annotation can ask for."`
	Max              *Duration  `json:"max,omitempty" doc:"Longest time after the finish that an object stays, whatever its annotations ask for."`
	KeepLast         *KeepLast  `json:"keepLast,omitempty" doc:"Cap on how many finished objects stay: beyond the newest ones, the oldest go at once."`

	StopRunning *ByOutcome `json:"stopRunningAfter,omitempty" doc:"How long after the finish of their job pods that still run are stopped, to free what they hold."`
	DeletePods  *ByOutcome `json:"deletePodsAfter,omitempty" doc:"How long finished pods are kept for their logs, from their own end. Until then the job that they belong to stays as well."`

	DryRun      bool      `json:"dryRun,omitempty" doc:"Decide and report, but delete nothing by this rule."`
	Notice      *Duration `json:"notice,omitempty" doc:"How long before a deletion an Event on the object announces it; --notice, when left out. What is due already when it can first be announced goes that much later. 0s: no announcement."`
	Propagation string    `json:"propagation,omitempty" doc:"How dependents are deleted. Only Background: foreground deletion wedges TrainJobs, orphaning leaves their pods running." enum:"Background"`
}

// Match says which objects a rule is for. Every field that is set must match.
type Match struct {
	Kinds      []string  `json:"kinds,omitempty" doc:"Short names (TrainJob, Job, Workflow, ...) or resource.group (workflows.argoproj.io). Job is batch/v1. Every kind, when left out."`
	Namespaces []string  `json:"namespaces,omitempty" doc:"Namespaces, with * and ? as wildcards; a leading ! excludes. Every namespace, when left out."`
	Labels     *Selector `json:"labels,omitempty" doc:"Labels: a map of exact values, kubectl's selector syntax as text, or a LabelSelector with matchLabels and matchExpressions."`
	Expression string    `json:"expression,omitempty" doc:"CEL over the object, as 'object', that is true for what is meant."`
}

// KeepLast caps a group of finished objects of one kind under one rule.
type KeepLast struct {
	Succeeded *int   `json:"succeeded,omitempty" doc:"How many that succeeded stay; any number, when left out." min:"0"`
	Failed    *int   `json:"failed,omitempty" doc:"How many that failed stay; any number, when left out." min:"0"`
	Per       string `json:"per,omitempty" doc:"What makes a group: namespace (default), owner, or label:KEY for each value of that label within its namespace."`
}

// NewKind teaches orphand a kind without code.
type NewKind struct {
	Name     string   `json:"name,omitempty" doc:"Short name in rules; the kind, when left out."`
	Group    string   `json:"group" doc:"API group." required:"true"`
	Versions []string `json:"versions" doc:"Versions that can be read, the preferred one first." required:"true"`
	Resource string   `json:"resource" doc:"Resource name, plural and in lower case." required:"true"`
	Kind     string   `json:"kind" doc:"Kind, as objects name it." required:"true"`

	Finished   string `json:"finished,omitempty" doc:"CEL over 'object': a bool. By default one of the conditions Complete, Completed, Succeeded, Failed or Finished is True."`
	Outcome    string `json:"outcome,omitempty" doc:"CEL over 'object': succeeded, failed or deadlineExceeded as text. By default from the condition."`
	FinishTime string `json:"finishTime,omitempty" doc:"CEL over 'object': a timestamp, or its RFC 3339 text. By default the condition's last transition."`
	Suspended  string `json:"suspended,omitempty" doc:"CEL over 'object': a bool. By default spec.suspend."`
	TTL        string `json:"ttl,omitempty" doc:"CEL over 'object': the seconds of a TTL that the kind has itself. By default spec.ttlSecondsAfterFinished."`
	PodLabel   string `json:"podLabel,omitempty" doc:"Label of its pods that holds the object's name. Without one, the owner references of pods decide."`
}

// Recreation says when an object that comes back after its clean-up is left alone.
type Recreation struct {
	Limit  *int      `json:"limit,omitempty" doc:"From which re-creation on an object of that kind, namespace and name is left alone; 1 by default." min:"1"`
	Within *Duration `json:"within,omitempty" doc:"How soon after its clean-up a creation counts as a re-creation; 1h by default."`
}

// Namespaced lets namespaces bring rules of their own.
type Namespaced struct {
	Namespaces []string  `json:"namespaces" doc:"Namespaces that may, with * and ? as wildcards; a leading ! excludes." required:"true"`
	ConfigMap  string    `json:"configMap,omitempty" doc:"Name of the ConfigMap that holds the rules under policy.yaml; orphand-retention by default."`
	Min        *Duration `json:"min,omitempty" doc:"Least time after the finish that such a rule can ask for."`
	Max        *Duration `json:"max,omitempty" doc:"Longest time after the finish that such a rule can keep an object."`
}

// Duration is a duration of a policy: not negative.
type Duration time.Duration

// ByOutcome is one duration for everything, or one for each outcome.
type ByOutcome struct {
	All, Succeeded, Failed, DeadlineExceeded *Duration
}

// of is the duration for an outcome: its own, else that for everything. Of an outcome that nobody knows the longest.
func (b *ByOutcome) of(o Outcome) *Duration {
	if b == nil {
		return nil
	}
	own := func() *Duration {
		switch o {
		case Succeeded:
			return b.Succeeded
		case DeadlineExceeded:
			if b.DeadlineExceeded != nil {
				return b.DeadlineExceeded
			}
			return b.Failed
		case Failed:
			return b.Failed
		}
		return nil
	}()
	switch {
	case own != nil:
		return own
	case b.All != nil || o != Unclear:
		return b.All
	case b.Succeeded == nil || b.Failed == nil:
		return nil
	case *b.Succeeded > *b.Failed:
		return b.Succeeded
	}
	return b.Failed
}

// ttl is the rule's time after the finish, wherever it stands.
func (r *Rule) ttl(o Outcome) *Duration {
	merged := ByOutcome{}
	if r.TTL != nil {
		merged = *r.TTL
	}
	for _, f := range []struct{ to, from **Duration }{
		{&merged.Succeeded, &r.Succeeded}, {&merged.Failed, &r.Failed}, {&merged.DeadlineExceeded, &r.DeadlineExceeded}} {
		if *f.from != nil {
			*f.to = *f.from
		}
	}
	return merged.of(o)
}

// Selector is a label selector in any of its three notations.
type Selector struct {
	// Text is in kubectl's syntax, whatever it was written as.
	Text string
}
