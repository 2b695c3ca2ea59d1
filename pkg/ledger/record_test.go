package ledger

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/nodeproof"
	"github.com/orphand/orphand/pkg/settle"
	"github.com/orphand/orphand/pkg/signals"
	"k8s.io/apimachinery/pkg/types"
)

var start = facts.At(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))

func uuid(r *rand.Rand) string {
	return fmt.Sprintf("%08x-%04x-4%03x-a%03x-%012x", r.Uint32(), r.Uint32N(1<<16), r.Uint32N(1<<12), r.Uint32N(1<<12), r.Uint64N(1<<48))
}

// note is a job of n pods that are not Gone, each on a machine of its own.
func note(n int) settle.Note {
	r := rand.New(rand.NewPCG(1, 2))
	out := settle.Note{Job: facts.JobKey{Namespace: "team", Name: "llama-pretrain", UID: types.UID(uuid(r))}, State: settle.Unproven,
		Unproven: n, Gone: 3, GoneAt: start, WaitingFor: "gpu-0001", JobSets: []types.UID{types.UID(uuid(r))},
		Evidence: []settle.EvidenceNote{{Reason: nodeproof.KubeletConfirmed, Count: 3, First: start, Last: start.Add(time.Second)}},
		Findings: []settle.FindingNote{{Code: signals.ForcedRemoval, Cause: "x", Message: "m", Since: start}}}
	batch := types.UID(uuid(r))
	for i := range n {
		h := &nodeproof.History{
			Pod: &facts.Pod{Meta: facts.Meta{Namespace: "team", Name: fmt.Sprintf("llama-pretrain-node-0-%d-%05x", i, r.Uint32N(1<<20)), UID: types.UID(uuid(r))},
				Node: fmt.Sprintf("gpu-%04d", i), JobSetUID: out.JobSets[0], JobSetName: "llama-pretrain", JobUID: batch, JobName: "llama-pretrain-node-0",
				Index: fmt.Sprint(i), RestartAttempt: "0", Started: start, Scheduled: start, Deletion: start.Add(30 * time.Second), SpecGrace: 30},
			Seen: start, BoundSeen: start, Asked: start, GraceEnds: start.Add(30 * time.Second), Grace: 30 * time.Second, Anchored: start,
			Removal: nodeproof.Deleted, RemovedAt: start,
			Runs: []nodeproof.Run{{Node: fmt.Sprintf("gpu-%04d", i), NodeUID: types.UID(uuid(r)), Boot: uuid(r),
				Machine: facts.Machine{SystemUUID: uuid(r), MachineID: fmt.Sprintf("%032x", r.Uint64())}}},
		}
		out.Pods = append(out.Pods, settle.PodNote{History: h, Said: nodeproof.Pair{Verdict: nodeproof.Unproven, Reason: nodeproof.RemovedUnconfirmed}, Since: start})
	}
	return out
}

func TestARecordIsReadBackAsItWasNoted(t *testing.T) {
	n := note(5)
	n.Pods[1].History.Runs = append(n.Pods[1].History.Runs, nodeproof.Run{Node: "gpu-0001", Before: true, Absent: start,
		Proof: &nodeproof.Evidence{Reason: nodeproof.NodeDeleted, Source: facts.Ref{Kind: "Node", Name: "gpu-0001", UID: "N"}, At: start, By: "ada", Note: "n", Weak: true}})
	n.Pods[3].History.Runs[0].TaintStale = true
	n.Pods[4].History.Runs[0].TakenOver = true
	n.Pods[2].History.Pod.Node = ""
	n.Pods[2].History.Runs = nil
	o, err := Record(n, nil, start)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	again := o.DeepCopy()
	if err := json.Unmarshal(b, again); err != nil {
		t.Fatal(err)
	}
	got, err := Read(again)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, n) {
		t.Errorf("got  %+v\nwant %+v", got, n)
		for i := range n.Pods {
			if !reflect.DeepEqual(got.Pods[i].History, n.Pods[i].History) {
				t.Errorf("pod %d: got %+v %+v\nwant %+v %+v", i, got.Pods[i].History, got.Pods[i].History.Pod, n.Pods[i].History, n.Pods[i].History.Pod)
			}
		}
	}
}

func TestTheRecordOfAHugeJobFits(t *testing.T) {
	for pods, limit := range map[int]int{2_000: 256 << 10, 10_000: 1_280 << 10} {
		o, err := Record(note(pods), nil, start)
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d pods on as many machines: %d bytes", pods, len(b))
		if len(b) > limit {
			t.Errorf("%d pods: %d bytes, over %d", pods, len(b), limit)
		}
	}
}

func TestNamesOfRecordsAreOfTheJobAndItsUID(t *testing.T) {
	for want, key := range map[string]facts.JobKey{
		"llm-0b9a7c3e":  {Name: "llm", UID: "0b9a7c3e-0000-4000-8000-000000000000"},
		"llm-1c9a7c3e":  {Name: "llm", UID: "jobset:1c9a7c3e-0000-4000-8000-000000000000"},
		"tj-t1":         {Name: "tj", UID: "T1"},
		"tj-jobsetlike": {Name: "tj", UID: "JOBSETLIKE"},
	} {
		if got := Name(key); got != want && len(key.UID) <= 8 || len(got) > len(want)+2 {
			t.Errorf("%v: %q, want %q", key, got, want)
		}
	}
}

func TestWhatARestartMustNotLoseIsWrittenSoonAndTheRestLater(t *testing.T) {
	at := time.Unix(0, 0)
	set := func(digests ...uint64) map[uint64]bool {
		m := map[uint64]bool{}
		for _, d := range digests {
			m[d] = true
		}
		return m
	}
	written := &entry{state: settle.Settling, kept: set(1, 2), all: 2, at: at, writes: 1}
	cases := map[string]struct {
		e     *entry
		state settle.State
		kept  map[uint64]bool
		all   uint64
		after time.Duration
		wait  time.Duration
		same  bool
	}{
		"nothing was written yet":            {nil, settle.Deleting, set(1), 1, 0, 0, false},
		"another state":                      {written, settle.Settled, set(1), 2, 0, 0, false},
		"nothing new":                        {written, settle.Settling, set(1, 2), 2, time.Hour, 0, true},
		"a pod went without proof":           {written, settle.Settling, set(1, 9), 9, 0, 2 * time.Second, false},
		"a pod became gone":                  {written, settle.Settling, set(2), 9, time.Second, time.Second, false},
		"counts changed":                     {written, settle.Settling, set(1, 2), 9, 10 * time.Second, 20 * time.Second, false},
		"counts changed half a minute ago":   {written, settle.Settling, set(1, 2), 9, 30 * time.Second, 0, false},
		"the tenth change waits as long too": {&entry{state: settle.Settling, at: at, writes: 10}, settle.Settling, set(1, 9), 9, 0, 30 * time.Second, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if wait, same := c.e.wait(c.state, c.kept, c.all, at.Add(c.after)); wait != c.wait || same != c.same {
				t.Errorf("wait %v, same %v; want %v, %v", wait, same, c.wait, c.same)
			}
		})
	}
}

func FuzzUnpack(f *testing.F) {
	n := note(3)
	packed, err := pack(n.Pods)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(packed)
	f.Add("")
	f.Add("AQ==")
	f.Fuzz(func(t *testing.T, text string) {
		pods, err := unpack(text, "team")
		if err != nil {
			return
		}
		again, err := pack(pods)
		if err != nil {
			t.Fatal(err)
		}
		back, err := unpack(again, "team")
		if err != nil || !reflect.DeepEqual(back, pods) {
			t.Fatalf("not the same after packing again: %v", err)
		}
	})
}
