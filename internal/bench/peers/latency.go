package main

import (
	"context"
	"time"
)

const (
	latencyRate  = 100 // a second
	latencyP50   = "p50"
	latencyP95   = "p95"
	latencyP99   = "p99"
	latencyAt    = "at this rate"
	latencyPause = time.Second // for the worker to fall idle
)

// latency measures a queue with little to do.
func latency(ctx context.Context, r *run) error {
	return r.timed(ctx, latencyRate)
}

// latencyHalf measures a queue with half of what it can do.
func latencyHalf(ctx context.Context, r *run) error {
	peak, ok := r.h.median("steady", r.entry.name, steadyRate)
	if !ok {
		res, err := r.flow(ctx, min(calibration, r.h.steady))
		if err != nil {
			return err
		}
		peak = perSecondOf(res.WorkedAtEnd, res.EnqueueTook)
		if err := r.begin(ctx); err != nil {
			return err
		}
	}
	return r.timed(ctx, max(peak/2, 1))
}

// timed enqueues by the clock beside a worker.
func (r *run) timed(ctx context.Context, rate float64) error {
	n := max(1, int(rate*r.h.latency.Seconds()))
	t := r.working(workTask{Size: n, Maintain: true, Latency: true})
	t.Enqueue = &enqueueTask{Count: n, Bytes: small, Rate: rate, Settle: latencyPause}
	res, err := runTask(ctx, t)
	if err != nil {
		return err
	}
	r.latency(latencyP50, res.P50)
	r.latency(latencyP95, res.P95)
	r.latency(latencyP99, res.P99)
	r.add(latencyAt, perSecondOf(res.Enqueued, res.EnqueueTook), perSecond)
	r.each("processor in Go", res.CPU, n)
	return r.check(ctx, n, n)
}
