package sim

import (
	"fmt"
	"strings"
)

// ofDeleting says whether what is broken is an invariant of deleting.
func (v Violation) ofDeleting() bool {
	return v.Invariant == OnlyOrphans || v.Invariant == BrakesHold || v.Invariant == NamedByUID
}

// settings is the first document of a history in which orphand deletes: its mode and its flags. It is empty for the others.
func (r Result) settings() string {
	e := r.Plan.Enforce
	if !e.On {
		return ""
	}
	flags := []string{
		"gc-grace: " + e.GCGrace.String(), "runtime-copy-grace: " + e.CopyGrace.String(), "runtime-copy-labels: " + copies().String(),
		fmt.Sprintf("max-deletes-per-minute: %d", e.Brakes.MaxPerMinute), fmt.Sprintf("max-unreachable: %g", e.Brakes.MaxUnreachable),
		"calm: " + e.Brakes.Calm.String(),
	}
	if e.Excluded {
		flags = append(flags, "exclude-namespaces: "+namespace)
	}
	if e.DryRun {
		flags = append(flags, "dry-run: true")
	}
	return "mode: enforce\nflags: {" + strings.Join(flags, ", ") + "}\n"
}

// claimOfDeleting is that nothing was deleted but what had been, rightly, until then. A DELETE of the same object that was
// right before is not told from the one that was wrong.
func (r Result) claimOfDeleting() string {
	return "expect:\n  deletesWithin: [" + strings.Join(r.film.w.enforcing.before, ", ") + "]\n"
}
