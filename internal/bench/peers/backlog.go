package main

import (
	"context"
	"time"
)

const (
	backlogTimes = 5 // so many times the messages
	backlogDelay = time.Hour
)

// backlog drains a part of many messages beside many that are not due.
func backlog(ctx context.Context, r *run) error {
	part := r.messages()
	n := part * backlogTimes
	late, err := r.fill(ctx, enqueueTask{First: n, Count: n, Delay: backlogDelay})
	if err != nil {
		return err
	}
	ready, err := r.fill(ctx, enqueueTask{Count: n})
	if err != nil {
		return err
	}
	if err := r.stage.rest(ctx); err != nil {
		return err
	}
	res, err := runTask(ctx, r.working(workTask{Size: 2 * n, Maintain: true, Expect: part, Every: part}))
	if err != nil {
		return err
	}
	r.rate("enqueue/s, not yet due", n, late.EnqueueTook)
	r.rate("enqueue/s, ready", n, ready.EnqueueTook)
	if len(res.Marks) > 0 {
		r.rate(drainRate, part, time.Duration(res.Marks[0]-res.Began))
	}
	r.add("messages that wait", float64(2*n), plain)
	counts, err := countsOf(r.files, 2*n)
	if err != nil {
		return err
	}
	if err := checkAtMostOnce(counts, n, part); err != nil {
		return err
	}
	return r.checkDone(ctx, res.Worked)
}
