package main

import (
	"context"
	"fmt"
)

const (
	singleOne  = "enqueue/s, 1 goroutine"
	singleMany = "enqueue/s, 16 goroutines"
)

// single enqueues one by one.
func single(ctx context.Context, r *run) error {
	total := 0
	for _, s := range []struct {
		name           string
		threads, share int
	}{{singleOne, 1, 40}, {singleMany, 16, 8}} {
		n := max(1, r.h.messages/s.share)
		res, err := runTask(ctx, r.enqueuing(enqueueTask{First: total, Count: n, Bytes: small, Batch: 1, Threads: s.threads}))
		if err != nil {
			return err
		}
		if res.Enqueued != n {
			return fmt.Errorf("enqueued %d of %d messages", res.Enqueued, n)
		}
		r.rate(s.name, n, res.EnqueueTook)
		r.each(fmt.Sprintf("processor in Go, %d at once", s.threads), res.CPU, n)
		total += n
	}
	// Working them shows that all are there.
	if _, err := runTask(ctx, r.working(workTask{Size: total, Expect: total, Maintain: true})); err != nil {
		return err
	}
	return r.check(ctx, total, total)
}
