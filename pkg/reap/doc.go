// Package reap finds what is left of a job and clears it away: it holds the only function that sends a DELETE.
//
// Every DELETE names one object instance by UID, propagates in the background and leaves the grace to the object. A
// missing object, and one of another UID under the same name, count as success: the instance that was meant is gone.
// Only roots are deleted: an object whose controller lives is left to it, since it would be made again.
package reap
