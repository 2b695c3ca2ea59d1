package app

import (
	"context"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/util/cert"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/orphand/orphand/pkg/signals"
)

// pairFor writes a certificate for a host, and its key.
func pairFor(t *testing.T, host, certFile, keyFile string) {
	t.Helper()
	certPEM, keyPEM, err := cert.GenerateSelfSignedCertKey(host, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string][]byte{certFile: certPEM, keyFile: keyPEM} {
		if file == "" {
			continue
		}
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// shows says whether the certificate is one for the host.
func shows(t *testing.T, c *certificate, host string) bool {
	t.Helper()
	pair, err := c.config().GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	return leaf.VerifyHostname(host) == nil
}

func TestARotatedCertificateIsShownAndABadOneIsNot(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	pairFor(t, "first", certFile, keyFile)
	clk := clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0))
	said := make(chan signals.Event, 10)
	c, err := newCertificate(certFile, keyFile, clk, signals.SinkFunc(func(e signals.Event) { said <- e }))
	if err != nil || !shows(t, c, "first") {
		t.Fatal("the first is not shown", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- c.run(ctx) }()
	step := func() {
		for !clk.HasWaiters() {
			time.Sleep(time.Millisecond)
		}
		clk.Step(certificateEvery)
	}
	expect := func(phase signals.Phase) signals.Event {
		t.Helper()
		patience := time.After(20 * time.Second)
		for {
			step()
			select {
			case e := <-said:
				if e.Code != signals.CertificateRefused || e.Phase != phase {
					t.Fatalf("said %+v, want the phase %s", e, phase)
				}
				return e
			case <-patience:
				t.Fatalf("never said %s", phase)
			case <-time.After(time.Millisecond): // looks are made by steps of the clock
			}
		}
	}
	pairFor(t, "second", "", keyFile) // a key that does not fit
	if e := expect(signals.Started); !strings.Contains(e.Reason, "does not match") {
		t.Errorf("the reason is %q", e.Reason)
	}
	if !shows(t, c, "first") {
		t.Error("the last good one is not in use")
	}
	pairFor(t, "third", certFile, keyFile)
	expect(signals.Ended)
	if !shows(t, c, "third") {
		t.Error("the rotated one is not in use")
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestWithoutFilesACertificateIsMadeAndFilesThatAreNoneAreRefusedAtOnce(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0))
	c, err := newCertificate("", "", clk, signals.Discard{})
	if err != nil {
		t.Fatal(err)
	}
	host, _ := os.Hostname()
	if !shows(t, c, host) {
		t.Errorf("it is not for %s", host)
	}
	_, err = newCertificate("/nowhere/tls.crt", "/nowhere/tls.key", clk, signals.Discard{})
	if err == nil || asFailure(err).Code != ExitUsage || !strings.Contains(err.Error(), "--tls-cert-file") {
		t.Errorf("files that are not there: %v", err)
	}
}
