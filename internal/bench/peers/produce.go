package main

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// backlogLook is how often a full backlog is looked at again.
	backlogLook = time.Millisecond
	// paceTick is how often a paced producer enqueues at the most; at higher
	// rates it enqueues several at once.
	paceTick = 5 * time.Millisecond
)

// producer hands out the numbers of the messages to its goroutines.
type producer struct {
	enqueueTask
	queues []string
	system system
	seen   *tally // of the worker beside it, or nil
	next   atomic.Int64
	until  time.Time // zero for no end
}

// enqueueAll enqueues what the task says and notes how many and how long.
func enqueueAll(ctx context.Context, s system, t enqueueTask, seen *tally, res *result) error {
	p := &producer{enqueueTask: t, queues: queueNames(t.Queues), system: s, seen: seen}
	start := time.Now()
	if t.During > 0 {
		p.until = start.Add(t.During)
	}
	group, ctx := errgroup.WithContext(ctx)
	for range max(1, t.Threads) {
		group.Go(func() error {
			if t.Rate > 0 {
				return p.paced(ctx, start)
			}
			return p.flatOut(ctx)
		})
	}
	err := group.Wait()
	res.EnqueueTook = time.Since(start)
	res.Enqueued = min(int(p.next.Load()), t.Count)
	if err != nil {
		return fmt.Errorf("enqueue: %w", err)
	}
	return nil
}

// take returns the range of the next n numbers, cut at the end of all.
func (p *producer) take(n int) (from, to int) {
	from = int(p.next.Add(int64(n))) - n
	return min(from, p.Count), min(from+n, p.Count)
}

func (p *producer) over() bool { return !p.until.IsZero() && !time.Now().Before(p.until) }

func (p *producer) flatOut(ctx context.Context) error {
	for !p.over() {
		if p.Backlog > 0 && p.next.Load()-p.seen.distinct.Load() > int64(p.Backlog) {
			if err := wait(ctx, backlogLook); err != nil {
				return err
			}
			continue
		}
		from, to := p.take(max(1, p.Batch))
		if from == to {
			return nil
		}
		if err := p.send(ctx, from, to); err != nil {
			return err
		}
	}
	return nil
}

// paced enqueues by the clock: what it is late with comes at once.
func (p *producer) paced(ctx context.Context, start time.Time) error {
	for sent := 0; !p.over(); {
		if due := int(time.Since(start).Seconds()*p.Rate) + 1; due > sent {
			from, to := p.take(due - sent)
			if from == to {
				return nil
			}
			if err := p.send(ctx, from, to); err != nil {
				return err
			}
			sent = due
		}
		next := start.Add(time.Duration(float64(sent) / p.Rate * float64(time.Second)))
		if err := wait(ctx, max(time.Until(next), paceTick)); err != nil {
			return err
		}
	}
	return nil
}

func (p *producer) send(ctx context.Context, from, to int) error {
	jobs := make([]job, 0, to-from)
	for i := from; i < to; i++ {
		num := p.First + i
		jobs = append(jobs, job{payload: newPayload(num, p.Bytes), queue: queueOf(p.queues, num), delay: p.Delay})
	}
	if len(jobs) == 1 {
		return p.system.enqueue(ctx, jobs[0])
	}
	return p.system.enqueueMany(ctx, jobs)
}

// enqueueBeside enqueues beside a running worker and waits until everything is
// worked.
func enqueueBeside(ctx context.Context, s system, t enqueueTask, seen *tally, res *result) error {
	if err := wait(ctx, t.Settle); err != nil {
		return err
	}
	if err := enqueueAll(ctx, s, t, seen, res); err != nil {
		return err
	}
	res.WorkedAtEnd = int(seen.distinct.Load())
	for seen.distinct.Load() < int64(res.Enqueued) {
		if err := wait(ctx, backlogLook); err != nil {
			return fmt.Errorf("worked %d of %d messages: %w", seen.distinct.Load(), res.Enqueued, err)
		}
	}
	return nil
}

// wait returns after d, or with the error of ctx before.
func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

func (r *result) setLatencies(all []int64) {
	sorted := slices.Sorted(slices.Values(all))
	r.P50 = time.Duration(percentile(sorted, 50))
	r.P95 = time.Duration(percentile(sorted, 95))
	r.P99 = time.Duration(percentile(sorted, 99))
}
