package reap

// Reason says why an object is not deleted.
type Reason string

// The reasons that lie in the object.
const (
	Kept           Reason = "Kept"           // it, or something that would go with it, carries orphand.dev/keep
	MirrorPod      Reason = "MirrorPod"      // it stands for a static pod: deleting it does nothing
	NoOwner        Reason = "NoOwner"        // nothing says that a job made it
	OwnerLives     Reason = "OwnerLives"     // its owner is there: it would be made again, or is no orphan at all
	OwnerUnknown   Reason = "OwnerUnknown"   // whether its owner is there cannot be known
	OwnerElsewhere Reason = "OwnerElsewhere" // its owner lives in another namespace: the reference is wrong
	RuntimeInUse   Reason = "RuntimeInUse"   // a TrainJob names the runtime copy
)

// The reasons that lie in this process and in the cluster's weather.
const (
	ObserveOnly       Reason = "ObserveOnly"       // the mode is observe
	NotPermitted      Reason = "NotPermitted"      // a permission is missing
	NotLeading        Reason = "NotLeading"        // another replica leads, or the lease is not certain
	DryRun            Reason = "DryRun"            // --dry-run: it would be deleted
	NamespaceExcluded Reason = "NamespaceExcluded" // its namespace is left alone
	TooManyDeletes    Reason = "TooManyDeletes"    // --max-deletes-per-minute
	NodesUnreachable  Reason = "NodesUnreachable"  // --max-unreachable, until --calm has passed
	NodesUnreadable   Reason = "NodesUnreadable"   // how many nodes are unreachable cannot be known
	ReadFailed        Reason = "ReadFailed"        // a live read that the decision needs failed
	Pausing           Reason = "Pausing"           // the API server refused, and the pause before the next attempt runs
)

// Reasons lists every reason.
func Reasons() []Reason {
	return []Reason{Kept, MirrorPod, NoOwner, OwnerLives, OwnerUnknown, OwnerElsewhere, RuntimeInUse,
		ObserveOnly, NotPermitted, NotLeading, DryRun, NamespaceExcluded, TooManyDeletes, NodesUnreachable, NodesUnreadable,
		ReadFailed, Pausing}
}

// Meaning is the reason in a sentence's words.
func (r Reason) Meaning() string {
	switch r {
	case Kept:
		return "it, or something that would go with it, carries the annotation orphand.dev/keep"
	case MirrorPod:
		return "it is the mirror of a static pod"
	case NoOwner:
		return "no owner reference says that a job made it"
	case OwnerLives:
		return "its owner is there"
	case OwnerUnknown:
		return "whether its owner is there cannot be known"
	case OwnerElsewhere:
		return "its owner lives in another namespace, so the owner reference is wrong"
	case RuntimeInUse:
		return "a TrainJob names this runtime"
	case ObserveOnly:
		return "the mode is observe"
	case NotPermitted:
		return "the permission to delete is missing"
	case NotLeading:
		return "this replica does not certainly lead"
	case DryRun:
		return "--dry-run: it would be deleted"
	case NamespaceExcluded:
		return "its namespace is left alone"
	case TooManyDeletes:
		return "--max-deletes-per-minute is reached"
	case NodesUnreachable:
		return "too many nodes are unreachable, or were a short time ago"
	case NodesUnreadable:
		return "Nodes may not be read, so that nobody knows how many are unreachable"
	case ReadFailed:
		return "the API server did not answer a read that the decision needs"
	case Pausing:
		return "the API server refused the last attempt, and the next one is not due"
	}
	return string(r)
}
