package install_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// call is a request as permissions name it.
type call struct{ group, resource, name, verb string }

// recorder stands before the API server and notes each request with its answer.
// Who asks, and what that one may do, stays as it is.
type recorder struct {
	server *httptest.Server

	mu        sync.Mutex
	calls     map[call]int
	forbidden map[call]bool
}

func record(t *testing.T) *recorder {
	t.Helper()
	config := shared.Config()
	to, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(config.CAData)
	r := &recorder{calls: map[call]int{}, forbidden: map[call]bool{}}
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(p *httputil.ProxyRequest) { p.SetURL(to) },
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true},
		FlushInterval: -1, // watches
		ModifyResponse: func(response *http.Response) error {
			r.note(response.Request, response.StatusCode)
			return nil
		},
	}
	r.server = httptest.NewUnstartedServer(proxy)
	r.server.EnableHTTP2 = true
	r.server.StartTLS()
	t.Cleanup(func() {
		r.server.CloseClientConnections()
		r.server.Close()
	})
	return r
}

func (r *recorder) ca() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.server.Certificate().Raw})
}

func (r *recorder) note(request *http.Request, status int) {
	c, ok := callOf(request)
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls[c]++
	if status == http.StatusForbidden {
		r.forbidden[c] = true
	}
}

// callOf is what the API server's authorizer makes of a request; false for paths
// that are no resources.
func callOf(request *http.Request) (call, bool) {
	parts := strings.Split(strings.Trim(request.URL.Path, "/"), "/")
	var c call
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		c.group, parts = parts[1], parts[3:]
	default:
		return c, false
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		parts = parts[2:]
	}
	c.resource = parts[0]
	if len(parts) > 1 {
		c.name = parts[1]
	}
	if len(parts) > 2 {
		c.resource += "/" + parts[2]
	}
	query := request.URL.Query()
	switch request.Method {
	case http.MethodGet:
		c.verb = "get"
		if c.name == "" {
			c.verb = "list"
			if query.Get("watch") != "" {
				c.verb = "watch"
			}
			// A list or watch of one object by its name is authorized by that name.
			c.name, _ = strings.CutPrefix(query.Get("fieldSelector"), "metadata.name=")
		}
	case http.MethodPost:
		c.verb = "create"
	case http.MethodPut:
		c.verb = "update"
	case http.MethodPatch:
		c.verb = "patch"
	case http.MethodDelete:
		c.verb = "delete"
	}
	return c, true
}
