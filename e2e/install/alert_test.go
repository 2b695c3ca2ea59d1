package install_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/orphand/orphand/e2e/cluster"
	"github.com/orphand/orphand/e2e/daemon"
	"github.com/orphand/orphand/internal/alerts"
	"github.com/orphand/orphand/pkg/access"
)

// needPrometheus, set to anything, makes it a failure that Prometheus' programs are
// missing; make alerts-test sets it.
const needPrometheus = "ORPHAND_NEED_PROMETHEUS"

func prometheus(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("prometheus")
	if err != nil {
		if os.Getenv(needPrometheus) != "" {
			t.Fatal(err)
		}
		t.Skip("prometheus is not there: make alerts-test installs it")
	}
	return path
}

// scrape runs a Prometheus that scrapes addresses each second, with the rules as
// published but for what they wait for, and returns its address.
func scrape(t *testing.T, rules string, addresses ...string) string {
	t.Helper()
	program, dir := prometheus(t), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "rules.yaml"), []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf(`global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [rules.yaml]
scrape_configs:
- job_name: orphand
  static_configs: [{targets: ["%s"]}]
`, strings.Join(addresses, `", "`))
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	_ = free.Close()
	cmd := exec.Command(program, "--config.file="+filepath.Join(dir, "prometheus.yaml"), "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address)
	cmd.Env = append(os.Environ(), shared.Mark())
	if log, err := os.Create(filepath.Join(shared.Dir, "log", "prometheus.log")); err == nil {
		cmd.Stdout, cmd.Stderr = log, log
		defer log.Close()
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	return address
}

// raised is an alert as Prometheus has it.
type raised struct {
	Labels, Annotations map[string]string
	State               string
}

// awaitAlerts asks Prometheus until its firing alerts are as wanted.
func awaitAlerts(t *testing.T, address, what string, is func(firing map[string]raised) bool) time.Duration {
	t.Helper()
	begun := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	var firing map[string]raised
	for {
		var answer struct{ Data struct{ Alerts []raised } }
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/api/v1/alerts", nil)
		if err != nil {
			t.Fatal(err)
		}
		if response, err := http.DefaultClient.Do(request); err == nil {
			err = json.NewDecoder(response.Body).Decode(&answer)
			_ = response.Body.Close()
			if err == nil && response.StatusCode == http.StatusOK {
				firing = map[string]raised{}
				for _, a := range answer.Data.Alerts {
					if a.State == "firing" {
						firing[a.Labels["alertname"]] = a
					}
				}
				if is(firing) {
					return time.Since(begun)
				}
			}
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not so; firing: %v", what, firing)
		case <-tick.C:
		}
	}
}

func TestARealPrometheusFiresForACutOffNodeAndResolves(t *testing.T) {
	prometheus(t)
	kubeconfig, err := shared.UserWithRules(t.Context(), "scraped", access.Rules(access.Observe))
	if err != nil {
		t.Fatal(err)
	}
	d, err := daemon.Start(t.Context(), shared, daemon.Options{Program: program, Kubeconfig: kubeconfig})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Stop() })
	node, err := shared.AddNode(t.Context(), cluster.NodeSpec{Name: "cut-off"})
	if err != nil {
		t.Fatal(err)
	}
	job, err := shared.SubmitTrainJob(t.Context(), cluster.TrainJobSpec{Name: "alarmed", On: []string{"cut-off"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := shared.WaitRunning(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	// Seconds in the place of minutes: what is tested is the daemon, the scrape and
	// the expression. What the rules wait for is tested by promtool.
	address := scrape(t, alerts.Rules(func(d time.Duration) time.Duration {
		if d > time.Minute*30 {
			return d
		}
		return min(d, 2*time.Second)
	}), d.Address())
	// This daemon keeps no records, which is an alert, and may not, which is one too.
	expected := func(firing map[string]raised) (rest []string) {
		for name := range firing {
			if name != "OrphandRecordsNotKept" && name != "OrphandForbidden" && name != "OrphandKindNotWatched" {
				rest = append(rest, name)
			}
		}
		return rest
	}
	awaitAlerts(t, address, "all is well", func(firing map[string]raised) bool {
		_, scraped := firing["OrphandRecordsNotKept"]
		return scraped && len(expected(firing)) == 0
	})

	if err := node.CutOff(); err != nil {
		t.Fatal(err)
	}
	if err := shared.DeleteTrainJob(t.Context(), job, metav1.DeletePropagationBackground); err != nil {
		t.Fatal(err)
	}
	took := awaitAlerts(t, address, "the alert fires", func(firing map[string]raised) bool {
		a, ok := firing["OrphandPodUnproven"]
		if ok && (a.Labels["reason"] != "NodeUnreachable" || a.Labels["severity"] != "warning" || !strings.Contains(a.Annotations["description"], "kubectl get orphans")) {
			t.Errorf("%+v", a)
		}
		if rest := expected(firing); len(rest) > 1 || len(rest) == 1 && rest[0] != "OrphandPodUnproven" {
			t.Errorf("firing too: %v", rest)
		}
		return ok
	})
	t.Logf("fires %v after the node was cut off, of which the node monitor takes 6 s and the rule 2 s", took.Round(100*time.Millisecond))

	if err := node.BringBack(); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Await(t.Context(), daemon.Over(job.UID)); err != nil {
		t.Fatal(err)
	}
	took = awaitAlerts(t, address, "the alert resolves", func(firing map[string]raised) bool { return len(expected(firing)) == 0 })
	t.Logf("resolves %v after the job settled", took.Round(100*time.Millisecond))
	if lies := d.Judge().Lies(); len(lies) > 0 {
		t.Error(lies)
	}

	// What this daemon wrote through all of this is as documented, and the filter
	// lets through what it should.
	lines := 0
	for _, e := range d.Events() {
		if err := alerts.Conforms([]byte(e.Line)); err != nil {
			t.Errorf("%v\n%s", err, e.Line)
		}
		lines++
	}
	t.Logf("%d lines conform to the schema", lines)
}
