package main

import (
	"context"
	"fmt"
)

const queueLeast = 10 // handlers of a queue

func queueRate(n int) string { return fmt.Sprintf("drain/s, queues: %d", n) }

// queues spreads the messages over queues that one worker serves.
func queues(ctx context.Context, r *run) error {
	n := r.messages()
	for i, q := range r.h.queues {
		if i > 0 {
			if err := r.begin(ctx); err != nil {
				return err
			}
		}
		if err := r.drainQueues(ctx, n, q); err != nil {
			return fmt.Errorf("with %d queues: %w", q, err)
		}
	}
	return nil
}

func (r *run) drainQueues(ctx context.Context, n, q int) error {
	if _, err := r.fill(ctx, enqueueTask{Count: n, Queues: q}); err != nil {
		return err
	}
	if err := r.stage.rest(ctx); err != nil {
		return err
	}
	w := workTask{Size: n, Queues: q, Maintain: true, Expect: n, Concurrency: r.entry.concurrency}
	if q > 1 && r.entry.engine != onRedis { // asynq has one limit for all queues
		w.Concurrency = max(queueLeast, r.entry.concurrency/q)
	}
	res, err := runTask(ctx, r.working(w))
	if err != nil {
		return err
	}
	counts, err := countsOf(r.files, n)
	if err != nil {
		return err
	}
	if err := checkCounts(counts, n); err != nil {
		return err
	}
	if err := r.checkDone(ctx, n, queueNames(q)...); err != nil {
		return err
	}
	r.rate(queueRate(q), n, res.WorkTook)
	r.add(fmt.Sprintf("memory of the worker, queues: %d", q), float64(res.RSS)/(1<<20), mebibytes)
	return nil
}
