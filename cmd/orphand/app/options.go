package app

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"go.uber.org/zap/zapcore"

	"github.com/orphand/orphand/pkg/nodeproof"
	"github.com/orphand/orphand/pkg/retention"
	"github.com/orphand/orphand/pkg/settle"
)

// Options are the flags of `orphand run`.
type Options struct {
	HTTPAddress string
	// MetricsAddress is where the metrics are served protected; empty for HTTPAddress, unprotected.
	MetricsAddress          string
	TLSCertFile, TLSKeyFile string
	Pprof                   bool
	LogLevel                string

	NodeDeletionQuarantine time.Duration
	WeakEvidenceDelay      time.Duration
	SettleQuiet            time.Duration
	Workers                int
	RecordTTL              time.Duration
	RecreateLoop           int
	RecreateWindow         time.Duration
	StuckAfter             time.Duration
	HeldAfter              time.Duration

	Mode                string
	DryRun              bool
	GCGrace             time.Duration
	RuntimeCopyLabels   string
	RuntimeCopyGrace    time.Duration
	MaxDeletesPerMinute int
	MaxUnreachable      float64
	Calm                time.Duration
	PermissionPeriod    time.Duration
	Namespaces          []string
	ExcludeNamespaces   []string

	// RetentionPolicy is a file; empty for none.
	RetentionPolicy string
	MaxSharePerHour float64
	Notice          time.Duration

	KubeAPIQPS   float32
	KubeAPIBurst int

	LeaderElect   bool
	LeaseName     string
	LeaseNS       string
	LeaseDuration time.Duration
	RenewDeadline time.Duration
	RetryPeriod   time.Duration
}

// DefaultOptions are the flags' defaults.
func DefaultOptions() Options {
	return Options{
		HTTPAddress:            ":8080",
		LogLevel:               "info",
		NodeDeletionQuarantine: 40 * time.Second,
		WeakEvidenceDelay:      30 * time.Second,
		SettleQuiet:            5 * time.Second,
		Workers:                4,
		RecordTTL:              time.Hour,
		RecreateLoop:           3,
		RecreateWindow:         time.Minute,
		StuckAfter:             5 * time.Minute,
		HeldAfter:              30 * time.Second,
		Mode:                   modeObserve,
		GCGrace:                time.Minute,
		RuntimeCopyGrace:       10 * time.Minute,
		MaxDeletesPerMinute:    600,
		MaxUnreachable:         0.3,
		MaxSharePerHour:        retention.DefaultShare().PerHour,
		Calm:                   5 * time.Minute,
		PermissionPeriod:       5 * time.Minute,
		KubeAPIQPS:             50,
		KubeAPIBurst:           100,
		LeaseName:              "orphand",
		LeaseDuration:          15 * time.Second,
		RenewDeadline:          10 * time.Second,
		RetryPeriod:            2 * time.Second,
	}
}

// AddFlags binds the options to flags.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.HTTPAddress, "http-address", o.HTTPAddress, "host:port of /metrics, /livez and /readyz; port 0 takes a free one, which the log names")
	flags.StringVar(&o.MetricsAddress, "metrics-secure-address", o.MetricsAddress, "host:port at which /metrics, and /debug/pprof/ with --pprof, are served by TLS to whoever the cluster knows and lets get that path, in place of --http-address; empty for no such protection")
	flags.StringVar(&o.TLSCertFile, "tls-cert-file", o.TLSCertFile, "certificate of --metrics-secure-address, as PEM; read again when it changes; without it a self-signed one is made")
	flags.StringVar(&o.TLSKeyFile, "tls-private-key-file", o.TLSKeyFile, "private key of --tls-cert-file, as PEM")
	flags.BoolVar(&o.Pprof, "pprof", o.Pprof, "serve /debug/pprof/ too")
	flags.StringVar(&o.LogLevel, "log-level", o.LogLevel, "least level that is logged: debug, info, warn or error")

	flags.DurationVar(&o.NodeDeletionQuarantine, "node-deletion-quarantine", o.NodeDeletionQuarantine, "how long a Node must have been gone, with its machine seen nowhere, before its deletion proves anything")
	flags.DurationVar(&o.WeakEvidenceDelay, "weak-evidence-delay", o.WeakEvidenceDelay, "how long a node must have been Ready throughout before weak evidence from it counts")
	flags.DurationVar(&o.SettleQuiet, "settle-quiet", o.SettleQuiet, "how long after a TrainJob was seen gone, and the last of what makes pods for it, late children are waited for before Settled is said")
	flags.IntVar(&o.Workers, "workers", o.Workers, "how many jobs are judged at a time")

	flags.DurationVar(&o.RecordTTL, "record-ttl", o.RecordTTL, "how long the record of a job is kept after nothing of it is left")
	flags.IntVar(&o.RecreateLoop, "recreate-loop", o.RecreateLoop, "how many JobSets of one job, or pods of one rank, within --recreate-window raise RecreateLoop; 0 for never")
	flags.DurationVar(&o.RecreateWindow, "recreate-window", o.RecreateWindow, "see --recreate-loop")
	flags.DurationVar(&o.StuckAfter, "stuck-after", o.StuckAfter, "how long after its grace a pod may take on a node that can be heard before StuckTerminating is raised")
	flags.DurationVar(&o.HeldAfter, "held-after", o.HeldAfter, "how long a finalizer may hold what is to go before HeldByFinalizer or ForegroundWedged is raised")

	flags.StringVar(&o.Mode, "mode", o.Mode, "observe deletes nothing; enforce deletes what the garbage collector leaves of TrainJobs that are gone")
	flags.BoolVar(&o.DryRun, "dry-run", o.DryRun, "with --mode enforce: log what would be deleted, and delete nothing")
	flags.DurationVar(&o.GCGrace, "gc-grace", o.GCGrace, "how long after a TrainJob was seen gone the garbage collector is given before its leftovers count as orphans")
	flags.StringVar(&o.RuntimeCopyLabels, "runtime-copy-labels", o.RuntimeCopyLabels, "label selector of the TrainingRuntimes that are an adapter's copies for one TrainJob each; without it a runtime that nothing owns is taken for an administrator's")
	flags.DurationVar(&o.RuntimeCopyGrace, "runtime-copy-grace", o.RuntimeCopyGrace, "how long a runtime copy without an owner and without a TrainJob of its name is left alone")
	flags.IntVar(&o.MaxDeletesPerMinute, "max-deletes-per-minute", o.MaxDeletesPerMinute, "how many DELETEs may be sent in any 60 seconds; 0 for none at all")
	flags.Float64Var(&o.MaxUnreachable, "max-unreachable", o.MaxUnreachable, "share of the nodes, from 0 to 1, above which nothing is deleted while they are unreachable")
	flags.DurationVar(&o.Calm, "calm", o.Calm, "how long the share must have been within --max-unreachable again before anything is deleted")
	flags.DurationVar(&o.PermissionPeriod, "permission-period", o.PermissionPeriod, "with --mode enforce: how often it is asked whether orphand may delete; soon after a DELETE was forbidden in any case")
	flags.StringSliceVar(&o.Namespaces, "namespaces", o.Namespaces, "namespaces in which to delete; every one by default")
	flags.StringSliceVar(&o.ExcludeNamespaces, "exclude-namespaces", o.ExcludeNamespaces, "namespaces in which nothing is ever deleted")

	flags.StringVar(&o.RetentionPolicy, "retention-policy", o.RetentionPolicy, "file with the retention policy for finished jobs; it is read again when it changes")
	flags.Float64Var(&o.MaxSharePerHour, "max-share-per-hour", o.MaxSharePerHour, "share of a kind's objects, from 0 to 1, that may go within an hour of those that were due before the retention policy came; 100 may in any case")
	flags.DurationVar(&o.Notice, "notice", o.Notice, "how long before its deletion by the retention policy an Event announces it on the object, where its rule does not say; 0 for no announcement")

	flags.Float32Var(&o.KubeAPIQPS, "kube-api-qps", o.KubeAPIQPS, "requests per second to the Kubernetes API, over time; 0 leaves it to the server's own fairness")
	flags.IntVar(&o.KubeAPIBurst, "kube-api-burst", o.KubeAPIBurst, "requests to the Kubernetes API in a burst")

	flags.BoolVar(&o.LeaderElect, "leader-elect", o.LeaderElect, "elect a leader among replicas by a Lease; every replica observes, whoever leads")
	flags.StringVar(&o.LeaseName, "leader-elect-lease-name", o.LeaseName, "name of the Lease")
	flags.StringVar(&o.LeaseNS, "leader-elect-lease-namespace", o.LeaseNS, "namespace of the Lease, and of the ConfigMap with what retention removed; by default the one that orphand runs in")
	flags.DurationVar(&o.LeaseDuration, "leader-elect-lease-duration", o.LeaseDuration, "how long others wait for a leader that is not heard before one takes over")
	flags.DurationVar(&o.RenewDeadline, "leader-elect-renew-deadline", o.RenewDeadline, "how long a leader tries to renew before it ceases to lead")
	flags.DurationVar(&o.RetryPeriod, "leader-elect-retry-period", o.RetryPeriod, "pause between attempts to take or renew the Lease")
}

// engine is what the flags ask of the engine, live or on a replayed history.
func (o *Options) engine() settle.Options {
	e := settle.Defaults()
	e.Quiet = o.SettleQuiet
	e.Proof = nodeproof.Options{NodeDeletionQuarantine: o.NodeDeletionQuarantine, WeakEvidenceDelay: o.WeakEvidenceDelay}
	e.GCGrace = o.GCGrace
	e.RecordTTL = o.RecordTTL
	e.RecreateLoop, e.RecreateWindow = o.RecreateLoop, o.RecreateWindow
	e.StuckAfter, e.HeldAfter = o.StuckAfter, o.HeldAfter
	e.CopyGrace = o.RuntimeCopyGrace
	return e
}

// Validate returns every problem, each naming its flag and the cure.
func (o *Options) Validate() []string {
	var problems []string
	problem := func(flag, format string, args ...any) {
		problems = append(problems, "--"+flag+" "+fmt.Sprintf(format, args...))
	}
	if cure := addressProblem(o.HTTPAddress); cure != "" {
		problem("http-address", "%q: %s", o.HTTPAddress, cure)
	}
	if o.MetricsAddress != "" {
		if cure := addressProblem(o.MetricsAddress); cure != "" {
			problem("metrics-secure-address", "%q: %s", o.MetricsAddress, cure)
		}
	}
	switch {
	case (o.TLSCertFile == "") != (o.TLSKeyFile == ""):
		problem("tls-cert-file", "and --tls-private-key-file belong together: give both, or neither for a self-signed certificate")
	case o.TLSCertFile != "" && o.MetricsAddress == "":
		problem("tls-cert-file", "%q: nothing is served by TLS without --metrics-secure-address: give that too", o.TLSCertFile)
	}
	if _, err := parseLevel(o.LogLevel); err != nil {
		problem("log-level", "%q: use debug, info, warn or error", o.LogLevel)
	}
	for _, d := range []struct {
		flag  string
		value time.Duration
	}{
		{"node-deletion-quarantine", o.NodeDeletionQuarantine},
		{"weak-evidence-delay", o.WeakEvidenceDelay},
		{"settle-quiet", o.SettleQuiet},
		{"gc-grace", o.GCGrace},
		{"record-ttl", o.RecordTTL},
		{"recreate-window", o.RecreateWindow},
		{"stuck-after", o.StuckAfter},
		{"held-after", o.HeldAfter},
		{"runtime-copy-grace", o.RuntimeCopyGrace},
		{"calm", o.Calm},
		{"notice", o.Notice},
	} {
		if d.value < 0 {
			problem(d.flag, "%v: use 0s or more", d.value)
		}
	}
	if o.Mode != modeObserve && o.Mode != modeEnforce {
		problem("mode", "%q: use %s or %s", o.Mode, modeObserve, modeEnforce)
	}
	if _, err := o.runtimeCopies(); err != nil {
		problem("runtime-copy-labels", "%q: use a label selector such as app=dispatch: %v", o.RuntimeCopyLabels, err)
	}
	if o.PermissionPeriod < time.Second {
		problem("permission-period", "%v: use 1s or more", o.PermissionPeriod)
	}
	if o.MaxDeletesPerMinute < 0 {
		problem("max-deletes-per-minute", "%d: use 0 or more", o.MaxDeletesPerMinute)
	}
	if !(o.MaxSharePerHour >= 0 && o.MaxSharePerHour <= 1) {
		problem("max-share-per-hour", "%v: use a share from 0 to 1", o.MaxSharePerHour)
	}
	if !(o.MaxUnreachable >= 0 && o.MaxUnreachable <= 1) {
		problem("max-unreachable", "%v: use a share from 0 to 1", o.MaxUnreachable)
	}
	if o.RecreateLoop < 0 {
		problem("recreate-loop", "%d: use 0 or more", o.RecreateLoop)
	}
	if o.Workers < 1 {
		problem("workers", "%d: use 1 or more", o.Workers)
	}
	if o.KubeAPIQPS < 0 {
		problem("kube-api-qps", "%v: use 0 or more", o.KubeAPIQPS)
	}
	if o.KubeAPIQPS > 0 && o.KubeAPIBurst < 1 {
		problem("kube-api-burst", "%d: use 1 or more, or no limit at all with --kube-api-qps 0", o.KubeAPIBurst)
	}
	if o.LeaderElect {
		if o.LeaseName == "" {
			problem("leader-elect-lease-name", "is empty: name the Lease")
		}
		if o.RetryPeriod <= 0 {
			problem("leader-elect-retry-period", "%v: use more than 0s", o.RetryPeriod)
		}
		// client-go adds up to a fifth to the retry period, and refuses a deadline that this could pass.
		if o.RenewDeadline <= o.RetryPeriod*12/10 {
			problem("leader-elect-renew-deadline", "%v: use more than 1.2 times --leader-elect-retry-period (%v)", o.RenewDeadline, o.RetryPeriod)
		}
		if o.LeaseDuration <= o.RenewDeadline {
			problem("leader-elect-lease-duration", "%v: use more than --leader-elect-renew-deadline (%v)", o.LeaseDuration, o.RenewDeadline)
		}
	}
	return problems
}

// joinProblems makes one usage error of all problems, or nil of none.
func joinProblems(problems []string) error {
	if len(problems) == 0 {
		return nil
	}
	return usage("%s", strings.Join(problems, "; "))
}

func addressProblem(address string) string {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return "use host:port or :port, with brackets around an IPv6 address"
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return "use a port from 0 to 65535"
	}
	return ""
}

func parseLevel(text string) (zapcore.Level, error) {
	switch text {
	case "debug", "info", "warn", "error":
		return zapcore.ParseLevel(text)
	}
	return 0, fmt.Errorf("unknown level %q", text)
}
