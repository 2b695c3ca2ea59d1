package app

import (
	"fmt"
	"net/http"
	"strings"
)

// check is one line of /livez or /readyz.
type check struct {
	name string
	// ask returns a detail for ?verbose, and an error when the check fails.
	ask func() (detail string, err error)
}

// checks answers in the format that Kubernetes components use: 200 and "ok", or 503 with every line. ?verbose always
// shows every line.
func checks(name string, list func() []check) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var lines strings.Builder
		failed := false
		for _, c := range list() {
			detail, err := c.ask()
			switch {
			case err != nil:
				failed = true
				fmt.Fprintf(&lines, "[-]%s failed: %v\n", c.name, err)
			case detail != "":
				fmt.Fprintf(&lines, "[+]%s ok: %s\n", c.name, detail)
			default:
				fmt.Fprintf(&lines, "[+]%s ok\n", c.name)
			}
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		_, verbose := r.URL.Query()["verbose"]
		switch {
		case failed:
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintf(w, "%s%s check failed\n", lines.String(), name)
		case verbose:
			fmt.Fprintf(w, "%s%s check passed\n", lines.String(), name)
		default:
			fmt.Fprint(w, "ok")
		}
	}
}
