// Package informers watches the cluster: the selectors, the transforms that make records of objects, and the handlers
// that hand each change to an observer. It never writes.
package informers
