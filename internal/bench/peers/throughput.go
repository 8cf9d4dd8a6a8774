package main

import (
	"context"
	"fmt"
	"time"
)

// The figures that targets refer to.
const (
	bulkRate   = "bulk enqueue/s"
	drainRate  = "drain/s"
	walMessage = "WAL a message"
)

// largeShare is how many times fewer large payloads there are.
const largeShare = 4

// throughput enqueues in bulk and drains.
type throughput struct {
	bytes   int
	failing bool
}

func (t throughput) run(ctx context.Context, r *run) error {
	n := r.messages()
	if t.bytes == large {
		n = max(1, n/largeShare)
	}
	before, err := r.stage.gauge(ctx)
	if err != nil {
		return err
	}
	filled, err := r.fill(ctx, enqueueTask{Count: n, Bytes: t.bytes})
	if err != nil {
		return err
	}
	after, err := r.stage.gauge(ctx)
	if err != nil {
		return err
	}
	enqueue := after.since(before)
	if err := r.stage.rest(ctx); err != nil {
		return err
	}
	if before, err = r.stage.gauge(ctx); err != nil {
		return err
	}
	worked, err := runTask(ctx, r.working(workTask{Size: n, Maintain: true, Failing: t.failing, Expect: n}))
	if err != nil {
		return err
	}
	if after, err = r.stage.gauge(ctx); err != nil {
		return err
	}
	drain := after.since(before)
	left, err := r.stage.leftovers(ctx)
	if err != nil {
		return err
	}
	if err := r.check(ctx, n, n); err != nil {
		return err
	}
	if want := failing(n); t.failing && worked.Failed != want {
		return fmt.Errorf("%d first attempts failed instead of %d", worked.Failed, want)
	}
	r.rate(bulkRate, n, filled.EnqueueTook)
	r.rate(drainRate, n, worked.WorkTook)
	r.latency("drain: from the last handler to its outcome", worked.WorkTook-time.Duration(worked.Last-worked.Began))
	r.each("enqueue: processor in Go", filled.CPU, n)
	r.each("enqueue: processor in the server", enqueue.cpu, n)
	r.each("drain: processor in Go", worked.CPU, n)
	r.each("drain: processor in the server", drain.cpu, n)
	if r.entry.engine == onPostgres {
		r.add(walMessage, float64(enqueue.wal+drain.wal)/float64(n), bytesUnit)
		r.add("dead tuples afterwards", float64(left.dead), plain)
	}
	r.add("tables afterwards, a message", float64(left.bytes)/float64(n), bytesUnit)
	r.add("memory of the enqueuer", float64(filled.RSS)/(1<<20), mebibytes)
	r.add("memory of the worker", float64(worked.RSS)/(1<<20), mebibytes)
	r.add("messages", float64(n), plain)
	return nil
}

// failing counts the messages below n that are to fail once.
func failing(n int) int {
	count := 0
	for i := range n {
		if fails(i) {
			count++
		}
	}
	return count
}
