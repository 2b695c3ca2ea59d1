package install_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"

	"github.com/orphand/orphand/e2e/daemon"
	"github.com/orphand/orphand/pkg/access"
	"github.com/orphand/orphand/pkg/signals"
)

// secured is where the protected endpoint of a daemon is.
func secured(t *testing.T, d *daemon.Daemon) string {
	t.Helper()
	e, err := d.Await(t.Context(), daemon.Line("the protected endpoint", func(e daemon.Event) bool {
		return e.Code == signals.Listening && strings.Contains(e.Line, `"scheme":"https"`)
	}))
	if err != nil {
		t.Fatal(err)
	}
	return e.Address
}

func TestTheProtectedMetricsAreForWhoeverTheClusterLetsReadThem(t *testing.T) {
	withComponents(t, "observe", "protected-metrics", "network-policy")
	kubectl(t, "wait", "--for=condition=Established", "crd/orphans.orphand.dev", "--timeout=30s")
	kubeconfig := directly(t)
	if found, code, text := check(t, kubeconfig, "--leader-elect", "--metrics-secure-address=:8443"); code != 0 || !found.Complete {
		t.Errorf("check says %d\n%s", code, text)
	}
	d := launch(t, kubeconfig, "--metrics-secure-address=127.0.0.1:0")
	address := secured(t, d)

	var scraper string
	_, err := shared.WaitObject(t.Context(), corev1.SchemeGroupVersion.WithResource("secrets"), access.Namespace, "orphand-scraper", isThere)
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); scraper == "" && time.Now().Before(deadline); {
		secret, err := shared.Client().CoreV1().Secrets(access.Namespace).Get(t.Context(), "orphand-scraper", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		scraper = string(secret.Data[corev1.ServiceAccountTokenKey])
	}
	stranger := tokenOf(t, "stranger", nil)
	for _, c := range []struct {
		who, token string
		status     int
	}{
		{"nobody", "", http.StatusUnauthorized},
		{"somebody with a token that is none", "made.up.token", http.StatusUnauthorized},
		{"somebody who may not", stranger, http.StatusForbidden},
		{"the scraper", scraper, http.StatusOK},
	} {
		status, text := fetch(t, address, c.token, nil)
		if status != c.status || (status == http.StatusOK) != strings.Contains(text, "orphand_build_info") {
			t.Errorf("%s: status %d, want %d: %.200s", c.who, status, c.status, text)
		}
	}
	if status, _, err := d.Get(t.Context(), "/metrics"); err != nil || status != http.StatusNotFound {
		t.Errorf("unprotected: status %d, %v", status, err)
	}
	if status, text, err := d.Get(t.Context(), "/readyz?verbose"); err != nil || status != http.StatusOK || !strings.Contains(text, "[+]metrics ok: protected") {
		t.Errorf("/readyz: status %d, %v\n%s", status, err, text)
	}
	if response, err := http.Get("http://" + address + "/metrics"); err == nil {
		defer response.Body.Close()
		if response.StatusCode == http.StatusOK {
			t.Error("served without TLS")
		}
	}
	for _, e := range d.Events() {
		if e.Code == "" {
			t.Errorf("a line that is no JSON: %s", e.Line)
		}
	}
}

func TestWithoutItsRoleTheGuardLetsNobodyInAndSaysWhy(t *testing.T) {
	ownNamespace(t)
	kubeconfig, err := shared.UserWithRules(t.Context(), "unguarded", access.Rules(access.Observe))
	if err != nil {
		t.Fatal(err)
	}
	flag := "--metrics-secure-address=127.0.0.1:0"
	found, code, text := check(t, kubeconfig, flag)
	asked := false
	for _, a := range found.Add {
		asked = asked || a.Role == access.RoleName(access.Guard) && strings.Contains(a.Rules, "tokenreviews") && strings.Contains(a.Rules, "subjectaccessreviews")
	}
	if code != 7 || !asked {
		t.Errorf("check: exit %d\n%s", code, text)
	}
	d, err := daemon.Start(t.Context(), shared, daemon.Options{Program: program, Kubeconfig: kubeconfig, Flags: []string{flag}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Stop() })
	token := tokenOf(t, "reader", access.RulesOf("orphand-scrape"))
	if status, text := fetch(t, secured(t, d), token, nil); status != http.StatusServiceUnavailable {
		t.Errorf("%d %s", status, text)
	}
	e, err := d.Await(t.Context(), daemon.Code(signals.ReviewsFailed))
	if err != nil || !strings.Contains(e.Cure, "orphand-guard") || !strings.Contains(e.Reason, "tokenreviews") {
		t.Errorf("%v %s", err, e.Line)
	}
}

// issued writes a certificate for the loopback address, and its key, and returns
// what trusts it alone.
func issued(t *testing.T, dir string) *tls.Config {
	t.Helper()
	certPEM, keyPEM, err := cert.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"tls.crt": certPEM, "tls.key": keyPEM} {
		// As kubelets do: a file that is there is replaced, never written into.
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file+".new", text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(bytes.TrimSpace(certPEM)) {
		t.Fatal("no certificate")
	}
	return &tls.Config{RootCAs: roots}
}

func TestACertificateIsRotatedWithoutARestart(t *testing.T) {
	ownNamespace(t)
	kubeconfig, err := shared.UserWithRules(t.Context(), "rotated", access.Rules(access.Observe, access.Guard))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	first := issued(t, dir)
	d, err := daemon.Start(t.Context(), shared, daemon.Options{Program: program, Kubeconfig: kubeconfig, Flags: []string{"--metrics-secure-address=127.0.0.1:0",
		"--tls-cert-file=" + filepath.Join(dir, "tls.crt"), "--tls-private-key-file=" + filepath.Join(dir, "tls.key")}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Stop() })
	address, token := secured(t, d), tokenOf(t, "reader", access.RulesOf("orphand-scrape"))
	if status, text := fetch(t, address, token, first); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	pid := d.PID()
	second := issued(t, dir)
	begun := time.Now()
	status, text := 0, ""
	for status != http.StatusOK && time.Since(begun) < 30*time.Second {
		status, text = fetch(t, address, token, second)
		if status != http.StatusOK {
			select {
			case <-t.Context().Done():
				t.Fatal(t.Context().Err())
			case <-time.After(200 * time.Millisecond): // nothing tells of it but another connection
			}
		}
	}
	if status != http.StatusOK {
		t.Fatalf("the second is never shown: %s", text)
	}
	t.Logf("shown %v after it was written", time.Since(begun).Round(100*time.Millisecond))
	if status, _ := fetch(t, address, token, first); status == http.StatusOK {
		t.Error("the first is still shown")
	}
	if d.PID() != pid || len(d.Events()) == 0 {
		t.Error("it was restarted")
	}
}
