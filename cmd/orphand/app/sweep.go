package app

import (
	"github.com/orphand/orphand/pkg/reap"
	"github.com/orphand/orphand/pkg/retention"
	"github.com/orphand/orphand/pkg/settle"
	"github.com/orphand/orphand/pkg/sweep"
)

// sweep is what the flags ask of retention, live or on a replayed history: it deletes as the rest does, by one deleter and
// under the same brakes.
func (o *Options) sweep(e enforcement, engine *settle.Engine, policy *retention.Policy) sweep.Config {
	c := sweep.Config{
		Policy: policy, Clock: e.clock, Pods: engine, Deleter: e.deleter, Brakes: e.brakes, Sink: e.sink, GCGrace: o.GCGrace,
		Notice: o.Notice,
		Share:  retention.Share{PerHour: o.MaxSharePerHour, Floor: retention.DefaultShare().Floor},
		Leads:  e.leads,
		MayDelete: func(namespace string) reap.Reason {
			reason, may := e.mode(namespace)
			switch {
			case !may:
				return reason
			case !o.cleans(namespace):
				return reap.NamespaceExcluded
			case o.DryRun:
				return reap.DryRun
			case !e.leads():
				return reap.NotLeading
			}
			return ""
		},
	}
	if recorder, ok := e.recorder.(sweep.Recorder); ok {
		c.Recorder = recorder
	}
	return c
}
