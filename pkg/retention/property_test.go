package retention

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/orphand/orphand/pkg/facts"
	"k8s.io/apimachinery/pkg/types"
)

// FuzzLoad holds the reader to what it promises for any input: it ends, without a panic, with a policy or with problems
// that have a place, and a policy that was read once reads again the same.
func FuzzLoad(f *testing.F) {
	for _, seed := range []string{wrong, hour, byOutcome, minute, "a: &a [*a, *a]", "rules: [{match: {labels: {matchExpressions: [{key: a, operator: In, values: [b]}]}}}]",
		"apiVersion: orphand.dev/v1alpha1\nkind: RetentionPolicy\n", "rules: !!binary aGk=\n", "? {a: b}\n: c\n", "<<: {rules: []}", "rules: [{ttlAfterFinished: {failed: 1h}}]",
		`kinds: [{group: a.b, versions: [v1], resource: cs, kind: C, finished: "object.x", finishTime: "object.y"}]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, problems := LoadInline(data)
		if (p == nil) != (problems.Err() != nil) {
			t.Fatalf("policy %v with problems %v", p, problems)
		}
		lines := strings.Count(string(data), "\n") + strings.Count(string(data), "\r") + 2
		for _, problem := range problems {
			if problem.Message == "" || problem.Line < 0 || problem.Line > lines {
				t.Errorf("%+v", problem)
			}
		}
		again, problemsAgain := LoadInline(data)
		if (again == nil) != (p == nil) || len(problemsAgain) != len(problems) {
			t.Error("another result the second time")
		}
	})
}

func FuzzParseDuration(f *testing.F) {
	for _, seed := range []string{"1h", "7d", "2w3d", "999999999999h", ".5s", "10ay"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := ParseDuration(text)
		if err != nil {
			return
		}
		if d < 0 {
			t.Errorf("%q is %v", text, d)
		}
		if again, err := ParseDuration(FormatDuration(d)); err != nil || again != d {
			t.Errorf("%q is %v, which is written %s and read %v, %v", text, d, FormatDuration(d), again, err)
		}
	})
}

// Whatever the policy, the object and the moment, these hold of every decision.
func TestForAnyObjectADecision(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(words ...string) string { return words[random.IntN(len(words))] }
	durations := []string{"0s", "1s", "60s", "1h", "7d", "15250w"}
	for range 20000 {
		rules := "{name: a"
		for _, field := range []string{"ttlAfterFinished", "succeeded", "failed", "max", "stopRunningAfter", "deletePodsAfter"} {
			if random.IntN(2) == 0 {
				rules += ", " + field + ": " + pick(durations...)
			}
		}
		if random.IntN(4) == 0 {
			rules += ", keepLast: {succeeded: 1, failed: 0}"
		}
		p := policy(t, "rules: ["+rules+"}]")
		o := &Object{Object: facts.Object{Meta: facts.Meta{Namespace: "x", Name: "y", UID: types.UID(pick("A", "B"))}, Kind: "Job", Group: "batch"}, Of: p.KindOf("batch", "Job"),
			Finished: random.IntN(4) > 0, Suspended: random.IntN(4) == 0, Outcome: Outcome(pick("", "succeeded", "failed", "deadlineExceeded")), Annotations: map[string]string{}}
		if o.Finished && random.IntN(4) > 0 {
			o.FinishedAt = second(random.IntN(1000))
		}
		if random.IntN(4) == 0 {
			o.Deletion = second(3)
		}
		if random.IntN(3) == 0 {
			o.Annotations[AnnotationTTL] = pick(append(durations, "", "x", "-1h", "999999999999h")...)
		}
		if random.IntN(4) == 0 {
			o.Annotations[AnnotationKeepUntil] = pick(stamp(5), stamp(50000), "x", "0001-01-01T00:00:00Z", "9999-01-01T00:00:00Z")
		}
		if random.IntN(6) == 0 {
			o.Annotations[AnnotationKeep] = pick("true", "false", "?")
		}
		if random.IntN(4) == 0 {
			ttl := time.Duration(random.Int64())
			o.TTL = &ttl
		}
		c := Case{Object: o, Now: second(random.IntN(100000)), Owner: OwnerState(random.IntN(5)), Recreated: random.IntN(2)}
		if random.IntN(3) == 0 {
			c.Surplus = second(random.IntN(1000))
		}
		for range random.IntN(3) {
			pod := ended(facts.PhaseFailed, random.IntN(1000))
			pod.Over = random.IntN(4) > 0
			c.Pods = append(c.Pods, pod)
		}
		d := p.Decide(c)
		fail := func(what string) { t.Fatalf("%s\n%s\n%+v\n%+v\n%s", what, rules, o, c, d.Explain()) }
		switch d.Verb {
		case Delete:
			switch {
			case !o.Finished || !o.FinishedAt.Known():
				fail("is DELETE for what is not finished, or finished nobody knows when")
			case d.Due < o.FinishedAt:
				fail("is due before the finish")
			case o.Terminating():
				fail("is DELETE for what is terminating")
			case c.Owner == OwnerLive, c.Owner == OwnerUnread, c.Owner == OwnerElsewhere:
				fail("is DELETE for what may have a live owner")
			case c.Recreated > 0:
				fail("is DELETE for what came back")
			case d.Rule == "" || d.Source == "":
				fail("is DELETE without a rule and a source")
			}
			for _, pod := range c.Pods {
				if !pod.Over {
					fail("is DELETE over a pod that is not over")
				}
			}
			if r := p.rules[0]; r.max != nil && d.Due > instantOf(o.FinishedAt, r.max) && c.Surplus < d.Due {
				fail("is due later than max")
			}
		case Keep, Skip:
			if d.Reason == "" || d.Due.Known() && d.Reason != PodLogTime {
				fail("has no reason, or a time that means nothing")
			}
		default:
			fail("is none of the three")
		}
		if again := p.Decide(c); again.String() != d.String() {
			fail("is another the second time")
		}
		for _, pod := range c.Pods {
			pd := p.DecidePod(PodCase{Pod: pod, Job: o, Controller: ControllerState(random.IntN(3)), Now: c.Now})
			if pd.Verb == Delete && (!o.Finished || pd.Due < min(o.FinishedAt, pod.Ended())) {
				fail("on a pod is due before anything ended: " + pd.Explain())
			}
		}
	}
}
