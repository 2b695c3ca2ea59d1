package replay_test

import (
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"github.com/orphand/orphand/cmd/orphand/app"
	"github.com/orphand/orphand/internal/replay"
)

// No bytes crash the reader, and whatever is wrong with them has a place. What can be read can be played and printed.
func FuzzRead(f *testing.F) {
	for _, file := range histories(f) {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(watched))
	f.Add([]byte(`{"at": "0s", "daemon": "stop"}` + "\n"))
	program := app.ReplayProgram()
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := replay.Read("f", data, program.Flags())
		var m *replay.Malformed
		switch {
		case err == nil:
		case !errors.As(err, &m):
			t.Fatalf("an error without a place: %v", err)
		case m.File != "f" || m.Document < 1 || m.Line < 1 || m.Message == "":
			t.Fatalf("no place in %#v", m)
		default:
			return
		}
		// A watch that looks again twice a minute for decades is no crash, but no fuzzing either.
		if len(h.Steps) > 200 || h.Steps[len(h.Steps)-1].At > 24*time.Hour {
			return
		}
		r, err := program.Play(h)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(replay.WriteTable(io.Discard, r.Lines), replay.WriteJSON(io.Discard, "f", h.Start, r.Lines)); err != nil {
			t.Fatal(err)
		}
	})
}
