// Package scenarios tests orphand on a real control plane: what it says while
// machines fail, people meddle and the API is away, beside the processes that
// really live.
package scenarios
