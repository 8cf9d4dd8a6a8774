package cli

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/styxmq/styx/client"
)

const (
	// benchProducers enqueue at once: while the database stores a batch of
	// one, the other makes its next. One alone is slower by a quarter, and
	// three are no faster.
	benchProducers = 2
	// benchBatch is how many messages one EnqueueMany takes, fewer when
	// they are large. From 2,000 on the rate hardly changes.
	benchBatch      = 5000
	benchBatchBytes = 16 << 20
	// benchMaxSingle bounds what is enqueued one by one.
	benchMaxSingle = 20_000
)

// plainRounds does the rounds one after the other.
func (b *bench) plainRounds(ctx context.Context, result *benchResult) error {
	for i := range b.rounds {
		title := ""
		if b.rounds > 1 {
			title = fmt.Sprintf("round %d of %d: ", i+1, b.rounds)
		}
		round, err := b.round(ctx, title)
		if err != nil {
			return err
		}
		result.add(round)
	}
	return nil
}

// round enqueues the messages and drains them.
func (b *bench) round(ctx context.Context, title string) (benchRound, error) {
	rec := newBenchRecord(b.messages)
	wal, err := b.db.wal(ctx)
	if err != nil {
		return benchRound{}, err
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

// enqueue stores the messages in batches.
func (b *bench) enqueue(ctx context.Context, title string, rec *benchRecord) error {
	stop := b.progress.watch(title, rec.expected, rec.stored.Load)
	defer stop()
	opts := &client.EnqueueOptions{Queue: b.queue}
	size := b.batch()
	return b.produce(ctx, benchProducers, size, rec, func(ctx context.Context, from, to int) error {
		items := make([]client.Item, to-from)
		for i := range items {
			items[i] = client.Item{Payload: b.payloads.make(from + i), Options: opts}
		}
		stored, err := b.client.EnqueueMany(ctx, items)
		for i := range stored {
			rec.enqueued[from+i] = stored[i].ID
		}
		return err
	})
}

// produce calls f from several goroutines, until it has been called for every
// message, size of them at a time, or has failed.
func (b *bench) produce(ctx context.Context, goroutines, size int, rec *benchRecord, f func(ctx context.Context, from, to int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		next    atomic.Int64
		running sync.WaitGroup
	)
	for range goroutines {
		running.Go(func() {
			for {
				to := int(next.Add(int64(size)))
				from := to - size
				if to = min(to, rec.expected); from >= to {
					return
				}
				if err := f(ctx, from, to); err != nil {
					cancel(err)
					return
				}
				rec.stored.Add(int64(to - from))
			}
		})
	}
	running.Wait()
	b.note(rec.enqueued)
	return context.Cause(ctx)
}

// batch is the size of a batch.
func (b *bench) batch() int { return min(benchBatch, max(1, benchBatchBytes/b.payloadBytes)) }

// single enqueues one by one from several goroutines, then drains.
func (b *bench) single(ctx context.Context, result *benchResult) error {
	rec := newBenchRecord(min(b.messages, benchMaxSingle))
	stop := b.progress.watch("enqueue one by one", rec.expected, rec.stored.Load)
	defer stop()
	opts := &client.EnqueueOptions{Queue: b.queue}
	start := time.Now()
	err := b.produce(ctx, b.singles, 1, rec, func(ctx context.Context, n, _ int) error {
		m, err := b.client.Enqueue(ctx, b.payloads.make(n), opts)
		if err == nil {
			rec.enqueued[n] = m.ID
		}
		return err
	})
	if err != nil {
		return err
	}
	result.SinglePer = rate(rec.expected, time.Since(start))
	stop()
	if _, err := b.drain(ctx, "drain", rec); err != nil {
		return err
	}
	check, err := b.check(ctx, rec)
	result.merge(check)
	return err
}

// note remembers the range of ids that is to be cleaned up.
func (b *bench) note(ids []int64) {
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
