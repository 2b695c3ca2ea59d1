// Package daemon runs the real orphand as a process on a test bed's cluster and
// follows what it says.
//
//	d, err := daemon.Start(ctx, c, daemon.Options{})
//	defer d.Stop()
//	d.Await(ctx, daemon.Pod(uid, "Unproven", "NodeUnreachable"))
//	d.Kill()                       // SIGKILL: it forgets what it did not write down
//	d.Restart(ctx)
//	d.Await(ctx, daemon.Job(uid, "Settled"))
//	d.Judge().Lies()               // every word that the truth contradicts
//
// # Waiting
//
// orphand writes one JSON line per change. [Daemon.Await] returns the first line
// that meets a condition, of those that were said and those to come, so that
// nothing is missed and nothing is slept for. The context's deadline bounds it, or
// [DefaultWait] where it has none.
//
// # The judge
//
// Each time orphand says that a pod is Gone, or a job Settled, and whenever else it
// is asked, the judge looks at the processes that really live.
package daemon
