package retention

import (
	"cmp"
	"slices"
	"strings"

	"github.com/orphand/orphand/pkg/facts"
	"k8s.io/apimachinery/pkg/types"
)

// group is what keepLast counts together.
type group struct {
	rule    *rule
	kind    string
	outcome Outcome
	// within is the namespace, with the owner's UID or the label's value where the rule says so.
	within string
}

// cap is the group of an object and how many of it stay; false when nothing caps it.
func (r *rule) cap(o *Object) (group, int, bool) {
	if r == nil || r.KeepLast == nil {
		return group{}, 0, false
	}
	limit := r.KeepLast.Failed
	if o.Outcome.group() == Succeeded {
		limit = r.KeepLast.Succeeded
	}
	if limit == nil {
		return group{}, 0, false
	}
	g := group{rule: r, kind: o.Of.GroupResource(), outcome: o.Outcome.group(), within: o.Namespace}
	if r.KeepLast.Per == "owner" {
		g.within += "/" + string(o.Owner.UID)
	} else if label, ok := strings.CutPrefix(r.KeepLast.Per, "label:"); ok {
		g.within += "/" + o.Labels[label]
	}
	return g, *limit, true
}

// Capped says whether keepLast of some rule counts the object.
func (p *Policy) Capped(o *Object) bool {
	_, _, capped := p.rule(o).cap(o)
	return capped
}

// Surplus tells, of the objects that keepLast counts, those beyond the newest that may stay, and since when: each since
// the newer ones that fill the cap had finished.
//
// Only what would go counts: an object that is kept for another reason than time, or skipped, or is terminating, takes no
// place and gives none. Of a tie the lower UID goes first.
func (p *Policy) Surplus(cases []Case) map[types.UID]facts.Instant {
	groups := map[group][]*Object{}
	for _, c := range cases {
		g, _, capped := p.rule(c.Object).cap(c.Object)
		if !capped || !c.Object.FinishedAt.Known() {
			continue
		}
		c.Surplus = c.Object.FinishedAt // as if it were beyond the cap: is there anything else that keeps it?
		d := p.Decide(c)
		held := d.Due > c.Now && (d.Source == FromKeepUntil || d.Source == FromMax)
		if d.Verb != Delete || held {
			continue
		}
		groups[g] = append(groups[g], c.Object)
	}
	surplus := map[types.UID]facts.Instant{}
	for g, members := range groups {
		_, limit, _ := g.rule.cap(members[0])
		slices.SortFunc(members, func(a, b *Object) int {
			return cmp.Or(cmp.Compare(b.FinishedAt, a.FinishedAt), cmp.Compare(b.UID, a.UID))
		})
		for i := limit; i < len(members); i++ {
			since := members[i].FinishedAt
			if limit > 0 {
				since = members[i-limit].FinishedAt
			}
			surplus[members[i].UID] = since
		}
	}
	return surplus
}
