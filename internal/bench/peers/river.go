package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"
)

const (
	riverScan           = `SELECT count(*), sum(length(args::text)) FROM river_job`
	riverDefaultWorkers = 100

	riverCooldown = 2 * time.Millisecond
	riverPoll     = 20 * time.Millisecond
	riverEvents   = 10_000 // that may wait to be counted
)

// riverQueue is River on pgx.
type riverQueue struct {
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx] // inserts, and works once work was called
	tuned  bool
}

func openRiverTuned(ctx context.Context, place string, conns int) (system, error) {
	return openRiver(ctx, place, conns, true)
}

func openRiverDefault(ctx context.Context, place string, conns int) (system, error) {
	return openRiver(ctx, place, conns, false)
}

func openRiver(ctx context.Context, place string, conns int, tuned bool) (system, error) {
	cfg, err := pgxpool.ParseConfig(place)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = int32(conns - 1) // it takes one more to listen
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	c, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		pool.Close()
		return nil, err
	}
	return &riverQueue{pool: pool, client: c, tuned: tuned}, nil
}

func (r *riverQueue) prepare(ctx context.Context) error {
	m, err := rivermigrate.New(riverpgxv5.New(r.pool), &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	_, err = m.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

func (r *riverQueue) enqueue(ctx context.Context, j job) error {
	_, err := r.client.Insert(ctx, j.payload, riverOptions(j))
	return err
}

func (r *riverQueue) enqueueMany(ctx context.Context, jobs []job) error {
	params := make([]river.InsertManyParams, len(jobs))
	for i, j := range jobs {
		params[i] = river.InsertManyParams{Args: j.payload, InsertOpts: riverOptions(j)}
	}
	_, err := r.client.InsertManyFast(ctx, params)
	return err
}

func riverOptions(j job) *river.InsertOpts {
	if j.queue == "" && j.delay == 0 {
		return nil
	}
	o := &river.InsertOpts{Queue: j.queue}
	if j.delay > 0 {
		o.ScheduledAt = time.Now().Add(j.delay)
	}
	return o
}

func (r *riverQueue) work(ctx context.Context, c crew) (stopFunc, error) {
	workers := river.NewWorkers()
	river.AddWorker(workers, &riverWorker{handle: c.handle})
	queues := map[string]river.QueueConfig{}
	for _, name := range c.queues {
		queues[name] = river.QueueConfig{MaxWorkers: c.concurrency}
	}
	if len(queues) == 0 {
		queues[river.QueueDefault] = river.QueueConfig{MaxWorkers: c.concurrency}
	}
	cfg := &river.Config{
		Logger: slog.New(slog.DiscardHandler), Queues: queues, Workers: workers,
		RetryPolicy: riverRetry{},
	}
	if r.tuned {
		cfg.FetchCooldown, cfg.FetchPollInterval = riverCooldown, riverPoll
	}
	client, err := river.NewClient(riverpgxv5.New(r.pool), cfg)
	if err != nil {
		return nil, err
	}
	events, unsubscribe := client.SubscribeConfig(&river.SubscribeConfig{
		ChanSize: riverEvents, Kinds: []river.EventKind{river.EventKindJobCompleted},
	})
	last := make(chan time.Time, 1)
	go func() {
		at := time.Now()
		for range events { // told once the outcome is recorded, as in its own benchmark
			at = time.Now()
		}
		last <- at
	}()
	if err := client.Start(ctx); err != nil {
		unsubscribe()
		return nil, err
	}
	r.client = client
	return func(ctx context.Context) (time.Time, error) {
		err := client.Stop(ctx)
		unsubscribe()
		return <-last, err
	}, nil
}

func (r *riverQueue) done(ctx context.Context, _ []string) (n int, err error) {
	return n, r.pool.QueryRow(ctx, `SELECT count(*) FROM river_job WHERE state = 'completed'`).Scan(&n)
}

func (r *riverQueue) close() error {
	r.pool.Close()
	return nil
}

type riverWorker struct {
	river.WorkerDefaults[payload]

	handle func(payload, int) error
}

// Work handles a job.
func (w *riverWorker) Work(_ context.Context, j *river.Job[payload]) error {
	return w.handle(j.Args, j.Attempt)
}

// riverRetry is the delay of the other systems.
type riverRetry struct{}

// NextRetry is a fixed time from now.
func (riverRetry) NextRetry(*rivertype.JobRow) time.Time { return time.Now().Add(retryDelay) }
