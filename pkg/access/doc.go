// Package access is the table of every call that orphand makes to the Kubernetes API, from which its permissions are made.
package access
