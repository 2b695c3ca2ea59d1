package retention

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orphand/orphand/pkg/facts"
	"k8s.io/apimachinery/pkg/types"
)

func TestKeepLast(t *testing.T) {
	o := func(uid string, finished int, extra string) string {
		return fmt.Sprintf(`{apiVersion: batch/v1, kind: Job, metadata: {name: %s, uid: %s, %s}, status: {conditions: [{type: Complete, status: "True", lastTransitionTime: @%d}]}}`, strings.ToLower(uid), uid, extra, finished)
	}
	failed := func(uid string, finished int) string {
		return strings.Replace(o(uid, finished, ""), "Complete", "Failed", 1)
	}
	two := `rules: [{name: all, keepLast: {succeeded: 2, failed: 1}}]`
	for _, row := range []struct {
		name, policy string
		objects      []string
		want         string
	}{
		{"lets the oldest go at once", two, []string{o("A", 10, ""), o("B", 20, ""), o("C", 30, ""), o("D", 40, "")}, "A@30 B@40"},
		{"counts what is there and no more", two, []string{o("A", 10, ""), o("B", 20, "")}, ""},
		{"counts failures apart", two, []string{failed("A", 10), failed("B", 20), o("C", 30, "")}, "A@20"},
		{"lets the lower UID of a tie go first", two, []string{o("C", 10, ""), o("A", 10, ""), o("B", 10, "")}, "A@10"},
		{"does not count what terminates", two, []string{o("A", 10, ""), o("B", 20, ""), o("C", 30, "deletionTimestamp: @31, finalizers: [a/b]")}, ""},
		{"does not count what is kept", two, []string{o("A", 10, ""), o("B", 20, ""), o("C", 30, `annotations: {orphand.dev/keep: "true"}`)}, ""},
		{"does not count what is kept until later", two, []string{o("A", 10, ""), o("B", 20, ""), o("C", 30, `annotations: {orphand.dev/keep-until: @9000}`)}, ""},
		{"counts what was kept until a time that has passed", two, []string{o("A", 10, ""), o("B", 20, ""), o("C", 30, `annotations: {orphand.dev/keep-until: @40}`)}, "A@30"},
		{"counts per namespace", two, []string{o("A", 10, "namespace: x"), o("B", 20, "namespace: x"), o("C", 30, "namespace: y")}, ""},
		{"counts per value of a label", `rules: [{name: all, keepLast: {succeeded: 1, per: "label:team"}}]`,
			[]string{o("A", 10, "labels: {team: a}"), o("B", 20, "labels: {team: b}"), o("C", 30, "labels: {team: a}")}, "A@30"},
		{"counts per owner", `rules: [{name: all, keepLast: {succeeded: 1, per: owner}}]`,
			[]string{o("A", 10, "ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: x, uid: X}]"), o("B", 20, ""), o("C", 30, "ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: x, uid: X}]")}, "A@30"},
		{"of none lets each go at its finish", `rules: [{name: all, keepLast: {succeeded: 0}}]`, []string{o("A", 10, "")}, "A@10"},
		{"counts each kind apart", two, []string{o("A", 10, ""), o("B", 20, ""), strings.Replace(o("C", 30, ""), "batch/v1, kind: Job", "trainer.kubeflow.org/v1alpha1, kind: TrainJob", 1)}, ""},
		{"counts only what it is for", `rules: [{name: w, match: {kinds: [Workflow]}, keepLast: {succeeded: 0}}, {name: all, ttlAfterFinished: 1h}]`, []string{o("A", 10, "")}, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := policy(t, row.policy)
			var cases []Case
			for _, text := range row.objects {
				cases = append(cases, Case{Object: object(t, p, text), Now: second(100)})
			}
			surplus := p.Surplus(cases)
			var got []string
			for _, c := range cases {
				if since, ok := surplus[c.Object.UID]; ok {
					got = append(got, fmt.Sprintf("%s@%d", c.Object.UID, since.Sub(second(0))/time.Second))
				}
			}
			if text := strings.Join(got, " "); text != row.want {
				t.Errorf("got %q, want %q", text, row.want)
			}
		})
	}
}

func TestTheShorterOfCapAndTTLWins(t *testing.T) {
	p := policy(t, `rules: [{name: all, ttlAfterFinished: 60s, keepLast: {succeeded: 1}}]`)
	o := object(t, p, job(`{type: Complete, status: "True", lastTransitionTime: @0}`, ""))
	for surplus, want := range map[int]string{30: "DELETE@30", 90: "DELETE@60"} {
		if got := said(p.Decide(Case{Object: o, Surplus: second(surplus), Now: second(100)})); got != want {
			t.Errorf("beyond the cap since %d: %s, want %s", surplus, got, want)
		}
	}
}

func TestWhatComesBackAfterItsCleanUpIsCounted(t *testing.T) {
	p := policy(t, minute)
	made := func(uid string, created int) *Object {
		return object(t, p, fmt.Sprintf(`{apiVersion: batch/v1, kind: Job, metadata: {name: boot, uid: %s, creationTimestamp: @%d}}`, uid, created))
	}
	r := p.Recreations()
	var m Cleanups
	if n := m.Recreated(made("B1", 0), r); n != 0 {
		t.Errorf("never cleaned up: %d", n)
	}
	m.Deleted(made("B1", 0), 0, second(60))
	if n := m.Recreated(made("B1", 0), r); n != 0 {
		t.Errorf("the object that was cleaned up, still there: %d", n)
	}
	if n := m.Recreated(made("B2", 65), r); n != 1 {
		t.Errorf("the first that came back: %d", n)
	}
	m.Deleted(made("B2", 65), 1, second(100))
	if n := m.Recreated(made("B3", 105), r); n != 2 {
		t.Errorf("the second that came back: %d", n)
	}
	if n := m.Recreated(made("B4", 100+3601), r); n != 0 {
		t.Errorf("one that came much later: %d", n)
	}
	m.Forget(time.Hour, func(uid types.UID) bool { return uid == "B3" }, second(9000))
	if n := m.Recreated(made("B3", 105), r); n != 2 {
		t.Errorf("the one that is still there: %d", n)
	}
	if n := m.Recreated(made("B2", 65), r); n != 0 {
		t.Errorf("one that is forgotten: %d", n)
	}
}

func TestABacklogGoesByItsShare(t *testing.T) {
	s := Share{PerHour: 0.1, Floor: 3}
	var spent []facts.Instant
	now := second(0)
	for range 5 {
		ok, at := s.Room(50, spent, now)
		if !ok || at != now {
			t.Fatalf("%d spent: no room until %v", len(spent), at.Time())
		}
		spent = append(spent, now)
		now = now.Add(time.Minute)
	}
	ok, at := s.Room(50, spent, now)
	if ok || at != second(0).Add(time.Hour+1) {
		t.Errorf("after a tenth of 50: %v at %v", ok, at.Time())
	}
	if ok, _ := s.Room(50, spent, at); !ok {
		t.Error("no room an hour later")
	}
	if ok, _ := s.Room(2, spent[:2], second(0)); !ok {
		t.Error("a part of a few is none")
	}
	if ok, _ := (Share{}).Room(50, nil, now); ok {
		t.Error("a share of nothing has room")
	}
}

func TestTheLongestDueGoesFirst(t *testing.T) {
	turns := []Turn{{"C", second(2)}, {"B", second(1)}, {"A", second(2)}}
	slices.SortFunc(turns, func(a, b Turn) int {
		if a.Before(b) {
			return -1
		}
		return 1
	})
	if turns[0].UID != "B" || turns[1].UID != "A" || turns[2].UID != "C" {
		t.Error(turns)
	}
	if a, b := Jitter("A", time.Minute), Jitter("A", time.Minute); a != b || a < 0 || a >= time.Minute {
		t.Error(a, b)
	}
}
