package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/metrics"
	"github.com/orphand/orphand/pkg/reap"
	"github.com/orphand/orphand/pkg/signals"
)

// config is what a daemon is made from once everything given has been checked.
type config struct {
	options Options
	// given are the flags that were set, for the first log line.
	given   []string
	cluster *rest.Config
	build   buildInfo
	clock   clock.WithTicker
	log     io.Writer
	// ownsProcess allows what can be done only once per process.
	ownsProcess bool
}

// daemon is `orphand run`.
type daemon struct {
	config
	sink     signals.Sink
	recorder *metrics.Recorder
	scrape   http.Handler
	// catalogue lists every metric that scrape serves.
	catalogue func() ([]metrics.Entry, error)
	clients   *clients
	reach     *reach
	leader    *leadership // nil without an election
	follower  *follower
	retainer  *retainer
	mode      *mode
	announcer *announcer
	// guard and shown protect the metrics; nil where they are open.
	guard   *guard
	shown   *certificate
	started time.Time
}

// newDaemon puts the parts together; nothing runs yet and nothing was asked of the cluster.
func newDaemon(c config) (*daemon, error) {
	level, err := parseLevel(c.options.LogLevel)
	if err != nil {
		return nil, err
	}
	logger := newLogger(c.log, level)
	if c.ownsProcess {
		bridgeKlog(logger, c.clock)
	}
	d := &daemon{config: c, sink: newFlood(newLogSink(logger, c.clock.Now), c.clock), started: c.clock.Now()}

	registry := metrics.NewRegistry()
	d.scrape = metrics.Handler(registry)
	d.catalogue = func() ([]metrics.Entry, error) { return metrics.Catalogue(registry) }
	build := metrics.Build{Version: c.build.Version, Revision: c.build.Revision, GoVersion: c.build.GoVersion}
	if d.recorder, err = metrics.New(registry, build, vocabulary()); err != nil {
		return nil, fmt.Errorf("making the metrics: %w", err)
	}

	server, err := serverURL(c.cluster)
	if err != nil {
		return nil, err
	}
	d.reach = newReach(server, c.clock, d.sink)
	d.clients, err = newClients(c.cluster, c.options, userAgent(c.build), d.recorder.ClientTransport, d.reach.transport)
	if err != nil {
		return nil, err
	}
	if c.options.MetricsAddress != "" {
		reviews, err := d.clients.reviews()
		if err != nil {
			return nil, err
		}
		d.guard = newGuard(reviews, c.clock, d.sink)
		if d.shown, err = newCertificate(c.options.TLSCertFile, c.options.TLSKeyFile, c.clock, d.sink); err != nil {
			return nil, err
		}
	}
	d.recorder.Leader(!c.options.LeaderElect)
	api, err := newAPIClients(d.clients)
	if err != nil {
		return nil, err
	}
	if c.options.LeaderElect {
		leases, err := d.clients.leases()
		if err != nil {
			return nil, err
		}
		if d.leader, err = newLeadership(c.options, leases, d.sink, d.ledWith); err != nil {
			return nil, err
		}
	}
	writes := &reap.Kube{Core: api.Kube, Dynamic: api.Dynamic, Metadata: api.Metadata}
	d.recorder.ModeWanted(c.options.Mode)
	d.mode = newMode(c.options, writes, c.clock, signals.SinkFunc(d.tellMode), d.recorder.Mode)
	force := c.options.enforcement(enforcement{api: writes, clock: c.clock, sink: d.sink, recorder: doubting{d.recorder, d.mode}, mode: d.mode.enforced, leads: d.leads,
		refused: func(job facts.JobKey) { d.follower.ledger.Keep(job) }})
	if d.leader != nil {
		d.leader.regained = d.regained
	}
	if d.follower, err = newFollower(c.options, api, c.clock, d.sink, d.recorder, d.leads, c.options.enforcer(force), force.forget); err != nil {
		return nil, err
	}
	d.retainer = newRetainer(c.options, api, c.clock, d.sink, d.recorder, d.follower.engine, force, d.follower.usable)
	d.follower.concluded = d.retainer.touch
	d.announcer = newAnnouncer(api.Kube, c.clock, d.leads, d.follower.engine.Present, d.follower.ledger.UID, standIn(d.leader, api.Kube))
	d.follower.announce = d.announcer.tell
	d.retainer.announce = d.announcer.tell
	d.mode.changed = d.again
	return d, nil
}

// run works until ctx ends and returns nil, or earlier with the error that made it stop. Either is in the log by then.
func (d *daemon) run(ctx context.Context) error {
	d.sink.Emit(signals.Event{Code: signals.Starting, Attrs: []signals.Attr{
		{Key: "version", Value: d.build.Version}, {Key: "revision", Value: d.build.Revision},
		{Key: "goVersion", Value: d.build.GoVersion}, {Key: "server", Value: d.reach.server}, {Key: "flags", Value: d.given}}})
	err := d.work(ctx)
	last := signals.Event{Code: signals.Stopped, Attrs: []signals.Attr{{Key: "seconds", Value: d.clock.Since(d.started).Seconds()}}}
	if err != nil {
		last.Code, last.Reason = signals.Failed, err.Error()
	}
	d.sink.Emit(last)
	return err
}

func (d *daemon) work(outer context.Context) error {
	defer d.follower.close()
	defer d.retainer.close()
	listener, err := listen("http-address", d.options.HTTPAddress)
	if err != nil {
		return err
	}
	d.sink.Emit(listening(listener, "http"))
	var secure net.Listener
	if d.guard != nil {
		if secure, err = listen("metrics-secure-address", d.options.MetricsAddress); err != nil {
			_ = listener.Close()
			return err
		}
		d.sink.Emit(listening(secure, "https"))
	}

	ctx, fail := context.WithCancelCause(outer)
	defer fail(nil)
	context.AfterFunc(ctx, func() {
		d.sink.Emit(signals.Event{Code: signals.Stopping, Reason: context.Cause(ctx).Error()})
		d.clients.hurry()
	})

	// Whatever others may still ask about outlives the work, and the Lease is given back only when the work has ended.
	background := context.WithoutCancel(ctx)
	stopServing := d.beside(background, fail, func(ctx context.Context) error {
		return serve(ctx, listener, d.endpoints().open())
	})
	defer stopServing()
	if d.guard != nil {
		stopProtected := d.beside(background, fail, func(ctx context.Context) error {
			return serve(ctx, tls.NewListener(secure, d.shown.config()), d.endpoints().protected())
		})
		defer stopProtected()
		stopFollowing := d.beside(ctx, fail, d.shown.run)
		defer stopFollowing()
	}
	if err := d.reach.await(ctx, d.clients.http); err != nil {
		return ended(outer, ctx)
	}
	if d.leader != nil {
		stopLeading := d.beside(background, fail, d.leader.run)
		defer stopLeading()
	}
	stopAsking := d.beside(ctx, fail, d.mode.run)
	defer stopAsking()
	stopAnnouncing := d.beside(background, fail, d.announcer.run)
	defer stopAnnouncing()
	stopRetaining := d.beside(ctx, fail, d.retainer.run)
	defer stopRetaining()
	if err := d.follower.run(ctx); err != nil {
		return err
	}
	return ended(outer, ctx)
}

// ended is nil when the daemon was asked to stop, and otherwise what made it stop.
func ended(outer, ctx context.Context) error {
	if outer.Err() != nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return errors.New("the work ended by itself")
}

// beside runs a part in the background. If it fails, everything stops. The function that it returns stops the part and
// waits for its end.
func (d *daemon) beside(ctx context.Context, fail context.CancelCauseFunc, part func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		if err := part(ctx); err != nil {
			fail(err)
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}

func (d *daemon) endpoints() endpoints {
	return endpoints{metrics: d.scrape, livez: checks("livez", d.livez), readyz: checks("readyz", d.readyz), pprof: d.options.Pprof, guard: d.guard}
}

func listening(listener net.Listener, scheme string) signals.Event {
	return signals.Event{Code: signals.Listening, Attrs: []signals.Attr{{Key: "address", Value: listener.Addr().String()}, {Key: "scheme", Value: scheme}}}
}

// tellMode tells of a change of the mode.
func (d *daemon) tellMode(e signals.Event) {
	d.sink.Emit(e)
	d.announcer.tell(e)
}

// ledWith takes note of leadership won or lost. A new leader writes what the one before it may have left unwritten.
func (d *daemon) ledWith(leads bool) {
	d.recorder.Leader(leads)
	if d.follower == nil {
		return
	}
	if e, answered := d.mode.present(); leads && answered {
		d.announcer.tell(e)
	}
	if e, refused := d.retainer.standing(); leads && refused {
		d.announcer.tell(e)
	}
	go func() {
		if leads {
			d.follower.engine.KeepAll()
		}
		d.again() // also when it was lost: what others remove from now on is not known
	}()
}

// regained has everything looked at that was not written while this process was not sure that it leads.
func (d *daemon) regained() {
	d.follower.engine.KeepAll()
	d.again()
}

// again has everything that waits to be deleted looked at: whether this process may delete has changed.
func (d *daemon) again() {
	d.follower.engine.OfferAll()
	if d.retainer != nil {
		d.retainer.again()
	}
}

// leads says whether this process may write to the cluster: always where nobody is elected.
func (d *daemon) leads() bool { return d.leader == nil || d.leader.Leads() }

// livez lists what only a restart would cure. An API server that is away is not among it.
func (d *daemon) livez() []check {
	list := []check{{name: "work", ask: func() (string, error) { return "", errors.Join(d.follower.stuck(), d.retainer.stuck()) }}}
	if d.leader != nil {
		list = append(list, d.leader.alive())
	}
	return list
}

// readyz lists what verdicts depend on.
func (d *daemon) readyz() []check {
	list := []check{
		{name: "api", ask: func() (string, error) { return d.reach.server, d.reach.problem() }},
		d.mode.check(),
	}
	if d.leader != nil {
		list = append(list, d.leader.check())
	}
	list = append(list, d.follower.recordsCheck())
	for _, kind := range d.follower.watches.Kinds() {
		list = append(list, kindCheck(kind))
	}
	if d.guard != nil {
		list = append(list, d.guard.check())
	}
	return append(list, d.retainer.checks()...)
}
