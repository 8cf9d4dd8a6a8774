package cli

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/worker"
)

const (
	// benchWarmUp messages come before those that count: they open
	// connections.
	benchWarmUp = 5
	// benchPatience is how long a message may take to start.
	benchPatience = time.Minute
)

// latencies are in milliseconds.
type latencies struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// started is what a handler tells.
type started struct {
	id int64
	at time.Time
}

// latency enqueues messages one at a time, with pauses of varying length, and
// takes the time from the call of Enqueue to the start of the handler.
func (b *bench) latency(ctx context.Context, result *benchResult) error {
	w, err := worker.New(b.db.DB, worker.Config{
		Schema: b.db.Schema, Logger: b.logger, Name: b.queue, Queues: []worker.Queue{{Name: b.queue}},
	})
	if err != nil {
		return err
	}
	rec := newBenchRecord(benchWarmUp + b.latencyMessages)
	starts := make(chan started, rec.expected)
	worker.Handle(w, func(_ context.Context, m *worker.Message[benchPayload]) error {
		at := time.Now()
		rec.see(m.ID)
		select {
		case starts <- started{m.ID, at}:
		default: // seen again, which the check will tell
		}
		return nil
	}, nil)

	stop := b.progress.watch("latency", rec.expected, rec.seen.Load)
	defer stop()
	running, cancel := context.WithCancelCause(ctx)
	var ended sync.WaitGroup
	ended.Go(func() { cancel(errors.Join(w.Run(running), errStopped)) })
	took, err := b.oneByOne(running, rec, starts)
	cancel(errStopped)
	ended.Wait()
	if err != nil {
		return err
	}
	result.Latency = summarise(took)
	check, err := b.check(ctx, rec)
	result.merge(check)
	return err
}

// errStopped ends the worker of the latency.
var errStopped = errors.New("the worker has stopped")

func (b *bench) oneByOne(ctx context.Context, rec *benchRecord, starts <-chan started) ([]time.Duration, error) {
	pause := time.Duration(float64(time.Second) / b.latencyRate)
	took := make([]time.Duration, 0, b.latencyMessages)
	for n := range rec.expected {
		// The pauses differ, so that no clock in the worker keeps step.
		wait := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-ctx.Done():
			wait.Stop()
			return nil, context.Cause(ctx)
		case <-wait.C:
		}
		begin := time.Now()
		m, err := b.client.Enqueue(ctx, b.payloads.make(n), &client.EnqueueOptions{Queue: b.queue})
		if err != nil {
			return nil, err
		}
		rec.enqueued[n] = m.ID
		b.note(rec.enqueued[n : n+1])
		at, err := awaitStart(ctx, starts, m.ID)
		if err != nil {
			return nil, err
		}
		if n >= benchWarmUp {
			took = append(took, at.Sub(begin))
		}
	}
	return took, nil
}

func awaitStart(ctx context.Context, starts <-chan started, id int64) (time.Time, error) {
	late := time.NewTimer(benchPatience)
	defer late.Stop()
	for {
		select {
		case s := <-starts:
			if s.id == id {
				return s.at, nil
			}
		case <-ctx.Done():
			return time.Time{}, context.Cause(ctx)
		case <-late.C:
			return time.Time{}, errors.New("a message of the latency was not started within a minute")
		}
	}
}

func summarise(took []time.Duration) *latencies {
	slices.Sort(took)
	at := func(share float64) float64 {
		i := int(math.Ceil(share*float64(len(took)))) - 1
		return float64(took[i].Microseconds()) / 1000
	}
	return &latencies{P50: at(0.50), P95: at(0.95), P99: at(0.99), Max: at(1)}
}
