// Package stage is a deterministic stage for the daemon's own engine: a simulated clock, an in-memory API with watches
// that lag and lose, and a daemon that can be started, stopped and restarted; all on one goroutine.
//
// Nothing happens on it by itself. Whoever plays (the replayer, the simulator) writes objects to the API and runs the
// loop; the same calls in the same order give the same run, to the byte.
package stage
