package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

const (
	// bulk is how many messages one call of a bulk enqueue takes.
	bulk = 5000
	// small is the ordinary size of a payload, large the other.
	small, large = 100, 8 << 10
	// setupTimeout bounds what is done before and after a run.
	setupTimeout = 5 * time.Minute
)

// run is one scenario with one system, once.
type run struct {
	metrics

	h     *harness
	entry entry
	stage stage
	dir   string // for the counts
	files []string
}

// begin makes an empty place, in place of the one before if there is one.
func (r *run) begin(ctx context.Context) error {
	if err := r.end(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	var err error
	if r.dir, err = os.MkdirTemp("", "styx-peers-counts-"); err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	if r.stage, err = r.h.newStage(ctx, r.entry); err != nil {
		return err
	}
	return r.with(ctx, func(s system) error { return s.prepare(ctx) })
}

// end removes the place. It does so even after an interrupt.
func (r *run) end(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), setupTimeout)
	defer cancel()
	var err error
	if r.stage != nil {
		err = r.stage.close(ctx)
	}
	if r.dir != "" {
		err = errors.Join(err, os.RemoveAll(r.dir))
	}
	r.stage, r.dir, r.files = nil, "", nil
	return err
}

// with opens the system in this process, for what is not measured.
func (r *run) with(ctx context.Context, f func(system) error) error {
	s, err := r.entry.open(ctx, r.stage.place(), 4)
	if err != nil {
		return fmt.Errorf("open %s: %w", r.entry.name, err)
	}
	return errors.Join(f(s), s.close())
}

func (r *run) task() task {
	return task{System: r.entry.name, Place: r.stage.place(), Conns: poolConns, Timeout: r.h.timeout}
}

// enqueuing and working make a task of the run.
func (r *run) enqueuing(e enqueueTask) task {
	t := r.task()
	t.Enqueue = &e
	return t
}

func (r *run) working(w workTask) task {
	if w.Concurrency == 0 {
		w.Concurrency = r.entry.concurrency
	}
	w.File = filepath.Join(r.dir, fmt.Sprintf("counts-%d", len(r.files)))
	r.files = append(r.files, w.File)
	t := r.task()
	t.Work = &w
	return t
}

// fill enqueues in bulk.
func (r *run) fill(ctx context.Context, e enqueueTask) (result, error) {
	e.Batch, e.Threads = bulk, 1
	if e.Bytes == 0 {
		e.Bytes = small
	}
	res, err := runTask(ctx, r.enqueuing(e))
	if err == nil && res.Enqueued != e.Count {
		err = fmt.Errorf("enqueued %d of %d messages", res.Enqueued, e.Count)
	}
	return res, err
}

// check requires that the messages [0, want) have all been worked exactly
// once, by the handlers' counts and by the database.
func (r *run) check(ctx context.Context, size, want int) error {
	counts, err := countsOf(r.files, size)
	if err != nil {
		return err
	}
	if err := checkCounts(counts, want); err != nil {
		return err
	}
	return r.checkDone(ctx, want)
}

// checkDone compares the number of successes that the database holds.
func (r *run) checkDone(ctx context.Context, want int, queues ...string) error {
	return r.with(ctx, func(s system) error {
		n, err := s.done(ctx, queues)
		if err == nil && n != want {
			err = fmt.Errorf("the database holds %d successes instead of %d", n, want)
		}
		return err
	})
}

// messages is the share of the full number that this system gets: the slow
// ones get less, and are told so in the report.
func (r *run) messages() int { return max(1, r.h.messages/r.entry.divisor()) }
