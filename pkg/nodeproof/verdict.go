package nodeproof

import (
	"time"

	"github.com/orphand/orphand/pkg/facts"
)

// Verdict says whether processes of a pod may be running.
type Verdict string

// The verdicts.
const (
	Alive    Verdict = "Alive"    // taken to be running, or able to start
	Unproven Verdict = "Unproven" // nobody can tell
	Gone     Verdict = "Gone"     // provably not running, and never again
)

// Reason says why.
type Reason string

// The reasons of Alive.
const (
	Pending         Reason = "Pending"
	Running         Reason = "Running"
	Terminating     Reason = "Terminating"
	NodesUnreadable Reason = "NodesUnreadable"
)

// The reasons of Unproven, in the order in which one is chosen when several fit. NodeDeleted is also one of Gone.
const (
	RemovedUnseen      Reason = "RemovedUnseen"
	RemovedUnconfirmed Reason = "RemovedUnconfirmed"
	NodeReplaced       Reason = "NodeReplaced"
	NodeDeleted        Reason = "NodeDeleted"
	NodeUnreachable    Reason = "NodeUnreachable"
)

// The reasons of Gone: the kinds of evidence.
const (
	NeverStarted     Reason = "NeverStarted"
	KubeletConfirmed Reason = "KubeletConfirmed"
	NodeRebooted     Reason = "NodeRebooted"
	OutOfService     Reason = "OutOfService"
	Attested         Reason = "Attested"
)

// Pair is a verdict with one of its reasons.
type Pair struct {
	Verdict Verdict
	Reason  Reason
}

// Pairs lists every verdict with every reason it can have.
func Pairs() []Pair {
	return []Pair{
		{Alive, Pending}, {Alive, Running}, {Alive, Terminating}, {Alive, NodesUnreadable},
		{Unproven, RemovedUnseen}, {Unproven, RemovedUnconfirmed}, {Unproven, NodeReplaced}, {Unproven, NodeDeleted},
		{Unproven, NodeUnreachable},
		{Gone, NeverStarted}, {Gone, KubeletConfirmed}, {Gone, NodeRebooted}, {Gone, NodeDeleted}, {Gone, OutOfService},
		{Gone, Attested},
	}
}

// Evidence is what made a pod Gone, or one of the machines that it ran on.
type Evidence struct {
	Reason Reason
	// Source is the object that carries the evidence: the pod or a Node.
	Source facts.Ref
	// At is when orphand could first say it.
	At facts.Instant
	// By is who set it, where somebody did: the field manager of a taint, the person of an attestation.
	By string
	// Weak marks evidence that had to wait for --weak-evidence-delay.
	Weak bool
	// Machine and Boot are those the evidence accounts for.
	Machine facts.Machine
	Boot    string
	// Note is a person's reason, or one sentence on what was seen.
	Note string
}

// Attestation is a person's word that no process of a pod, or of any pod on a Node, is running.
type Attestation struct {
	By, Reason string
	At         facts.Instant
}

// Options are the delays of the rule.
type Options struct {
	// NodeDeletionQuarantine is how long a Node must have been gone before its absence counts.
	NodeDeletionQuarantine time.Duration
	// WeakEvidenceDelay is how long the node must have been Ready before weak evidence counts.
	WeakEvidenceDelay time.Duration
}

// Defaults are the delays when nobody says otherwise: PodGC's own quarantine, and the time a restarted kubelet needs to
// find and kill what it forgot.
func Defaults() Options {
	return Options{NodeDeletionQuarantine: 40 * time.Second, WeakEvidenceDelay: 30 * time.Second}
}

// anchorDelay is how long a pod that was asked to terminate on a node that can be heard is left to its kubelet before
// the node is read to learn which boot it had when the termination was asked for. Most pods are confirmed earlier, and
// no machine reboots faster.
const anchorDelay = 3 * time.Second

// Judgement is what the rule says of one pod at one moment.
type Judgement struct {
	Verdict Verdict
	Reason  Reason
	// Evidence has one entry per machine that is accounted for; of a pod that is Gone, the last is the one that made it so.
	Evidence []Evidence
	// Need names the node that must be read live, no earlier than NeedFrom, before more can be said. Empty: none.
	Need     string
	NeedFrom facts.Instant
	// Recheck is when time alone may change the judgement; unknown when it cannot.
	Recheck facts.Instant
}

// Proof is the evidence that made the pod Gone.
func (j Judgement) Proof() (Evidence, bool) {
	if j.Verdict != Gone || len(j.Evidence) == 0 {
		return Evidence{}, false
	}
	return j.Evidence[len(j.Evidence)-1], true
}

// Describe says in one phrase what the evidence is, for a log line.
func (e Evidence) Describe() string {
	s := e.Source.String()
	if e.Source.UID != "" {
		s += "@" + string(e.Source.UID)
	}
	if e.By != "" {
		s += " by " + e.By
	}
	if e.Note != "" {
		s += ": " + e.Note
	}
	if e.Weak {
		s += " (weak)"
	}
	return s
}
