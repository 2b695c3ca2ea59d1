// Command orphand says when the processes of deleted Kubeflow TrainJobs are provably gone.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/orphand/orphand/cmd/orphand/app"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // A second signal ends the process at once.
	os.Exit(app.Main(ctx, os.Args[1:], app.Streams{Out: os.Stdout, Err: os.Stderr}))
}
