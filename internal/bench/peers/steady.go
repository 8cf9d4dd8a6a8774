package main

import (
	"context"
	"time"
)

const steadyRate = "worked/s"

const (
	steadyBatch   = 1000
	steadyBacklog = 20_000
	steadyMost    = 250_000 // messages a second that there is room for
	calibration   = 5 * time.Second
)

// steady enqueues and works at once.
func steady(ctx context.Context, r *run) error {
	before, err := r.stage.gauge(ctx)
	if err != nil {
		return err
	}
	res, err := r.flow(ctx, r.h.steady)
	if err != nil {
		return err
	}
	after, err := r.stage.gauge(ctx)
	if err != nil {
		return err
	}
	left, err := r.stage.leftovers(ctx)
	if err != nil {
		return err
	}
	used := after.since(before)
	r.rate(steadyRate, res.WorkedAtEnd, res.EnqueueTook)
	r.each("processor in Go", res.CPU, res.Enqueued)
	r.each("processor in the server", used.cpu, res.Enqueued)
	if r.entry.engine == onPostgres {
		r.add(walMessage, float64(used.wal)/float64(max(1, res.Enqueued)), bytesUnit)
		r.add("dead tuples afterwards", float64(left.dead), plain)
	}
	r.add("memory", float64(res.RSS)/(1<<20), mebibytes)
	return r.check(ctx, res.Enqueued, res.Enqueued)
}

// flow enqueues and works for a while.
func (r *run) flow(ctx context.Context, during time.Duration) (result, error) {
	most := max(steadyBacklog, int(during.Seconds()*steadyMost))
	t := r.working(workTask{Size: most, Maintain: true, Every: steadyBatch})
	t.Enqueue = &enqueueTask{
		Count: most, Bytes: small, Batch: steadyBatch, Threads: 1, Backlog: steadyBacklog, During: during,
	}
	return runTask(ctx, t)
}

// rateWithin is how many were worked a second between two moments, by marks
// that stand for every so many.
func rateWithin(marks []int64, every int, from, to int64) float64 {
	n := 0
	for _, at := range marks {
		if at > from && at <= to {
			n += every
		}
	}
	return perSecondOf(n, time.Duration(to-from))
}
