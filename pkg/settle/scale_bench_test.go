package settle_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/informers"
	"github.com/orphand/orphand/pkg/settle"
	"github.com/orphand/orphand/pkg/signals"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
)

// pile is a queue that holds keys until somebody works them off.
type pile map[facts.JobKey]bool

func (p pile) Add(k facts.JobKey)                       { p[k] = true }
func (p pile) AddAfter(k facts.JobKey, _ time.Duration) {}

// counted counts the live reads that a settled job costs.
type counted struct {
	nodes map[string]*facts.Node
	reads int
}

func (c *counted) Node(_ context.Context, name string) (*facts.Node, error) {
	c.reads++
	return c.nodes[name], nil
}
func (c *counted) TrainJob(context.Context, string, string) (*facts.TrainJob, error) {
	c.reads++
	return nil, nil
}
func (c *counted) JobSet(context.Context, string, string) (*facts.Object, error) { return nil, nil }
func (c *counted) Pod(context.Context, string, string) (*facts.Pod, error)       { return nil, nil }
func (c *counted) Remains(context.Context, facts.JobKey, []types.UID, []string) ([]*facts.Object, error) {
	c.reads++
	return nil, nil
}

func (c *counted) Survey(context.Context, string, string, []types.UID) ([]*facts.Object, []*facts.Pod, error) {
	c.reads++
	return nil, nil, nil
}

const (
	scalePods  = 10_000
	scaleNodes = 1_250
)

// BenchmarkSettleHugeJob follows one job of 10,000 pods on 1,250 nodes from its deletion to Cleared, with a turn of work after
// every 20 events, and reports the time per event, the live reads per job and the live heap per pod that the engine holds.
func BenchmarkSettleHugeJob(b *testing.B) {
	total := 0
	for b.Loop() {
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		clk := clocktesting.NewFakePassiveClock(time.Unix(1_780_000_000, 0))
		live, work := &counted{nodes: map[string]*facts.Node{}}, pile{}
		state := ""
		e := settle.New(settle.Config{Options: settle.Defaults(), Clock: clk, Live: live, Queue: work, Readers: 1, Sink: signals.SinkFunc(func(ev signals.Event) {
			if ev.Code == signals.JobStateChanged {
				state = ev.State
			}
		})})
		turn := func() {
			for len(work) > 0 {
				for k := range work {
					delete(work, k)
					if err := e.Sync(b.Context(), k); err != nil {
						b.Fatal(err)
					}
				}
			}
		}
		for i := range scaleNodes {
			n := &facts.Node{Meta: facts.Meta{Name: fmt.Sprintf("gpu-%d", i), UID: types.UID(fmt.Sprintf("N%d", i)), ResourceVersion: "1"},
				Machine: facts.Machine{SystemUUID: fmt.Sprint(i)}, Boot: fmt.Sprint(i), Ready: facts.ReadyTrue}
			live.nodes[n.Name] = n
			e.NodeSeen(n, true)
		}
		tj := &facts.TrainJob{Meta: facts.Meta{Namespace: "team", Name: "llm", UID: "T1"}}
		e.TrainJobSeen(tj, true)
		js := &facts.Object{Meta: facts.Meta{Namespace: "team", Name: "llm", UID: "J1"}, Kind: facts.KindJobSet,
			Owner: facts.Owner{Group: facts.GroupTrainer, Kind: facts.KindTrainJob, Name: "llm", UID: "T1", Controller: true}}
		e.ObjectSeen(js, true)
		pods := make([]facts.Pod, scalePods)
		events := 0
		step := func(each func(i int)) {
			for i := range pods {
				each(i)
				if events++; events%20 == 0 {
					turn()
				}
			}
			turn()
		}
		step(func(i int) {
			pods[i] = facts.Pod{Meta: facts.Meta{Namespace: "team", Name: fmt.Sprintf("llm-node-0-%d", i), UID: types.UID(fmt.Sprintf("P%d", i))},
				JobSetName: "llm", JobSetUID: "J1", JobUID: "B1", JobName: "llm-node-0", Index: fmt.Sprint(i), Node: fmt.Sprintf("gpu-%d", i%scaleNodes),
				SpecGrace: 30, Phase: facts.PhaseRunning,
				Containers: []facts.Container{{State: facts.Running, HasID: true, ID: uint64(i + 1), Started: 1}}}
			p := pods[i]
			e.PodSeen(&p, true)
		})
		runtime.GC()
		runtime.ReadMemStats(&after)
		e.ObjectGone(js, informers.Final)
		e.TrainJobGone(tj, informers.Final)
		now := facts.At(clk.Now())
		step(func(i int) {
			p := pods[i]
			p.Deletion, p.Grace = now.Add(30*time.Second), 30
			pods[i] = p
			e.PodSeen(&p, false)
		})
		step(func(i int) {
			p := pods[i]
			p.Phase = facts.PhaseFailed
			p.Containers = []facts.Container{{State: facts.Terminated, HasID: true, ID: uint64(i + 1), Started: 1, Finished: 2}}
			pods[i] = p
			e.PodSeen(&p, false)
		})
		step(func(i int) { p := pods[i]; e.PodGone(&p, informers.Final) })
		clk.SetTime(clk.Now().Add(6 * time.Second))
		work.Add(tj.JobKey())
		turn()
		if state != string(settle.Cleared) {
			b.Fatalf("the job is %s", state)
		}
		total += events
		b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(total), "µs/event")
		b.ReportMetric(float64(live.reads), "reads/job")
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/scalePods, "B/pod")
	}
}
