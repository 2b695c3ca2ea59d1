// Package v1alpha1 is the API of orphand's records.
//
// +kubebuilder:object:generate=true
// +groupName=orphand.dev
package v1alpha1

//go:generate env GOWORK=off go tool -modfile=../../tools/controllergen/go.mod controller-gen object crd:headerFile= paths=. output:crd:artifacts:config=../../manifests/base/crds
