package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/hibiken/asynq"
	"golang.org/x/sync/errgroup"
)

const (
	asynqConcurrency = 200
	asynqProducers   = 16 // goroutines that stand for a bulk enqueue
	asynqLook        = 5 * time.Millisecond
)

// asynqQueue is asynq on Redis.
type asynqQueue struct {
	redis   asynq.RedisClientOpt
	client  *asynq.Client
	inspect *asynq.Inspector
	tuned   bool
}

func openAsynq(_ context.Context, place string, _ int) (system, error) {
	return newAsynq(place, true), nil
}

func openAsynqDefault(_ context.Context, place string, _ int) (system, error) {
	return newAsynq(place, false), nil
}

func newAsynq(place string, tuned bool) system {
	opt := asynq.RedisClientOpt{Addr: place}
	return &asynqQueue{redis: opt, client: asynq.NewClient(opt), inspect: asynq.NewInspector(opt), tuned: tuned}
}

func (a *asynqQueue) prepare(context.Context) error { return a.client.Ping() }

func (a *asynqQueue) enqueue(ctx context.Context, j job) error {
	data, err := json.Marshal(j.payload)
	if err != nil {
		return err
	}
	var opts []asynq.Option
	if j.queue != "" {
		opts = append(opts, asynq.Queue(j.queue))
	}
	if j.delay > 0 {
		opts = append(opts, asynq.ProcessIn(j.delay))
	}
	_, err = a.client.EnqueueContext(ctx, asynq.NewTask(j.payload.Kind(), data), opts...)
	return err
}

func (a *asynqQueue) enqueueMany(ctx context.Context, jobs []job) error {
	group, ctx := errgroup.WithContext(ctx)
	for g := range asynqProducers {
		group.Go(func() error {
			for i := g; i < len(jobs); i += asynqProducers {
				if err := a.enqueue(ctx, jobs[i]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

func (a *asynqQueue) work(ctx context.Context, c crew) (stopFunc, error) {
	queues := map[string]int{}
	for _, name := range c.queues {
		queues[name] = 1
	}
	if len(queues) == 0 {
		queues["default"] = 1
	}
	cfg := asynq.Config{
		Concurrency: c.concurrency, Queues: queues, LogLevel: asynq.FatalLevel,
		BaseContext:    func() context.Context { return context.WithoutCancel(ctx) },
		RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return retryDelay },
	}
	if a.tuned {
		cfg.DelayedTaskCheckInterval = retryDelay
	}
	s := asynq.NewServer(a.redis, cfg)
	err := s.Start(asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
		var p payload
		if err := json.Unmarshal(t.Payload(), &p); err != nil {
			return fmt.Errorf("%w: %w", err, asynq.SkipRetry)
		}
		retried, _ := asynq.GetRetryCount(ctx)
		return c.handle(p, retried+1)
	}))
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (time.Time, error) {
		err := a.finish(ctx, queues)
		recorded := time.Now()
		s.Stop() // takes up to a second; the process ends soon, and the rest with it
		return recorded, err
	}, nil
}

// finish returns when nothing is active any more.
func (a *asynqQueue) finish(ctx context.Context, queues map[string]int) error {
	tick := time.NewTicker(asynqLook)
	defer tick.Stop()
	for name := range queues {
		for {
			info, err := a.inspect.GetQueueInfo(name)
			if errors.Is(err, asynq.ErrQueueNotFound) {
				break // nothing was ever enqueued
			}
			if err != nil {
				return fmt.Errorf("look at queue %s: %w", name, err)
			}
			if info.Active == 0 {
				break
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-tick.C:
			}
		}
	}
	return nil
}

func (a *asynqQueue) done(_ context.Context, queues []string) (int, error) {
	if len(queues) == 0 {
		queues = []string{"default"}
	}
	n := 0
	for _, name := range queues {
		info, err := a.inspect.GetQueueInfo(name)
		if err != nil {
			return 0, fmt.Errorf("look at queue %s: %w", name, err)
		}
		n += info.ProcessedTotal - info.FailedTotal
	}
	return n, nil
}

func (a *asynqQueue) close() error { return errors.Join(a.client.Close(), a.inspect.Close()) }
