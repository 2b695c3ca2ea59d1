// Package retention is the administrators' policy for finished jobs: it reads the policy file, matches objects to its
// rules, and decides what is kept, what is not ours, and what goes when.
//
// Everything here is a pure function of what it is given. Nothing reads a clock or the cluster.
package retention
