//go:build unix

package torture

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/styxmq/styx/internal/torture/history"
)

// clockSteps lets the server's clock step back by an hour, and forward again.
// It does not step forward first: what is delayed by then would be so for an
// hour more.
type clockSteps struct{}

func (clockSteps) Name() string     { return "clock-steps" }
func (clockSteps) On(e Engine) bool { return e == Postgres }
func (clockSteps) lacks(*Field) string {
	if faketime() == "" {
		return "there is no libfaketime"
	}
	return ""
}

func (clockSteps) Inflict(ctx context.Context, f *Field) (err error) {
	f.power.Lock()
	defer f.power.Unlock()
	dir, err := os.MkdirTemp("", "styx-clock-")
	if err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file := filepath.Join(dir, "clock")
	if err := errors.Join(os.Chmod(dir, 0o755), setClock(file, 0)); err != nil { //nolint:gosec // the server runs as another user
		return err
	}
	restart := func(env ...string) error {
		f.Server.Crash()
		f.Server.SetEnv(env)
		return f.resume(ctx)
	}
	step := func(to time.Duration) error {
		// Before and after: when the server sees it is between them.
		f.h.Add(history.Event{Kind: history.Stepped})
		defer f.h.Add(history.Event{Kind: history.Stepped})
		return setClock(file, to)
	}
	err = restart("LD_PRELOAD="+faketime(), "FAKETIME_TIMESTAMP_FILE="+file, "FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1")
	if err != nil {
		return err
	}
	pause(ctx, time.Second)
	if err := step(-time.Hour); err != nil {
		return err
	}
	pause(ctx, f.Length)
	if err := step(0); err != nil {
		return err
	}
	pause(ctx, time.Second)
	err = restart()
	f.back()
	return err
}

// setClock says by how much the server's clock differs from ours.
func setClock(file string, by time.Duration) error {
	text := fmt.Sprintf("%+d\n", int64(by.Seconds()))
	if err := os.WriteFile(file+".new", []byte(text), 0o644); err != nil { //nolint:gosec // as above
		return fmt.Errorf("set the server's clock: %w", err)
	}
	return os.Rename(file+".new", file)
}

// faketime is the path of the library, empty where there is none.
func faketime() string {
	found, err := filepath.Glob("/usr/lib/*/faketime/libfaketime.so.1")
	if err != nil || len(found) == 0 {
		return ""
	}
	return found[0]
}
