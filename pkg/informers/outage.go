package informers

import (
	"context"
	"errors"
	"net/url"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
)

// The pauses between attempts at an API server that is away. client-go v0.37.2 pauses for up to a minute
// (tools/cache/reflector.go: 30 s, and as much again by chance), for which orphand would stay blind after the server is
// back; and a pod whose end nobody sees is Unproven for good.
const (
	firstOutagePause = 500 * time.Millisecond
	lastOutagePause  = 3 * time.Second
)

// whenBack asks until somebody answers, whatever the answer. heard is told of every attempt.
func whenBack[T any](ctx context.Context, clk clock.Clock, heard func(error), ask func() (T, error)) (T, error) {
	for pause := firstOutagePause; ; pause = min(2*pause, lastOutagePause) {
		answer, err := ask()
		heard(err)
		if err == nil || !isAway(err) || ctx.Err() != nil {
			return answer, err
		}
		timer := clk.NewTimer(wait.Jitter(pause, 0.5))
		select {
		case <-ctx.Done():
			timer.Stop()
			return answer, err
		case <-timer.C():
		}
	}
}

// isAway says whether the request met nobody, or a server that cannot serve now. Whatever else goes wrong is left to the
// reflector, which repeats expensive requests ever more slowly.
func isAway(err error) bool {
	var unsent *url.Error
	return errors.As(err, &unsent) || apierrors.IsServiceUnavailable(err)
}
