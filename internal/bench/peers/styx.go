package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/uptrace/bun"
	"golang.org/x/sync/errgroup"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/postgres"
	"github.com/styxmq/styx/client/sqlite"
	"github.com/styxmq/styx/reaper"
	"github.com/styxmq/styx/worker"
)

// styxAhead is what a worker may hold besides what runs, where there are many
// processes.
const styxAhead = 2000

const styxScan = `SELECT count(*), sum(length(payload)) FROM styx.all_messages`

// styx is Styx by its public packages.
type styx struct {
	db     *bun.DB
	client *client.Client
	count  string
}

func openStyx(ctx context.Context, place string, conns int) (system, error) {
	db, err := postgres.Open(ctx, place)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return newStyx(db, `SELECT count(*) FROM styx.all_messages WHERE status = 'succeeded'`)
}

func openStyxSQLite(ctx context.Context, place string, _ int) (system, error) {
	db, err := sqlite.Open(ctx, place)
	if err != nil {
		return nil, err
	}
	return newStyx(db, `SELECT count(*) FROM styx_all_messages WHERE status = 'succeeded'`)
}

func newStyx(db *bun.DB, count string) (system, error) {
	c, err := client.New(db, client.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &styx{db: db, client: c, count: count}, nil
}

func (s *styx) prepare(ctx context.Context) error { return s.client.Migrate(ctx) }

func (s *styx) enqueue(ctx context.Context, j job) error {
	_, err := s.client.Enqueue(ctx, j.payload, styxOptions(j))
	return err
}

func (s *styx) enqueueMany(ctx context.Context, jobs []job) error {
	items := make([]client.Item, len(jobs))
	for i, j := range jobs {
		items[i] = client.Item{Payload: j.payload, Options: styxOptions(j)}
	}
	_, err := s.client.EnqueueMany(ctx, items)
	return err
}

func styxOptions(j job) *client.EnqueueOptions {
	if j.queue == "" && j.delay == 0 {
		return nil
	}
	return &client.EnqueueOptions{Queue: j.queue, Delay: j.delay}
}

func (s *styx) work(ctx context.Context, c crew) (stopFunc, error) {
	cfg := worker.Config{
		Concurrency: c.concurrency, Logger: slog.New(slog.DiscardHandler),
		RetryPolicy: worker.Delays{retryDelay},
	}
	if c.crowd {
		cfg.Ahead = styxAhead
	}
	for _, name := range c.queues {
		cfg.Queues = append(cfg.Queues, worker.Queue{Name: name})
	}
	w, err := worker.New(s.db, cfg)
	if err != nil {
		return nil, err
	}
	worker.Handle(w, func(_ context.Context, m *worker.Message[payload]) error {
		return c.handle(m.Payload, m.Attempt)
	}, nil)
	run, cancel := context.WithCancel(ctx)
	var group errgroup.Group
	worked := make(chan time.Time, 1)
	group.Go(func() error {
		err := w.Run(run)
		worked <- time.Now()
		return err
	})
	if c.maintain {
		r, err := reaper.New(s.db, reaper.Config{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			cancel()
			return nil, errors.Join(err, group.Wait())
		}
		group.Go(func() error { return r.Run(run) })
	}
	return func(context.Context) (time.Time, error) {
		cancel() // the worker bounds its own end
		err := group.Wait()
		return <-worked, err
	}, nil
}

func (s *styx) done(ctx context.Context, _ []string) (n int, err error) {
	return n, s.db.QueryRowContext(ctx, s.count).Scan(&n)
}

func (s *styx) close() error { return s.db.Close() }
