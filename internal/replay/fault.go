package replay

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/orphand/orphand/internal/stage"
)

// fault reads `api`: how requests fail from now on.
func (r *reader) fault(d *document, t *tree) (*stage.Fault, error) {
	f := &stage.Fault{Times: 1}
	word := func(into *string, what string) func(*tree) error {
		return func(t *tree) error {
			*into = t.scalar
			if t.shape != text || t.scalar == "" {
				return d.malformed(t.line, "%s is %s: expected a name", what, t.say())
			}
			return nil
		}
	}
	err := d.read(t, "api",
		key{"verb", func(t *tree) (err error) {
			f.Verb, err = d.one(t, "verb", "get", "list", "watch", "create", "update", "patch", "delete", stage.Any)
			return err
		}},
		key{"kind", func(t *tree) error {
			r.named = append(r.named, namedKind{t.scalar, d.place(t.line)})
			return word(&f.Kind, "kind")(t)
		}},
		key{"namespace", word(&f.Namespace, "namespace")},
		key{"name", word(&f.Name, "name")},
		key{"code", func(t *tree) error {
			n, err := strconv.Atoi(t.scalar)
			if t.shape != integer || err != nil || n < 400 || n > 599 {
				return d.malformed(t.line, "code is %s: expected an HTTP status from 400 to 599", t.say())
			}
			f.Code = n
			return nil
		}},
		key{"times", func(t *tree) error {
			n, err := strconv.Atoi(t.scalar)
			if t.shape != integer || err != nil || n < -1 {
				return d.malformed(t.line, "times is %s: expected how many requests fail, -1 for all, 0 to lift it", t.say())
			}
			f.Times = n
			return nil
		}},
		key{"retryAfter", func(t *tree) (err error) {
			f.RetryAfter, err = d.duration(t, "retryAfter")
			return err
		}},
		key{"message", func(t *tree) error {
			f.Message = t.scalar
			return d.want(t, "message", "text", text)
		}},
		key{"timeout", func(t *tree) error {
			f.Timeout = strings.EqualFold(t.scalar, "true")
			return d.want(t, "timeout", "true or false", boolean)
		}},
	)
	switch {
	case err != nil:
		return nil, err
	case f.Verb == "":
		return nil, d.malformed(t.line, "verb is missing in api: expected get, list, watch, create, update, patch, delete or any")
	case f.Timeout && f.Code != 0:
		return nil, d.malformed(t.line, "api has timeout and code: expected one of them")
	case f.Times != 0 && !f.Timeout && f.Code == 0:
		return nil, d.malformed(t.line, "api has neither code nor timeout: expected an HTTP status such as %d, or timeout: true", http.StatusInternalServerError)
	}
	return f, nil
}

// kinds refuses faults of kinds that are written in another way than objects write them: they would never be met, and
// nobody would be told.
func (r *reader) kinds() error {
	known := []string{"ConfigMap", "Secret", "Service", "PodGroup", "Orphan", "Lease"}
	for _, w := range stage.Watches() {
		known = append(known, w.Kind.Kind)
	}
	for i := range r.history.Steps {
		if e := r.history.Steps[i].Event; e != nil {
			known = append(known, stage.KindOf(e.Object).Kind)
		}
	}
	for _, n := range r.named {
		for _, k := range known {
			if n.kind != k && (strings.EqualFold(n.kind, k) || strings.EqualFold(n.kind, k+"s")) {
				return &Malformed{Place: n.at, Message: strconv.Quote(n.kind) + " is no kind: expected " + k + ", as objects name it"}
			}
		}
	}
	return nil
}
