// Package kubeflow holds the versions of the Kubeflow controllers that the test
// bed runs: its module requires the Trainer's and JobSet's managers as tools, to
// be built and never imported. They want older Kubernetes libraries than the
// control plane, hence a module of their own.
package kubeflow
