package ledger

import (
	"cmp"
	"slices"
	"strings"

	"github.com/orphand/orphand/api/v1alpha1"
	"github.com/orphand/orphand/pkg/facts"
)

// Refusal is a decision not to delete an object of a job.
type Refusal struct {
	Object facts.Ref
	// Reason is one word of a closed list, Message the same in words.
	Reason, Message string
	Since           facts.Instant
}

const (
	// maxRefused is how many objects are listed for a reason: ten thousand pods are refused for one reason, as a rule.
	maxRefused = 10
	// maxMessage is how many bytes of a message are kept: an API server's answer may quote the whole object.
	maxMessage = 512
)

// summarize lists each reason once, by the word. The oldest refusal speaks for its reason: a message that changes with every
// attempt on another object would be written each time.
func summarize(refusals []Refusal) []v1alpha1.RefusalSummary {
	refusals = slices.Clone(refusals)
	slices.SortFunc(refusals, func(a, b Refusal) int {
		return cmp.Or(cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Since, b.Since), cmp.Compare(a.Object.String(), b.Object.String()),
			cmp.Compare(a.Object.UID, b.Object.UID))
	})
	var list []v1alpha1.RefusalSummary
	for _, r := range refusals {
		if n := len(list); n == 0 || list[n-1].Reason != r.Reason {
			list = append(list, v1alpha1.RefusalSummary{Reason: r.Reason, Message: shortened(r.Message), Since: *stamp(r.Since), Objects: []string{}})
		}
		s := &list[len(list)-1]
		if len(s.Objects) == maxRefused {
			s.More++
			continue
		}
		s.Objects = append(s.Objects, strings.ToLower(r.Object.Kind)+"/"+r.Object.Name)
	}
	return list
}

// shortened cuts a message at a rune.
func shortened(s string) string {
	if len(s) <= maxMessage {
		return s
	}
	return strings.ToValidUTF8(s[:maxMessage], "") + "..."
}
