package replay

import (
	"strings"
	"time"

	"github.com/orphand/orphand/pkg/retention"
)

// synonyms are words in which operators report what retention has its own word for.
func synonyms() map[string]retention.Reason {
	return map[string]retention.Reason{
		"pods not gone":     retention.RunningPods,
		"pods running":      retention.RunningPods,
		"managed by GitOps": retention.ExternallyManaged,
		"kept":              retention.Excluded,
	}
}

// retention is what retention decides of an object, and whether that is what is claimed.
func (c *checker) retention(claim RetentionClaim) (got string, holds bool) {
	if c.sweeper == nil {
		return "no decision: there is no policy, or the daemon does not run", false
	}
	var all []string
	for _, v := range c.sweeper.Views() {
		if v.Ref.String() != claim.Ref {
			continue
		}
		all = append(all, c.decision(v.Decision))
		holds = holds || c.decides(v.Decision, claim.Decision)
	}
	return strings.Join(all, ", "), holds
}

// decision writes a decision as claims do.
func (c *checker) decision(d retention.Decision) string {
	if d.Verb == retention.Delete {
		return string(d.Verb) + "@" + Offset(d.Due.Time().Sub(c.history.Start))
	}
	return string(d.Verb) + "(" + d.Why() + ")"
}

// decides says whether a claim is the decision: a bare word accepts any reason or time, DELETE@t any time.
func (c *checker) decides(d retention.Decision, claim string) bool {
	if verb, text, timed := strings.Cut(claim, "@"); timed {
		if at, rule, ruled := strings.Cut(strings.TrimSuffix(text, ")"), "("); ruled {
			if rule != d.Rule {
				return false
			}
			text = at
		}
		if verb != string(d.Verb) || text == "t" {
			return verb == string(d.Verb)
		}
		if at, err := time.Parse(time.RFC3339, text); err == nil {
			return d.Due.Time().Equal(at)
		}
		if text == "0" {
			text = "0s"
		}
		if seconds := strings.Trim(text, "-0123456789") == ""; seconds {
			text += "s"
		}
		offset, err := time.ParseDuration(text)
		return err == nil && d.Due.Time().Equal(c.history.Start.Add(offset))
	}
	verb, reason, reasoned := strings.Cut(strings.TrimSuffix(claim, ")"), "(")
	if verb != string(d.Verb) || !reasoned {
		return verb == string(d.Verb)
	}
	if word, ok := synonyms()[reason]; ok {
		reason = string(word)
	}
	return reason == d.Why() || reason == string(d.Reason)
}
