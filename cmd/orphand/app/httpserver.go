package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"syscall"
	"time"
)

// endpoints are what the HTTP server offers.
type endpoints struct {
	metrics       http.Handler
	livez, readyz http.Handler
	pprof         bool
}

func (e endpoints) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", e.metrics)
	mux.Handle("GET /livez", e.livez)
	mux.Handle("GET /readyz", e.readyz)
	if e.pprof {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	return mux
}

// listen opens the address; the error names the flag and the cure.
func listen(address string) (net.Listener, error) {
	listener, err := net.Listen("tcp", address)
	switch {
	case err == nil:
		return listener, nil
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("--http-address %s is in use by another process: choose another, or port 0 for a free one", address)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("--http-address %s may not be opened by this user: choose a port above 1023", address)
	default:
		return nil, fmt.Errorf("--http-address %s cannot be opened: %w", address, err)
	}
}

// serve answers on listener until ctx ends, then lets requests in hand finish.
func serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
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
