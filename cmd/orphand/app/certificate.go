package app

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/utils/clock"

	"github.com/orphand/orphand/pkg/signals"
)

// certificateEvery is how often the files are looked at: a rotated certificate is in use that much later at most.
const certificateEvery = 10 * time.Second

// certificate is what a TLS endpoint shows of itself. One from files is followed: whoever rotates it needs no restart.
type certificate struct {
	certFile, keyFile string
	clock             clock.WithTicker
	sink              signals.Sink
	now               atomic.Pointer[tls.Certificate]
	refused           string // why the files that are there now cannot be used; used by run alone
}

// newCertificate reads the files, or makes a self-signed certificate where none are named. Whoever connects to that one
// cannot verify it.
func newCertificate(certFile, keyFile string, clk clock.WithTicker, sink signals.Sink) (*certificate, error) {
	c := &certificate{certFile: certFile, keyFile: keyFile, clock: clk, sink: sink}
	if certFile != "" {
		if err := c.load(); err != nil {
			return nil, usage("--tls-cert-file and --tls-private-key-file: %v: name a certificate and its key, both as PEM", err)
		}
		return c, nil
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("finding the host's name for a self-signed certificate: %w", err)
	}
	certPEM, keyPEM, err := cert.GenerateSelfSignedCertKey(host, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("making a self-signed certificate: %w", err)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("making a self-signed certificate: %w", err)
	}
	c.now.Store(&pair)
	return c, nil
}

// load reads both files. A pair that does not fit together replaces nothing.
func (c *certificate) load() error {
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return err
	}
	c.now.Store(&pair)
	return nil
}

// run follows the files until ctx ends.
func (c *certificate) run(ctx context.Context) error {
	if c.certFile == "" {
		return nil
	}
	ticker := c.clock.NewTicker(certificateEvery)
	defer ticker.Stop()
	failures := 0
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
		err := c.load()
		if err == nil {
			failures = 0
			c.say("")
			continue
		}
		// The files are two, and may be replaced between the reading of one and of the other.
		if failures++; failures > 1 {
			c.say(err.Error())
		}
	}
}

// say tells once why the files cannot be used, and once that they can again.
func (c *certificate) say(refused string) {
	before := c.refused
	c.refused = refused
	switch {
	case refused != "" && before == "":
		c.sink.Emit(signals.Event{Code: signals.CertificateRefused, Phase: signals.Started, Reason: oneLine(refused),
			Attrs: []signals.Attr{{Key: "file", Value: c.certFile}}})
	case refused == "" && before != "":
		c.sink.Emit(signals.Event{Code: signals.CertificateRefused, Phase: signals.Ended, Message: "The serving certificate is good again.",
			Attrs: []signals.Attr{{Key: "file", Value: c.certFile}}})
	}
}

// config is TLS with the certificate that is good at the time of each connection. HTTP/2 is left out, as Kubernetes advises
// for endpoints that answer before they know who asks (CVE-2023-44487).
func (c *certificate) config() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.now.Load(), nil },
	}
}
