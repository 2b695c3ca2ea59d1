package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The condition types of an Orphan.
const (
	// ConditionSettled is True when it is safe to run the job again: no process of it can be running, and nothing is left
	// that could start one. It is Unknown for a job that runs in another cluster.
	ConditionSettled = "Settled"
	// ConditionCleared is True when, besides, nothing of the job is left at all.
	ConditionCleared = "Cleared"
)

// Orphan is the record of one TrainJob incarnation that is being deleted, or is gone with something left of it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=orph,scope=Namespaced,categories=all
// +kubebuilder:printcolumn:name="Job",type=string,JSONPath=`.spec.trainJob.name`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Pods",type=integer,JSONPath=`.status.pods.total`
// +kubebuilder:printcolumn:name="Unproven",type=integer,JSONPath=`.status.pods.unproven`
// +kubebuilder:printcolumn:name="Waiting-For",type=string,JSONPath=`.status.waitingFor`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="UID",type=string,priority=1,JSONPath=`.spec.trainJob.uid`
type Orphan struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec OrphanSpec `json:"spec"`
	// +optional
	Status OrphanStatus `json:"status,omitempty"`
}

// OrphanSpec says which job the record is of, and what people have vouched for.
type OrphanSpec struct {
	// trainJob is the TrainJob incarnation.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a record is of one TrainJob incarnation for ever"
	TrainJob TrainJobReference `json:"trainJob"`

	// attestations are people's word that no process is running of a pod, or of any pod on a Node. Each is the word of the
	// person who wrote it.
	// +optional
	// +listType=map
	// +listMapKey=uid
	// +kubebuilder:validation:MaxItems=1000
	Attestations []Attestation `json:"attestations,omitempty"`
}

// TrainJobReference names one TrainJob incarnation.
type TrainJobReference struct {
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// uid is the TrainJob's UID, or "jobset:" and the JobSet's UID when the TrainJob was gone before anybody saw it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	UID string `json:"uid"`
}

// Attestation is a person's word that nothing is running.
type Attestation struct {
	// kind is what the word is about.
	// +required
	// +kubebuilder:validation:Enum=Node;Pod
	Kind string `json:"kind"`
	// name of the Node or pod, for people; the uid decides.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	UID string `json:"uid"`
	// by is the name under which the API server knows the person.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	By string `json:"by"`
	// reason is how the person knows.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason"`
	// at is when the word was given.
	// +required
	At metav1.Time `json:"at"`
}

// OrphanStatus is what orphand knows of the job.
type OrphanStatus struct {
	// state is one of Active, Finished, Deleting, Elsewhere, Unproven, Settling, Settled, Cleared.
	// +optional
	State string `json:"state,omitempty"`
	// pods counts the job's pods by verdict.
	// +optional
	Pods PodCounts `json:"pods,omitempty"`
	// waitingFor names what the job waits for, in a few words: the nodes that must be heard from or vouched for, or what
	// could still start a pod.
	// +optional
	WaitingFor string `json:"waitingFor,omitempty"`
	// goneAt is when the TrainJob was seen to be gone.
	// +optional
	GoneAt *metav1.Time `json:"goneAt,omitempty"`
	// settledAt is when the job was last said to be settled.
	// +optional
	SettledAt *metav1.Time `json:"settledAt,omitempty"`
	// nodes are the machines that may still run processes of the job, with the pods that are not Gone. At most 40 nodes
	// and 100 pods are listed; memory holds all.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Nodes []NodeRemains `json:"nodes,omitempty"`
	// evidence says by what the pods that are Gone were proven to be.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Evidence []EvidenceSummary `json:"evidence,omitempty"`
	// findings are what a person should know, those that stand and those that are over.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Findings []FindingSummary `json:"findings,omitempty"`
	// refusals say why orphand does not delete what is left of the job. Each reason is listed once.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Refusals []RefusalSummary `json:"refusals,omitempty"`
	// jobSets are the UIDs of the JobSets that the job is known to have had.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	JobSets []string `json:"jobSets,omitempty"`
	// memory is orphand's own packed note of every pod that is not Gone: what it ran on, in which boot, and what became of
	// it. It is what makes a restart safe.
	// +optional
	Memory string `json:"memory,omitempty"`
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// PodCounts counts pods by verdict.
type PodCounts struct {
	Total    int32 `json:"total"`
	Alive    int32 `json:"alive"`
	Unproven int32 `json:"unproven"`
	Gone     int32 `json:"gone"`
}

// NodeRemains is one machine and the pods that may run on it.
type NodeRemains struct {
	// name is empty for pods that are not bound to a node, or of which nobody knows to which they were.
	// +optional
	Name string `json:"name,omitempty"`
	// +optional
	UID string `json:"uid,omitempty"`
	// +optional
	SystemUUID string `json:"systemUUID,omitempty"`
	// +optional
	MachineID string `json:"machineID,omitempty"`
	// bootID is the boot in which the pods may have processes.
	// +optional
	BootID string `json:"bootID,omitempty"`
	// +optional
	// +listType=atomic
	Pods []PodRemains `json:"pods,omitempty"`
	// more is how many further pods of this node are not listed.
	// +optional
	More int32 `json:"more,omitempty"`
}

// PodRemains is one pod that is not Gone.
type PodRemains struct {
	Name    string `json:"name"`
	UID     string `json:"uid"`
	Verdict string `json:"verdict"`
	Reason  string `json:"reason"`
	// since is when the verdict was given.
	// +optional
	Since metav1.Time `json:"since,omitempty"`
}

// EvidenceSummary is one kind of evidence and how many pods it proved to be Gone.
type EvidenceSummary struct {
	Reason string `json:"reason"`
	// weak says that it had to wait for a Ready node.
	// +optional
	Weak  bool        `json:"weak,omitempty"`
	Count int32       `json:"count"`
	First metav1.Time `json:"first"`
	Last  metav1.Time `json:"last"`
	// sources are some of the objects that carried it.
	// +optional
	// +listType=atomic
	Sources []string `json:"sources,omitempty"`
}

// FindingSummary is one finding.
type FindingSummary struct {
	Code string `json:"code"`
	// cause tells two findings of one code apart.
	// +optional
	Cause   string      `json:"cause,omitempty"`
	Message string      `json:"message"`
	Since   metav1.Time `json:"since"`
	// until is when it was over.
	// +optional
	Until *metav1.Time `json:"until,omitempty"`
}

// RefusalSummary is one reason why objects of the job are not deleted, and which.
type RefusalSummary struct {
	// reason is the word by which orphand_refusals_total counts it.
	Reason string `json:"reason"`
	// message is the reason in words, with what the API server said where it said something.
	Message string `json:"message"`
	// objects are those that it holds for, as kind/name. At most 10 are listed.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Objects []string `json:"objects"`
	// more is how many further objects are not listed.
	// +optional
	More int32 `json:"more,omitempty"`
	// since is from when it has held for the first of them.
	Since metav1.Time `json:"since"`
}

// OrphanList is a list of records.
//
// +kubebuilder:object:root=true
type OrphanList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Orphan `json:"items"`
}
