package reaper

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

const (
	// recheck is how long a job sleeps at most before it looks at the clock
	// again: a timer does not notice when the machine sleeps or the clock
	// is set.
	recheck = 5 * time.Second
	// setBack is how far the clock must have gone back to count as set.
	setBack = time.Second
)

// job is one of the loops of Run.
type job struct {
	r        *Reaper
	name     string
	schedule schedule
	run      func(ctx context.Context, t *tally) error

	mu     sync.Mutex
	status JobStatus
}

// loop runs the job now and whenever it is due, until ctx ends.
func (j *job) loop(ctx context.Context) {
	for ctx.Err() == nil {
		began := j.wallClock()
		j.tick(ctx, began)
		if !j.sleep(ctx, began) {
			return
		}
	}
}

// wallClock is the time without the monotonic clock, which stands still while
// the machine sleeps and does not follow when the clock is set.
func (j *job) wallClock() time.Time { return j.r.now().Round(0) }

// sleep waits for the first time after began that the schedule names; false
// is the end of ctx. If the clock is set back meanwhile, the schedule is asked
// again, since the time may have gone far away.
func (j *job) sleep(ctx context.Context, began time.Time) bool {
	timer := time.NewTimer(0)
	defer timer.Stop()
	last, due := began, j.schedule.next(began)
	for {
		now := j.wallClock()
		if now.Before(last.Add(-setBack)) || due.IsZero() {
			due = j.schedule.next(now)
		}
		last = now
		if !due.IsZero() && !now.Before(due) {
			return ctx.Err() == nil
		}
		j.setNext(due)
		pause := recheck
		if !due.IsZero() {
			pause = min(due.Sub(now), recheck)
		}
		timer.Reset(pause)
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
		}
	}
}

// tick runs the job once. Nothing gets out of it.
func (j *job) tick(ctx context.Context, began time.Time) {
	j.mu.Lock()
	j.status.Running, j.status.LastStart = true, began
	j.mu.Unlock()

	t := j.r.newTally()
	err := guard(func() error { return j.run(ctx, t) })
	t.trace.end(err)
	// Cut short by the end: not a success, but not a failure.
	cut := err != nil && ctx.Err() != nil && !errors.As(err, new(*panicError))

	j.mu.Lock()
	j.status.Running = false
	j.status.Ticks++
	j.status.Counts.add(t.counts)
	switch {
	case err == nil:
		j.status.LastSuccess, j.status.LastError = j.wallClock(), ""
	case !cut:
		j.status.Failures++
		j.status.LastError = err.Error()
	}
	j.mu.Unlock()

	// Even a log handler that panics does not end the job.
	_ = guard(func() error {
		j.ran(ctx, began, err, cut)
		if !cut {
			j.r.log.outcome(ctx, j.name, err, j.wallClock())
		}
		j.r.log.did(ctx, j.name, t)
		return nil
	})
}

// ticked tells whoever looks at the database that a reaper is at work.
func (r *Reaper) ticked(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	if err := r.store.Ticked(ctx); err != nil {
		return fmt.Errorf("record the tick: %w", err)
	}
	return nil
}

func (j *job) setNext(due time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.status.Next = due
}

func (j *job) show() JobStatus {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.status
}

// panicError is a panic that was caught.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// guard turns a panic into an error.
func guard(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicError{value: v, stack: debug.Stack()}
		}
	}()
	return f()
}
