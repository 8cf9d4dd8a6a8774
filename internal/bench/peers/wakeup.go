package main

import (
	"context"
	"errors"
	"time"
)

const (
	wakeupThreads = 64
	wakeupShare   = 4 // the messages that are enqueued one by one: a quarter
	wakeupBusy    = 3 // the backlog of the busy worker: three times the messages
)

// wakeup enqueues one by one from many goroutines, with and without workers to
// wake.
func wakeup(ctx context.Context, r *run) error {
	n := max(1, r.messages()/wakeupShare)
	alone, err := runTask(ctx, r.enqueuing(oneByOne(0, n)))
	if err != nil {
		return err
	}
	r.rate("enqueue/s, no worker", n, alone.EnqueueTook)
	if err := r.begin(ctx); err != nil {
		return err
	}
	produced, worked, err := r.beside(ctx, 0, n)
	if err != nil {
		return err
	}
	r.rate("enqueue/s, worker sleeps", n, produced.EnqueueTook)
	r.latency("p50 until the handler starts", worked.P50)
	r.latency("p99 until the handler starts", worked.P99)
	if err := r.begin(ctx); err != nil {
		return err
	}
	full := r.messages() * wakeupBusy
	if _, err := r.fill(ctx, enqueueTask{Count: full}); err != nil {
		return err
	}
	if produced, _, err = r.beside(ctx, full, n); err != nil {
		return err
	}
	r.rate("enqueue/s, worker is busy", n, produced.EnqueueTook)
	return nil
}

func oneByOne(first, n int) enqueueTask {
	return enqueueTask{First: first, Count: n, Bytes: small, Batch: 1, Threads: wakeupThreads}
}

// beside enqueues one by one while another process works. Of what waits
// already there are full messages.
func (r *run) beside(ctx context.Context, full, n int) (produced, worked result, err error) {
	w, err := startChild(ctx, r.working(workTask{Size: full + n, Expect: full + n, Maintain: true, Latency: full == 0}))
	if err != nil {
		return produced, worked, err
	}
	p, err := startChild(ctx, r.enqueuing(oneByOne(full, n)))
	if err != nil {
		return produced, worked, errors.Join(err, w.abandon())
	}
	err = w.tell(tellGo)
	if full == 0 && err == nil {
		err = wait(ctx, max(r.h.idle, time.Second)) // until it sleeps
	}
	if err := errors.Join(err, p.tell(tellGo)); err != nil {
		return produced, worked, errors.Join(err, p.abandon(), w.abandon())
	}
	if produced, err = p.wait(); err != nil {
		return produced, worked, errors.Join(err, w.abandon())
	}
	if worked, err = w.wait(); err != nil {
		return produced, worked, err
	}
	return produced, worked, r.check(ctx, full+n, full+n)
}
