package reap_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/reap"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// A dispatcher cancels a job and runs it again only when no process of it can be running.
func Example() {
	config, err := rest.InClusterConfig()
	if err != nil {
		return
	}
	reaper := reap.New(reap.Config{
		API: &reap.Kube{
			Core:     kubernetes.NewForConfigOrDie(config),
			Dynamic:  dynamic.NewForConfigOrDie(config),
			Metadata: metadata.NewForConfigOrDie(config),
		},
		// How this dispatcher marks the runtimes that it copies for each job.
		RuntimeCopies: labels.SelectorFromSet(labels.Set{"app.kubernetes.io/managed-by": "dispatch"}),
	})

	// The UID that was remembered when the TrainJob was created: the name alone could be the next job's.
	job := facts.JobKey{Namespace: "team-a", Name: "llm-7", UID: "0b9a7c3e-5a44-4f0c-9d1f-2f6f4d0f8a11"}
	report, err := reaper.StopJob(context.Background(), job, reap.StopOptions{Timeout: 10 * time.Minute})
	switch {
	case errors.Is(err, reap.ErrNotPermitted):
		fmt.Println("nothing was deleted:", err)
		return
	case err != nil:
		fmt.Println("not known, ask again:", err)
		return
	}
	switch report.Class() {
	case reap.Cleared:
		fmt.Println("nothing of it is left: it may be submitted again")
	case reap.StillUnproven:
		fmt.Println("do not run it again; nobody can tell what runs on", report.Waiting())
	default:
		for _, it := range report.Items {
			fmt.Println(it.Ref, it.Status, it.Verdict, it.Reason, it.Detail)
		}
	}
}

// Find lists what is left, and Stop deletes one object of it; the instance that is meant, and no other of its name.
func ExampleReaper_Find() {
	var reaper *reap.Reaper // made as above
	ctx := context.Background()
	if reaper == nil {
		return
	}
	remains, err := reaper.Find(ctx, facts.JobKey{Namespace: "team-a", Name: "llm-7"})
	if err != nil {
		return
	}
	for _, r := range remains {
		if !r.Foreign || r.Terminating() {
			continue // its TrainJob lives, or somebody has asked it to go
		}
		switch result, err := reaper.Stop(ctx, r.Target); {
		case errors.Is(err, reap.ErrRefused):
			fmt.Println(r.Ref, "goes with its owner:", err)
		case err != nil:
			fmt.Println(r.Ref, "try again:", err)
		default:
			fmt.Println(r.Ref, result.Status) // Gone, Replaced or Terminating
		}
	}
}
