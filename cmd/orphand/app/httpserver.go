package app

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"strings"
	"syscall"
	"time"
)

// endpoints are what the HTTP servers offer.
type endpoints struct {
	metrics       http.Handler
	livez, readyz http.Handler
	pprof         bool
	// guard protects the metrics and pprof, which then have an address of their own; nil leaves all at one, open to whoever
	// reaches it. Health stays open, as in Kubernetes' own components: the kubelet has no token.
	guard *guard
}

// open is what --http-address serves.
func (e endpoints) open() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /livez", e.livez)
	mux.Handle("GET /readyz", e.readyz)
	if e.guard == nil {
		e.inside(mux)
	}
	return mux
}

// protected is what --metrics-secure-address serves.
func (e endpoints) protected() http.Handler {
	mux := http.NewServeMux()
	e.inside(mux)
	return e.guard.protect(mux)
}

// inside is what can be protected.
func (e endpoints) inside(mux *http.ServeMux) {
	mux.Handle("GET /metrics", e.metrics)
	if e.pprof {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
}

// listen opens the address that a flag gives; the error names it and the cure.
func listen(flag, address string) (net.Listener, error) {
	listener, err := net.Listen("tcp", address)
	switch {
	case err == nil:
		return listener, nil
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("--%s %s is in use by another process: choose another, or port 0 for a free one", flag, address)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("--%s %s may not be opened by this user: choose a port above 1023", flag, address)
	default:
		return nil, fmt.Errorf("--%s %s cannot be opened: %w", flag, address, err)
	}
}

// serve answers on listener until ctx ends, then lets requests in hand finish.
func serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, ErrorLog: log.New(quiet{}, "", 0)}
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
		defer cancel()
		if server.Shutdown(grace) != nil {
			_ = server.Close() // Whoever still reads has had their time.
		}
	})
	err := server.Serve(listener)
	if stop() {
		return fmt.Errorf("serving %s: %w", listener.Addr(), err)
	}
	<-stopped
	return nil
}

// quiet drops what net/http says of connections that are no TLS or end within the handshake: every port scan and every load
// balancer's probe would be a line that is no JSON.
type quiet struct{}

func (quiet) Write(line []byte) (int, error) {
	if strings.HasPrefix(string(line), "http: TLS handshake error") {
		return len(line), nil
	}
	return os.Stderr.Write(line)
}
