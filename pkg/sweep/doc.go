// Package sweep carries the retention policy out: it remembers the finished jobs of every kind, asks the policy at the
// moments that matter, and has what is due deleted after a live read and a second decision.
package sweep
