// Package sim is a simulated cluster with true processes in it: the judge of orphand's one promise. From a seed it makes a
// history (machines that fail in every known way, controllers, people, a slow and lossy API, orphand's own restarts), plays
// it before the real handlers, engine and rule, and compares what orphand says with what is true. In a share of the histories
// orphand deletes, by the real Enforcer and under the real brakes, and every DELETE is judged when it leaves the process and when
// the API server carries it out (see OnlyOrphans, BrakesHold and NamedByUID).
//
// What the world takes from Kubernetes is what Kubernetes' own source does; where a component's freedom is bounded on
// purpose, the bound stands in a comment with its reason. A history in which a person breaks an assumption that Kubernetes
// itself makes (see Lie) is counted apart, and only the pods that the lie covers are excused.
package sim
