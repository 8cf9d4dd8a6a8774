package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/worker"
)

const (
	// benchBatch is how many messages one EnqueueMany takes, fewer when
	// they are large. Beyond 2,000 the rate hardly changes.
	benchBatch      = 5000
	benchBatchBytes = 16 << 20
	// benchMaxSingle bounds what is enqueued one by one.
	benchMaxSingle = 20_000
	// benchLook is how often a drain is looked at, benchStall how long
	// nothing may move in it.
	benchLook  = 200 * time.Millisecond
	benchStall = time.Minute
)

// round enqueues the messages and drains them.
func (b *bench) round(ctx context.Context, i int) (benchRound, error) {
	rec := newBenchRecord(b.messages)
	wal, err := b.db.wal(ctx)
	if err != nil {
		return benchRound{}, err
	}
	title := ""
	if b.rounds > 1 {
		title = fmt.Sprintf("round %d of %d: ", i+1, b.rounds)
	}
	start := time.Now()
	if err := b.enqueue(ctx, title+"enqueue", rec); err != nil {
		return benchRound{}, err
	}
	enqueued := time.Since(start)
	drained, err := b.drain(ctx, title+"drain", rec)
	if err != nil {
		return benchRound{}, err
	}
	total := time.Since(start)
	r := benchRound{
		Messages:   b.messages,
		EnqueuePer: rate(b.messages, enqueued), DrainPer: rate(b.messages, drained), TotalPer: rate(b.messages, total),
	}
	if wal != nil {
		after, err := b.db.wal(ctx)
		if err != nil || after == nil {
			return benchRound{}, err
		}
		each := math.Round((*after - *wal) / float64(b.messages))
		r.WAL = &each
	}
	r.benchCheck, err = b.check(ctx, rec)
	return r, err
}

// enqueue stores the messages from one goroutine, a batch at a time: the
// database is busy for most of that, and a second goroutine gains little.
func (b *bench) enqueue(ctx context.Context, title string, rec *benchRecord) error {
	stop := b.progress.watch(title, rec.expected, rec.stored.Load)
	defer stop()
	opts := &client.EnqueueOptions{Queue: b.queue}
	size := b.batch()
	items := make([]client.Item, 0, min(size, rec.expected))
	for n := 0; n < rec.expected; {
		items = items[:0]
		for ; n < rec.expected && len(items) < size; n++ {
			items = append(items, client.Item{Payload: b.payloads.make(n), Options: opts})
		}
		stored, err := b.client.EnqueueMany(ctx, items)
		if err != nil {
			return err
		}
		for i := range stored {
			rec.enqueued = append(rec.enqueued, stored[i].ID)
		}
		rec.stored.Add(int64(len(stored)))
		b.note(stored[0].ID, stored[len(stored)-1].ID)
	}
	return nil
}

// batch is the size of a batch.
func (b *bench) batch() int { return min(benchBatch, max(1, benchBatchBytes/b.payloadBytes)) }

// single enqueues one by one from several goroutines, then drains.
func (b *bench) single(ctx context.Context, result *benchResult) error {
	rec := newBenchRecord(min(b.messages, benchMaxSingle))
	stop := b.progress.watch("enqueue one by one", rec.expected, rec.stored.Load)
	defer stop()
	all, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		next       atomic.Int64
		goroutines sync.WaitGroup
	)
	rec.enqueued = make([]int64, rec.expected)
	start := time.Now()
	for range b.singles {
		goroutines.Go(func() {
			for n := int(next.Add(1)) - 1; n < rec.expected; n = int(next.Add(1)) - 1 {
				m, err := b.client.Enqueue(all, b.payloads.make(n), &client.EnqueueOptions{Queue: b.queue})
				if err != nil {
					cancel(err)
					return
				}
				rec.enqueued[n] = m.ID
				rec.stored.Add(1)
			}
		})
	}
	goroutines.Wait()
	b.note(rec.enqueued...)
	result.SinglePer = rate(rec.expected, time.Since(start))
	stop()
	if err := context.Cause(all); err != nil {
		return err
	}
	if _, err := b.drain(ctx, "drain", rec); err != nil {
		return err
	}
	check, err := b.check(ctx, rec)
	result.merge(check)
	return err
}

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
		Queues: []worker.Queue{{Name: b.queue, Concurrency: b.concurrency}},
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

// note remembers the range of ids that is to be cleaned up.
func (b *bench) note(ids ...int64) {
	for _, id := range ids {
		if id == 0 {
			continue
		}
		if b.first == 0 || id < b.first {
			b.first = id
		}
		b.last = max(b.last, id)
	}
}

// rate is a number a second, to one decimal.
func rate(n int, d time.Duration) float64 { return math.Round(10*float64(n)/d.Seconds()) / 10 }

// benchPayload is a payload of the bench.
type benchPayload struct {
	N    int    `json:"n"`
	Text string `json:"text"`
}

// Kind names the kind.
func (benchPayload) Kind() string { return "bench" }
