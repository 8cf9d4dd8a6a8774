package cli

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/styxmq/styx/worker"
)

const (
	// benchLook is how often a drain is looked at, benchStall how long
	// nothing may move in it.
	benchLook  = 200 * time.Millisecond
	benchStall = time.Minute
)

// drain runs a worker until the handlers have seen everything and the database
// says that nothing is left. It returns the time from the start of the worker
// until it has stopped, which it does when all outcomes are recorded.
func (b *bench) drain(ctx context.Context, title string, rec *benchRecord) (time.Duration, error) {
	stop := b.progress.watch(title, rec.expected, rec.seen.Load)
	defer stop()
	start := time.Now()
	for {
		if err := b.runWorker(ctx, rec); err != nil {
			return 0, err
		}
		took := time.Since(start)
		left, err := b.left(ctx)
		if err != nil {
			return 0, err
		}
		if left == 0 {
			return took, nil
		}
	}
}

// runWorker runs a worker until the handlers have seen everything. When they
// had already, as when an outcome could not be recorded, it runs until nothing
// is left.
func (b *bench) runWorker(ctx context.Context, rec *benchRecord) error {
	w, err := worker.New(b.db.DB, worker.Config{
		Schema: b.db.Schema, Logger: b.logger, Name: b.queue,
		Queues:         []worker.Queue{{Name: b.queue, Concurrency: b.concurrency}},
		TracerProvider: b.telemetry.tracer, MeterProvider: b.telemetry.meter, TraceMode: b.telemetry.mode,
	})
	if err != nil {
		return err
	}
	worker.Handle(w, func(_ context.Context, m *worker.Message[benchPayload]) error {
		rec.see(m.ID)
		return nil
	}, nil)
	done := rec.all
	if rec.complete() {
		done = nil
	}
	running, stop := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { stop(b.watch(running, rec, done)) })
	err = w.Run(running)
	stop(nil)
	watch.Wait()
	if cause := context.Cause(running); err == nil && errors.As(cause, new(*stalledError)) {
		err = cause
	}
	return errors.Join(err, ctx.Err())
}

// watch returns when done is closed, or when the queue is empty if it is nil;
// and when nothing has moved for too long, with an error.
func (b *bench) watch(ctx context.Context, rec *benchRecord, done <-chan struct{}) error {
	tick := time.NewTicker(benchLook)
	defer tick.Stop()
	seen, since := rec.seen.Load(), time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-done:
			return nil
		case <-tick.C:
		}
		if done == nil {
			if left, err := b.left(ctx); err == nil && left == 0 {
				return nil
			}
		}
		if now := rec.seen.Load(); now != seen {
			seen, since = now, time.Now()
		}
		if time.Since(since) > benchStall {
			return &stalledError{seen: seen, expected: rec.expected}
		}
	}
}

// stalledError reports a drain that does not end.
type stalledError struct {
	seen     int64
	expected int
}

func (e *stalledError) Error() string {
	return fmt.Sprintf("the drain stands still: handlers have seen %d of %d messages, and no other for %s",
		e.seen, e.expected, benchStall)
}

// left counts what the queue holds that is not done.
func (b *bench) left(ctx context.Context) (int, error) {
	stats, err := b.client.Stats(ctx)
	if err != nil {
		return 0, err
	}
	for _, s := range stats {
		if s.Queue == b.queue {
			return s.Ready + s.Scheduled + s.Processing, nil
		}
	}
	return 0, nil
}
