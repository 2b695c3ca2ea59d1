package retention

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/orphand/orphand/pkg/facts"
)

// OwnerState is what is known of an object's controller owner.
type OwnerState uint8

// The states of a controller owner.
const (
	OwnerNone      OwnerState = iota // there is none
	OwnerLive                        // it is there, under the UID that the reference names
	OwnerGone                        // it is known not to be there
	OwnerUnread                      // nobody could tell
	OwnerElsewhere                   // that UID lives in another namespace: the reference is no good
)

// Pod is a pod of an object.
type Pod struct {
	*facts.Pod
	// Over says that nothing of it can be running: its verdict is Gone, or, where nobody judges it, its kubelet reported
	// every container ended.
	Over bool
	// Removed says that its object is not there any more.
	Removed bool
}

// Case is everything that a decision on one object reads.
type Case struct {
	Object *Object
	// Owner is the state of its controller owner.
	Owner OwnerState
	// Pods are its pods, as far as they are there or not over.
	Pods []Pod
	// PodsUnknown says that nobody can tell what pods it has.
	PodsUnknown bool
	// KeptBelow says that an object that would go with it, other than its pods, asks to be kept.
	KeptBelow bool
	// Recreated counts how often, lately, the object's name came back after its clean-up, this time included.
	Recreated int
	// Surplus is since when keepLast wants it gone; unknown for not at all.
	Surplus facts.Instant
	// Notice is how long before a deletion it is announced, by rules that do not say so themselves.
	Notice time.Duration
	Now    facts.Instant
}

// skewTolerance is how far clocks may differ before it is worth a word.
const skewTolerance = 10 * time.Second

// kindCronJob is the kind of controller whose history limits decide on its jobs.
const kindCronJob = "CronJob"

// Decide says what becomes of an object. It is a pure function of the policy and the case.
func (p *Policy) Decide(c Case) Decision {
	o := c.Object
	if d, ours := p.ours(c); !ours {
		return d
	}
	r := p.rule(o)
	if r == nil {
		return Decision{Verb: Keep, Reason: NoRule}
	}
	d := Decision{Rule: r.Name, DryRun: p.reports(r)}
	keep := func(why Reason) Decision {
		d.Verb, d.Reason = Keep, why
		return d
	}
	asked := o.asked(&d)
	asked.keep = asked.keep || c.KeptBelow || slices.ContainsFunc(c.Pods, func(p Pod) bool { return p.Keep && !p.Removed })
	switch {
	case asked.keep && r.max == nil:
		d.Verb, d.Reason = Skip, Excluded
		return d
	case c.Recreated > 0 && c.Recreated >= p.recreation.Limit:
		d.Verb, d.Reason = Skip, Recreated
		return d
	case c.Owner == OwnerUnread:
		return keep(OwnerUnknown)
	case !o.Finished && o.Suspended:
		return keep(Suspended)
	case !o.Finished:
		return keep(NotFinished)
	case !o.FinishedAt.Known():
		return keep(NoFinishTime)
	}
	d.Skewed = o.FinishedAt.Sub(c.Now) > skewTolerance
	if slices.ContainsFunc(c.Pods, func(p Pod) bool { return !p.Over }) {
		return keep(RunningPods)
	}
	if c.PodsUnknown {
		return keep(PodsUnknown)
	}
	if !r.due(&d, c, asked) {
		return keep(NoTTL)
	}
	if ends := r.logsUntil(c.Pods); ends > d.Due && ends > c.Now {
		d.Again = ends
		return keep(PodLogTime)
	}
	d.Verb = Delete
	d.Notice = min(r.notice(c.Notice), d.Due.Sub(o.FinishedAt))
	return d
}

// reports says whether what the rule says of an object is to be reported only. A namespace's rule can ask for that within the
// administrators' max, if there is one.
func (p *Policy) reports(r *rule) bool { return p.document.DryRun || r.DryRun && r.most == nil }

// notice is how long before a deletion it is announced.
func (r *rule) notice(otherwise time.Duration) time.Duration {
	if r.Rule.Notice != nil {
		return time.Duration(*r.Rule.Notice)
	}
	return otherwise
}

// ours says whether an object is the policy's to decide on at all; if not, the decision says why.
func (p *Policy) ours(c Case) (Decision, bool) {
	o := c.Object
	skip := func(why Reason) (Decision, bool) { return Decision{Verb: Skip, Reason: why}, false }
	_, included := o.Annotations[AnnotationInclude]
	switch {
	case o.Terminating():
		return skip(AlreadyTerminating)
	case c.Owner == OwnerElsewhere:
		return skip(InvalidOwner)
	case c.Owner == OwnerLive && o.Owner.Kind == kindCronJob:
		return skip(ControlledByCron)
	case c.Owner == OwnerLive:
		return Decision{Verb: Skip, Reason: OwnedByLive, Owner: o.Owner.Kind}, false
	case o.RemoteCopy:
		return skip(RemoteCopy)
	case o.GitOps != "" && !(included && isTrue(o.Annotations[AnnotationInclude])):
		return skip(ExternallyManaged)
	case o.Unreadable != "":
		return Decision{Verb: Keep, Reason: Unreadable}, false
	}
	return Decision{}, true
}

// wishes are what an object's annotations ask for.
type wishes struct {
	ttl   *time.Duration
	until facts.Instant
	keep  bool
}

func isTrue(text string) bool {
	b, err := strconv.ParseBool(text)
	return err == nil && b
}

// asked reads the annotations. What cannot be understood is as if it were not there, except a wish to keep, which is
// granted.
func (o *Object) asked(d *Decision) wishes {
	var w wishes
	warn := func(annotation, value, problem string) {
		d.Warnings = append(d.Warnings, Warning{annotation, value, problem})
	}
	if text, ok := o.Annotations[AnnotationTTL]; ok {
		if ttl, err := ParseDuration(text); err == nil {
			w.ttl = &ttl
		} else {
			warn(AnnotationTTL, text, err.Error())
		}
	}
	if text, ok := o.Annotations[AnnotationKeepUntil]; ok {
		if w.until = parseInstant(text); !w.until.Known() {
			warn(AnnotationKeepUntil, text, "use a time such as 2030-01-31T00:00:00Z")
		}
	}
	if text, ok := o.Annotations[AnnotationKeep]; ok {
		keep, err := strconv.ParseBool(text)
		if err != nil {
			keep = true
			warn(AnnotationKeep, text, "use true or false; kept, to be safe")
		}
		w.keep = keep
	}
	return w
}

// due sets when the object goes and why; false when nothing says that it ever does.
func (r *rule) due(d *Decision, c Case, w wishes) bool {
	o := c.Object
	known := false
	set := func(at facts.Instant, source Source) { d.Due, d.Source, known = at, source, true }
	if w.keep { // and there is a max, or it would be excluded
		set(instantOf(o.FinishedAt, r.max), FromMax)
		d.Clamp = "annotation " + AnnotationKeep + " is cut by max " + FormatDuration(time.Duration(*r.max))
		return true
	}
	if r.DryRun && r.most != nil { // a namespace may have its rules reported only, but not keep by that what the administrators let go
		set(instantOf(o.FinishedAt, r.max), FromMax)
		d.Clamp = "dryRun of a namespace's rule is cut by max " + FormatDuration(time.Duration(*r.max))
		return true
	}
	if r.unclear { // its rules could have raised what anything else asks for
		if r.max != nil {
			set(instantOf(o.FinishedAt, r.max), FromMax)
		}
		return known
	}
	switch {
	case w.ttl != nil:
		set(later(o.FinishedAt, r.clamp(*w.ttl, d)), FromAnnotation)
	case r.ttl(o.Outcome) != nil:
		set(instantOf(o.FinishedAt, r.ttl(o.Outcome)), FromRule)
	}
	if o.TTL != nil {
		if at := later(o.FinishedAt, *o.TTL); !known || at < d.Due {
			set(at, FromNative)
			d.Clamp = ""
		}
	}
	if c.Surplus.Known() {
		if at := max(c.Surplus, o.FinishedAt); !known || at < d.Due {
			set(at, FromKeepLast)
			d.Clamp = ""
		}
	}
	if r.least != nil && known && d.Source != FromAnnotation && d.Source != FromNative {
		if at := instantOf(o.FinishedAt, r.least); d.Due < at {
			d.Clamp = fmt.Sprintf("%s is raised to the administrators' min %s", d.Source, FormatDuration(time.Duration(*r.least)))
			d.Due = at
		}
	}
	if w.until.Known() && (!known || w.until > d.Due) {
		set(max(w.until, o.FinishedAt), FromKeepUntil)
		d.Clamp = ""
	}
	if r.max != nil {
		if at := instantOf(o.FinishedAt, r.max); !known || at < d.Due {
			if known {
				d.Clamp = fmt.Sprintf("%s is cut by max %s", d.Source, FormatDuration(time.Duration(*r.max)))
			}
			set(at, FromMax)
		}
	}
	return known
}

// clamp holds what an annotation asks for within the administrators' limits.
func (r *rule) clamp(asked time.Duration, d *Decision) time.Duration {
	if r.min != nil && asked < time.Duration(*r.min) {
		d.Clamp = fmt.Sprintf("%s is raised to min %s", FormatDuration(asked), FormatDuration(time.Duration(*r.min)))
		return time.Duration(*r.min)
	}
	if r.max != nil && asked > time.Duration(*r.max) {
		d.Clamp = fmt.Sprintf("%s is cut by max %s", FormatDuration(asked), FormatDuration(time.Duration(*r.max)))
		return time.Duration(*r.max)
	}
	return asked
}

// logsUntil is when the last of the pods that are there may go; unknown when none has to stay.
func (r *rule) logsUntil(pods []Pod) facts.Instant {
	var last facts.Instant
	for _, p := range pods {
		if p.Removed || r.DeletePods == nil {
			continue
		}
		keep, ended := r.DeletePods.of(podOutcome(p.Pod)), p.Ended()
		if keep != nil && ended.Known() {
			last = max(last, instantOf(ended, keep))
		}
	}
	return last
}

func podOutcome(p *facts.Pod) Outcome {
	switch p.Phase {
	case facts.PhaseSucceeded:
		return Succeeded
	case facts.PhaseFailed:
		return Failed
	}
	return Unclear
}
