package cluster

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// auditPolicy keeps every write: deletes with their options, the others by
// name. Heartbeats and events are left out.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  resources: [{group: coordination.k8s.io}, {group: events.k8s.io}, {group: "", resources: [events]}]
- level: None
  verbs: [get, list, watch]
- level: Request
  verbs: [delete, deletecollection]
- level: Metadata
`

// Write is a write request as the API server's audit log has it.
type Write struct {
	Time        time.Time // when the request arrived
	User        string
	UserAgent   string
	Verb        string // create, update, patch, delete, deletecollection
	Group       string
	Resource    string // plural
	Subresource string
	types.NamespacedName
	Code int // HTTP status of the answer
	// Options are those of a delete: preconditions, propagation, grace.
	Options *metav1.DeleteOptions
}

// AuditFile is the path of the API server's audit log, one JSON object a line.
func (c *Cluster) AuditFile() string { return c.path("audit.jsonl") }

// Writes returns all writes so far, oldest first. Requests of which the API
// server has not yet answered are not among them.
func (c *Cluster) Writes() ([]Write, error) {
	f, err := os.Open(c.AuditFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []Write
	for lines := bufio.NewReader(f); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return out, nil // the rest of a line is still to be written
		}
		if err != nil {
			return out, err
		}
		var e struct {
			Verb      string
			UserAgent string
			User      struct{ Username string }
			ObjectRef struct {
				APIGroup, Resource, Subresource, Namespace, Name string
			}
			ResponseStatus           struct{ Code int }
			RequestReceivedTimestamp time.Time
			RequestObject            *metav1.DeleteOptions
		}
		if err := json.Unmarshal(line, &e); err != nil {
			return out, fmt.Errorf("%s: %w", c.AuditFile(), err)
		}
		out = append(out, Write{
			Time: e.RequestReceivedTimestamp, User: e.User.Username, UserAgent: e.UserAgent, Verb: e.Verb,
			Group: e.ObjectRef.APIGroup, Resource: e.ObjectRef.Resource, Subresource: e.ObjectRef.Subresource,
			NamespacedName: types.NamespacedName{Namespace: e.ObjectRef.Namespace, Name: e.ObjectRef.Name},
			Code:           e.ResponseStatus.Code, Options: e.RequestObject,
		})
	}
}
