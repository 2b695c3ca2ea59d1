package sim

// mutantsOfDeleting are those of what deletes: for each precondition of a DELETE, each live read before it and each of what
// holds it back, one that does without.
func mutantsOfDeleting() []Mutant {
	order := mutantsIn("pkg/reap/order.go")
	enforcer := mutantsIn("pkg/reap/enforcer.go")
	standing := mutantsIn("pkg/reap/standing.go")
	brakes := mutantsIn("pkg/reap/brakes.go")
	return []Mutant{
		// What a DELETE says.
		order("an object is deleted by its name", "Preconditions:     &metav1.Preconditions{UID: &uid},", "Preconditions:     &metav1.Preconditions{},").
			and("uid, background := o.target.UID, metav1", "background := metav1"),
		order("a name that was read is still the same object's", "		Preconditions:     &metav1.Preconditions{UID: &uid},\n", "").
			and("uid, background := o.target.UID, metav1", "background := metav1").
			and(`if o.version != "" {`, "if false {"),
		enforcer("nothing has changed since it was read", "return order.AtVersion(o.GetResourceVersion()), true", "return order, true"),
		order("an object is deleted in the foreground", "metav1.DeletePropagationBackground", "metav1.DeletePropagationForeground"),
		order("a pod is deleted at once", "		PropagationPolicy: &background,\n", "		PropagationPolicy: &background, GracePeriodSeconds: new(int64),\n"),
		enforcer("what was asked to go is asked again", "	if o.GetDeletionTimestamp() != nil {\n", "	if false {\n"),

		// Whose it is.
		enforcer("an owner that the caches do not show is not there",
			"	t.rootRead = true\n", "	t.rootRead, t.root = true, absent\n	if t.root == absent {\n		return nil\n	}\n").
			and("	if reason, about := s.decide(); reason", "	for i := range s.owners {\n		s.owners[i].is = absent\n	}\n	if reason, about := s.decide(); reason"),
		enforcer("what begins with the job's name is the job's",
			`reason, about := s.decide(); reason != "" {`, `reason, about := s.decide(); reason != "" && !(reason == NoOwner && len(c.Name) > len(t.left.Job.Name) && c.Name[:len(t.left.Job.Name)] == t.left.Job.Name) {`),
		standing("what nothing owns is an orphan", "if !ofJob {", "if false {"),
		standing("only the controller's life counts", "		switch o.is {\n", "		if !o.Controller {\n			continue\n		}\n		switch o.is {\n"),
		enforcer("an orphan is nobody's, whoever has its name", "if t.namesake != nil && !t.namesake.After", "if false && !t.namesake.After"),
		enforcer("an owner in another namespace is none", "case t.left.Elsewhere:", "case false:").
			and("case slices.Contains(t.left.Misplaced, c.UID):", "case false:"),
		enforcer("only a TrainJob can be in another namespace", "case slices.Contains(t.left.Misplaced, c.UID):", "case false:"),
		enforcer("a mirror pod is a pod", "case c.mirror:", "case false:").
			and("keeps(o), mirror(o),", "keeps(o), false,"),
		standing("a runtime copy that nothing owns is used by nobody", "case s.copy && len(s.users) > 0:", "case false:"),

		// What holds it back.
		enforcer("no brake is asked", `t.c.Brakes.Held(now); reason != "" {`, `t.c.Brakes.Held(now); false && reason != "" {`).
			and(`t.c.Brakes.Take(t.c.Clock.Now()); reason != "" {`, `t.c.Brakes.Take(t.c.Clock.Now()); false && reason != "" {`),
		enforcer("what the brake said before the reads still holds",
			`t.c.Brakes.Take(t.c.Clock.Now()); reason != "" {`, `t.c.Brakes.Take(t.c.Clock.Now()); false && reason != "" {`),
		brakes("silent nodes are none of its business", "	case w.stormy:\n", "	case false:\n"),
		brakes("a storm is over when it is over", "case !w.calmSince.IsZero() &&", "case false &&"),
		brakes("nodes that may not be read are all well", "	case !w.readable:\n", "	case false:\n"),
		brakes("as many as there are", "	if len(p.sent) < limit {\n", "	if true {\n"),
		enforcer("a person's wish to keep something is not asked for", "case c.keep:", "case false:").
			and("keeps(o), mirror(o),", "false, mirror(o),"),
		enforcer("a wish to keep something is as old as the cache", "keeps(o), mirror(o),", "false, mirror(o),"),
		enforcer("what goes with an object has no say", "		if keep {\n", "		if false {\n"),
		enforcer("every namespace is its business", "case !t.c.Namespaces(c.Namespace):", "case false:"),
		enforcer("what it may not do it tries", "case !enforced:", "case false && !enforced:"),
		enforcer("--dry-run deletes", "	if t.c.DryRun {\n", "	if false {\n"),
		{Name: "a leader that slept still leads", File: "pkg/reap/deleter.go", Edits: []Edit{{"if err := d.gate(); err != nil {", "if err := d.gate(); false && err != nil {"}}},
		{Name: "what was refused is tried again at once", File: "pkg/reap/deleter.go", Edits: []Edit{{"mine.next = d.clock.Now().Add(Pause(mine.failures, err))", "mine.next = d.clock.Now().Add(0 * Pause(mine.failures, err))"}}},
		{Name: "Retry-After is advice", File: "pkg/reap/answer.go", Edits: []Edit{{"apierrors.SuggestsClientDelay(err); asked {", "apierrors.SuggestsClientDelay(err); false && asked {"}}},
		{Name: "the garbage collector needs no time", File: "pkg/settle/enforce.go", Edits: []Edit{{"!j.sure || e.now() < j.collectedBy(e.c.Options) ||", "!j.sure ||"}}},
	}
}
