package app

import (
	"errors"
	"fmt"
)

// Exit codes are a public interface: scripts branch on them.
const (
	ExitOK      = 0
	ExitFailure = 1
	ExitUsage   = 2
	// ExitUnproven and ExitAlive say that pods remain: nobody can tell whether they run, or they do.
	ExitUnproven = 3
	ExitAlive    = 4
	// ExitRefused says that something could not be deleted, or must not be.
	ExitRefused = 5
	// ExitElsewhere says that the job runs in another cluster.
	ExitElsewhere = 6
	// ExitIncomplete says that the cluster lacks something that orphand needs.
	ExitIncomplete = 7
)

// ExitCode documents one exit code.
type ExitCode struct {
	Code    int
	Meaning string
}

// ExitCodes is the table of exit codes.
func ExitCodes() []ExitCode {
	return []ExitCode{
		{ExitOK, "Done; for `run`, stopped as asked by SIGINT or SIGTERM."},
		{ExitFailure, "Failed at run time; the last line on standard error says why. For `replay`: an expectation did not hold."},
		{ExitUnproven, "The time is up and at least one pod is Unproven: nobody can tell whether its processes run."},
		{ExitAlive, "The time is up and something of the job is Alive, or could start."},
		{ExitRefused, "Something could not be deleted: a permission is missing, the API server refused, or it must not be."},
		{ExitElsewhere, "The job runs in another cluster: nothing is known of its processes here."},
		{ExitIncomplete, "`check`: a kind, a version or a permission is missing; the output says which, and what to add."},
		{ExitUsage, "The command line or the kubeconfig is wrong; one line on standard error names the flag and the cure. For `replay`: a file is malformed."},
	}
}

// failure is an error with the exit code that it leads to.
type failure struct {
	Code int
	// Said is whether the log holds the error already, so that it is not printed twice.
	Said bool
	err  error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// usage is an error in what the caller gave.
func usage(format string, args ...any) error {
	return &failure{Code: ExitUsage, err: fmt.Errorf(format, args...)}
}

func asFailure(err error) *failure {
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	return &failure{Code: ExitFailure, err: err}
}
