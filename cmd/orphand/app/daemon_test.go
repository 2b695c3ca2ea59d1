package app

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/orphand/orphand/api/v1alpha1"
	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/informers"
	"github.com/orphand/orphand/pkg/signals"
)

// serveAPI serves the API until after the daemons of the test have stopped, and returns its URL.
func serveAPI(t *testing.T, api *fakeAPI) string {
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	return server.URL
}

// running is a daemon under test.
type running struct {
	log  *logReader
	stop func() error
}

// startDaemon runs a daemon against a server until the test ends, and then checks every line that it wrote.
func startDaemon(t *testing.T, server string, change func(*Options)) running {
	t.Helper()
	options := DefaultOptions()
	options.HTTPAddress = "127.0.0.1:0"
	if change != nil {
		change(&options)
	}
	log := newLogReader()
	d, err := newDaemon(config{options: options, cluster: &rest.Config{Host: server}, build: readBuildInfo(), clock: clock.RealClock{}, log: log})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	result := make(chan error, 1)
	go func() { result <- d.run(ctx) }()
	stopped := false
	stop := func() error {
		stopped = true
		cancel(errTestEnds)
		select {
		case err := <-result:
			return err
		case <-time.After(20 * time.Second):
			t.Fatal("the daemon does not stop")
			return nil
		}
	}
	t.Cleanup(func() {
		if !stopped {
			if err := stop(); err != nil {
				t.Errorf("stopping: %v", err)
			}
		}
		checkAgainstTable(t, log.all())
	})
	return running{log: log, stop: stop}
}

type testError string

func (e testError) Error() string { return string(e) }

const errTestEnds = testError("the test ends")

func (r running) get(t *testing.T, path string) (int, string) {
	t.Helper()
	response, err := http.Get("http://" + r.log.event(t, signals.Listening).text("address") + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

func (r running) kind(t *testing.T, kind, state string) line {
	t.Helper()
	return r.log.await(t, kind+" "+state, func(l line) bool {
		return l.text("event") == string(signals.KindStateChanged) && l.text("kind") == kind && l.text("state") == state
	})
}

// synced waits until every kind that orphand follows is watched, or known not to be there. The line that the caches are filled
// may come a moment before the last of these states.
func (r running) synced(t *testing.T) {
	t.Helper()
	r.log.event(t, signals.CachesSynced)
	for _, kind := range []string{facts.KindTrainJob, facts.KindJobSet, facts.KindJob, facts.KindPod, facts.KindTrainingRuntime, facts.KindNode, v1alpha1.KindOrphan} {
		r.log.await(t, kind+" is no longer Syncing", func(l line) bool {
			return l.text("event") == string(signals.KindStateChanged) && l.text("kind") == kind && l.text("state") != string(informers.Syncing)
		})
	}
}

func (r running) expect(t *testing.T, path string, status int, contains ...string) {
	t.Helper()
	got, body := r.get(t, path)
	if got != status {
		t.Errorf("%s: status %d, want %d\n%s", path, got, status, body)
	}
	for _, text := range contains {
		if !strings.Contains(body, text) {
			t.Errorf("%s: no %q in\n%s", path, text, body)
		}
	}
}

func TestAnEmptyClusterIsFollowedAndAStopIsClean(t *testing.T) {
	server := serveAPI(t, newFakeAPI())
	d := startDaemon(t, server, nil)
	d.synced(t)
	d.expect(t, "/readyz", 200, "ok")
	d.expect(t, "/readyz?verbose", 200, "[+]api ok", "[+]kind/Pod ok: Watching since", "[+]kind/TrainJob ok", "readyz check passed")
	d.expect(t, "/livez", 200, "ok")
	d.expect(t, "/metrics", 200, `orphand_pods{reason="OutOfService",verdict="Gone"} 0`, `orphand_jobs{state="Settled"} 0`,
		`orphand_kind_state{kind="Pod",state="Watching"} 1`, "orphand_nodes_readable 1", `rest_client_requests_total{code="2xx",method="GET"}`,
		`workqueue_depth{name="jobs"} 0`, `informer_queued_items{`, "orphand_metrics_refused_total 0", "go_goroutines", "process_")
	d.expect(t, "/debug/pprof/", 404)
	if err := d.stop(); err != nil {
		t.Errorf("stopped with %v", err)
	}
	if l := d.log.event(t, signals.Stopping); l.text("reason") != string(errTestEnds) {
		t.Errorf("%v", l)
	}
	d.log.event(t, signals.Stopped)
	for _, l := range d.log.all() {
		if l.text("level") != "info" {
			t.Errorf("an uneventful life has a line %v", l)
		}
	}
}

func TestAServerThatCannotBeReachedIsSaidAtOnceAndWaitedFor(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()

	begun := time.Now()
	d := startDaemon(t, "http://"+address, nil)
	l := d.log.event(t, signals.APIUnreachable)
	if l.text("level") != "error" || !strings.Contains(l.text("reason"), "connection refused") || l.text("cure") == "" {
		t.Errorf("%v", l)
	}
	if took := time.Since(begun); took > 3*time.Second {
		t.Errorf("said after %v", took)
	}
	d.expect(t, "/readyz", 503, "[-]api failed: http://"+address+" does not answer", "connection refused")
	d.expect(t, "/livez", 200)

	if listener, err = net.Listen("tcp", address); err != nil {
		t.Skipf("the port was taken meanwhile: %v", err)
	}
	server := &http.Server{Handler: newFakeAPI()}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	d.synced(t)
	d.expect(t, "/readyz", 200)
	d.log.await(t, "APIUnreachable ended", func(l line) bool {
		return l.text("event") == string(signals.APIUnreachable) && l.text("phase") == "ended"
	})
}

func TestRefusedCredentialsAreSaidAtOnce(t *testing.T) {
	api := newFakeAPI()
	api.answer(401, "version")
	server := serveAPI(t, api)
	d := startDaemon(t, server, nil)
	if l := d.log.event(t, signals.APIUnreachable); !strings.Contains(l.text("reason"), "401") {
		t.Errorf("%v", l)
	}
	d.expect(t, "/readyz", 503, "401")
}

func TestAClusterWithoutTrainerIsSaidAndWaitedFor(t *testing.T) {
	api := newFakeAPI()
	api.answer(404, "trainjobs", "jobsets", "trainingruntimes")
	server := serveAPI(t, api)
	d := startDaemon(t, server, nil)
	if l := d.kind(t, "TrainJob", "Absent"); l.text("level") != "warn" || !strings.Contains(l.text("cure"), "install Kubeflow Trainer") {
		t.Errorf("%v", l)
	}
	if l := d.kind(t, "JobSet", "Absent"); !strings.Contains(l.text("cure"), "install JobSet") {
		t.Errorf("%v", l)
	}
	d.synced(t)
	d.expect(t, "/readyz?verbose", 200, "[+]kind/TrainJob ok: Absent since")

	api.answer(200, "trainjobs", "jobsets", "trainingruntimes")
	if l := d.kind(t, "TrainJob", "Watching"); l.text("level") != "info" {
		t.Errorf("%v", l)
	}
}

func TestNodesThatMayNotBeReadAreSaidAndTheRestGoesOn(t *testing.T) {
	api := newFakeAPI()
	api.answer(403, "nodes")
	server := serveAPI(t, api)
	d := startDaemon(t, server, nil)
	if l := d.log.event(t, signals.NodesUnreadable); l.text("phase") != "started" || !strings.Contains(l.text("cure"), "nodes") {
		t.Errorf("%v", l)
	}
	d.synced(t)
	d.expect(t, "/readyz?verbose", 200, "[+]kind/Node ok: Forbidden since")
	d.expect(t, "/metrics", 200, "orphand_nodes_readable 0")

	api.answer(200, "nodes")
	d.log.await(t, "NodesUnreadable ended", func(l line) bool {
		return l.text("event") == string(signals.NodesUnreadable) && l.text("phase") == "ended"
	})
	d.expect(t, "/metrics", 200, "orphand_nodes_readable 1")
}

func TestPodsThatMayNotBeReadKeepItFromBeingReady(t *testing.T) {
	api := newFakeAPI()
	api.answer(403, "pods")
	server := serveAPI(t, api)
	d := startDaemon(t, server, nil)
	d.kind(t, "Pod", "Forbidden")
	d.expect(t, "/readyz", 503, "[-]kind/Pod failed: Forbidden since", "allow get, list and watch on pods")
	d.expect(t, "/livez", 200)
	if err := d.stop(); err != nil {
		t.Errorf("stopping before the caches are filled: %v", err)
	}
}

func TestAPortInUseEndsTheProcessWithTheCure(t *testing.T) {
	server := serveAPI(t, newFakeAPI())
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	d := startDaemon(t, server, func(o *Options) { o.HTTPAddress = taken.Addr().String() })
	l := d.log.event(t, signals.Failed)
	for _, text := range []string{"--http-address " + taken.Addr().String(), "in use", "port 0"} {
		if !strings.Contains(l.text("reason"), text) {
			t.Errorf("no %q in %v", text, l)
		}
	}
	if err := d.stop(); err == nil {
		t.Error("no error")
	}
}

func TestPprofIsServedWhenAskedFor(t *testing.T) {
	server := serveAPI(t, newFakeAPI())
	d := startDaemon(t, server, func(o *Options) { o.Pprof = true })
	d.expect(t, "/debug/pprof/cmdline", 200)
}
