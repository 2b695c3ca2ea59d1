package sweep_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/retention"
	"github.com/orphand/orphand/pkg/signals"
)

// old is how many old objects a cluster has whose first policy comes, and few are enough where each is listed again and again.
const old, few = 50_000, 5_000

// aged puts old Jobs that finished, in no order, a day to a year ago, and returns their names, that of the oldest first.
func (s *scene) aged(count int) []string {
	names := make([]string, count)
	for i := range names {
		names[i] = fmt.Sprintf("job-%05d", i)
	}
	byAge := slices.Clone(names)
	rand.New(rand.NewPCG(1, 2)).Shuffle(count, func(i, j int) { byAge[i], byAge[j] = byAge[j], byAge[i] })
	for i, name := range byAge {
		s.job(name, -24*time.Hour-time.Duration(count-i)*10*time.Minute)
	}
	return byAge
}

func (s *scene) said(code string) []signals.Event {
	var list []signals.Event
	for _, e := range s.events {
		if string(e.Code) == code {
			list = append(list, e)
		}
	}
	return list
}

func TestTheFirstPolicyOfFiftyThousandOldObjectsGoesSlowly(t *testing.T) {
	const perMinute = 600
	share := retention.DefaultShare()
	s := open(t, "rules: [{name: all, ttlAfterFinished: 1h}]", perMinute, share)
	byAge := s.aged(old)
	s.daemon.Start()
	hourly := int(share.PerHour * old)

	s.until(59 * time.Minute)
	calls := s.stage.API.Calls()
	if len(calls) != hourly {
		t.Fatalf("%d DELETEs in the first hour, of which %v of %d objects may go", len(calls), share.PerHour, old)
	}
	for i, c := range calls {
		if i >= perMinute && c.At.Sub(calls[i-perMinute].At) < time.Minute {
			t.Fatalf("more than %d DELETEs in the minute until %v", perMinute, c.At)
		}
	}
	for i := 0; i < hourly; i += perMinute {
		var batch []string // of one moment, in which several workers have no order
		for _, c := range calls[i:min(i+perMinute, hourly)] {
			batch = append(batch, c.Name)
		}
		oldest := slices.Sorted(slices.Values(byAge[i:min(i+perMinute, hourly)]))
		if slices.Sort(batch); !slices.Equal(batch, oldest) {
			t.Fatalf("DELETEs %d to %d are not of the oldest that were left", i, i+len(batch))
		}
	}
	paused := s.said(string(signals.RetentionPaused))
	if len(paused) != 1 || !strings.Contains(paused[0].Message, fmt.Sprint(old-hourly)) || !strings.Contains(paused[0].Message, "--max-share-per-hour") {
		t.Errorf("what is said of the pause: %+v", paused)
	}

	// Not at the first moment of the next hour, but a little later each time.
	s.until(62 * time.Minute)
	calls = s.stage.API.Calls()
	if len(calls) == hourly {
		t.Fatal("nothing goes in the second hour")
	}
	if late := calls[hourly].At.Sub(calls[0].At) - time.Hour; late <= 0 || late > time.Minute {
		t.Errorf("the second share begins %v after the hour", late)
	}
	s.until(2 * time.Hour)
	s.until(6 * time.Hour)
	calls = s.stage.API.Calls()
	for i := hourly; i < len(calls); i++ {
		if calls[i].At.Sub(calls[i-hourly].At) < time.Hour {
			t.Fatalf("more than a share in the hour until %v", calls[i].At)
		}
	}
	if len(calls) != old {
		t.Errorf("%d of %d went in the end", len(calls), old)
	}
}

func TestARestartBringsABacklogNoFurtherShare(t *testing.T) {
	share := retention.Share{PerHour: 0.1, Floor: 100}
	s := open(t, "rules: [{name: all, ttlAfterFinished: 1h}]", 6000, share)
	s.aged(few)
	for crash := range 11 {
		s.daemon.Start()
		s.until(time.Duration(crash+1) * 5 * time.Minute)
		s.daemon.Stop()
	}
	if n := len(s.stage.API.Calls()); n != few/10 {
		t.Errorf("%d DELETEs within an hour of crashes, %d may be", n, few/10)
	}
	s.daemon.Start()
	s.until(2 * time.Hour)
	if n, want := len(s.stage.API.Calls()), few/10+few*9/100; n != want {
		t.Errorf("%d DELETEs by the end of the second hour, want a tenth of what there was at the beginning of each: %d", n, want)
	}
}

func TestTheNextLeaderGoesOnWithTheShareOfTheOneBefore(t *testing.T) {
	share := retention.Share{PerHour: 0.1, Floor: 100}
	s := open(t, "rules: [{name: all, ttlAfterFinished: 1h}]", 6000, share)
	s.aged(few)
	s.daemon.Start()
	for turn := range 5 {
		s.until(time.Duration(turn*10+5) * time.Minute)
		s.daemon.Lead(false)
		s.until(time.Duration(turn*10+10) * time.Minute)
		s.daemon.Lead(true)
	}
	s.until(59 * time.Minute)
	if n := len(s.stage.API.Calls()); n != few/10 {
		t.Errorf("%d DELETEs within an hour, %d may be", n, few/10)
	}
}

func TestThePolicyThatIsShippedDeletesNothingOfFiftyThousandObjects(t *testing.T) {
	text, err := os.ReadFile("../../manifests/components/retention/policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	p, problems := retention.Load(text)
	if p == nil || len(problems) > 0 || !p.DryRun() {
		t.Fatalf("dryRun %v: %v", p != nil && p.DryRun(), problems)
	}
	s := open(t, "rules: [{name: none, match: {kinds: [Workflow]}}]", 600, retention.DefaultShare())
	s.aged(old)
	s.daemon.Start()
	s.sweeper.SetPolicy(p)
	s.until(48 * time.Hour)
	if n := len(s.stage.API.Calls()); n != 0 {
		t.Fatalf("%d DELETEs by a dry run", n)
	}
	due := 0
	for _, v := range s.sweeper.Views() {
		if v.Verb == retention.Delete && v.DryRun && v.Rule == "jobs" {
			due++
		}
	}
	if said := len(s.said(string(signals.RetentionDecided))); due != old || said < old*9/10 {
		t.Errorf("%d of %d objects would go, and of %d it is said", due, old, said)
	}
}

func TestAShareThatWasSpentByAWrongClockHoldsNothingBack(t *testing.T) {
	share := retention.Share{PerHour: 0.1, Floor: 100}
	s := open(t, "rules: [{name: all, ttlAfterFinished: 1h}]", 6000, share)
	s.aged(few)
	var ahead retention.Removals
	for range few {
		ahead.Add(retention.Removal{Backlog: retention.BacklogOf("Job"), At: facts.At(start.Add(1000 * time.Hour))})
	}
	for page, data, length, changed := ahead.Unstored(); changed; page, data, length, changed = ahead.Unstored() {
		if err := s.store.Of(func() bool { return true }).Save(t.Context(), page, data); err != nil {
			t.Fatal(err)
		}
		ahead.Stored(page, length)
	}
	s.daemon.Start()
	s.until(30 * time.Minute)
	s.deletes(few / 10)
}
