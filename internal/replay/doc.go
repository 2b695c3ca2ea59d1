// Package replay plays a recorded history to the daemon's own engine, on a simulated clock, and checks what it is expected
// to say.
package replay
