// Package install holds the tests of what administrators install: the manifests,
// the permissions, the alerts, the election and the commands of the documentation,
// on a real control plane.
package install
