package worker_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/worker"
)

// Reported as riverqueue/river#400.
func TestRunRefuses(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		w, _ := r.worker(worker.Config{})
		var invalid *message.ValidationError
		require.ErrorAs(t, w.Run(t.Context()), &invalid, "no handler")
		require.Equal(t, "handlers", invalid.Field)

		worker.Handle(w, func(context.Context, *worker.Message[job]) error { return nil }, nil) // and then it works
		run := r.start(w)
		r.wait(message.StatusSucceeded, r.enqueue(job{}, nil))
		require.ErrorIs(t, w.Run(t.Context()), worker.ErrAlreadyRun, "while it runs")
		require.NoError(t, run.stop())
		require.ErrorIs(t, w.Run(t.Context()), worker.ErrAlreadyRun, "after it has run")
	})
}

func TestRunWithoutASchema(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		_, err := r.store.MigrateDown(t.Context(), 0)
		require.NoError(t, err)
		w, _ := r.worker(worker.Config{})
		worker.Handle(w, func(context.Context, *worker.Message[job]) error { return nil }, nil)
		require.ErrorIs(t, w.Run(t.Context()), message.ErrSchemaMissing)
	})
}

func TestRunWithAnEndedContext(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		id := r.enqueue(job{}, nil)
		w, log := r.worker(worker.Config{})
		worker.Handle(w, func(context.Context, *worker.Message[job]) error { return nil }, nil)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, w.Run(ctx))
		require.Equal(t, message.StatusPending, r.get(id).Status)
		require.Empty(t, log.lines(t))
	})
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		for field, cfg := range map[string]worker.Config{
			"Lease":                 {Lease: 499 * time.Millisecond},
			"PollInterval":          {PollInterval: -1},
			"Grace":                 {Grace: -1},
			"MaxSnoozes":            {MaxSnoozes: -1},
			"Queues[0].Concurrency": {Concurrency: -1},
			"Queues[0].Timeout":     {Timeout: -2},
			"Queues[0].Ahead":       {Ahead: 2001},
			"Queues[1].Ahead":       {Queues: []worker.Queue{{Name: "a", Ahead: 2000}, {Name: "b", Ahead: -1}}},
			"Queues[1].Name":        {Queues: []worker.Queue{{Name: "a"}, {Name: "a"}}},
			"Queues[2].Name":        {Queues: []worker.Queue{{Name: "a"}, {Name: "b"}, {Name: "a\x00"}}},
		} {
			cfg.Schema = r.db.Schema
			_, err := worker.New(r.db.DB, cfg)
			var invalid *message.ValidationError
			require.ErrorAs(t, err, &invalid, field)
			require.Equal(t, field, invalid.Field)
		}
		_, err := worker.New(nil, worker.Config{})
		require.Error(t, err)
		for _, n := range []int{1, 3} {
			db := r.open()
			db.SetMaxOpenConns(n)
			_, err := worker.New(db, worker.Config{Schema: r.db.Schema})
			var invalid *message.ValidationError
			require.ErrorAs(t, err, &invalid)
			require.Equal(t, "db", invalid.Field)
		}
	})
}

// A stop gives running handlers their time.
func TestStopDrains(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		w, log := r.worker(worker.Config{Concurrency: 5})
		began, resume := make(chan struct{}, 10), make(chan struct{})
		worker.Handle(w, func(ctx context.Context, _ *worker.Message[job]) error {
			began <- struct{}{}
			<-resume
			return ctx.Err()
		}, nil)
		ids := r.jobs(10, nil)
		run := r.start(w)
		for range 5 {
			receive(t, began)
		}
		run.cancel()
		close(resume)
		require.NoError(t, run.wait())
		r.wait(message.StatusSucceeded, ids[:5]...)
		require.Equal(t, 5, r.counted(message.StatusPending))
		require.Zero(t, r.count("SELECT count(*) FROM {{s}}messages WHERE lease_token > 0"))
		require.Zero(t, r.count("SELECT count(*) FROM {{s}}workers WHERE dead_at IS NULL"))
		require.Empty(t, log.lines(t))
	})
}

// Stops are nobody's failure, however many there are; a real failure still is
// one.
// Reported as riverqueue/river#1290 and hibiken/asynq#878.
func TestShutdownIsNotCharged(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		id := r.enqueue(job{}, &client.EnqueueOptions{MaxRetries: 2})
		for i := range 5 {
			w, log := r.worker(worker.Config{Grace: 500 * time.Millisecond})
			began, cause := make(chan struct{}), make(chan error, 1)
			worker.Handle(w, func(ctx context.Context, _ *worker.Message[job]) error {
				close(began)
				<-ctx.Done()
				cause <- context.Cause(ctx)
				if i%2 == 0 {
					return wrap(ctx.Err())
				}
				return context.Cause(ctx)
			}, nil)
			run := r.start(w)
			receive(t, began)
			require.NoError(t, run.stop())
			require.ErrorIs(t, receive(t, cause), worker.ErrShutdown)
			m := r.get(id)
			require.Equal(t, message.StatusPending, m.Status)
			require.Zero(t, m.RetryCount)
			as := r.attempts(id)
			require.Len(t, as, i+1, "the interruption can be seen")
			require.Equal(t, message.OutcomeReleased, as[i].Outcome)
			require.Equal(t, "shutdown", as[i].Reason)
			require.False(t, as[i].Charged)
			require.Empty(t, log.lines(t))
		}
		w, log := r.worker(worker.Config{RetryPolicy: soon})
		worker.Handle(w, func(context.Context, *worker.Message[job]) error { return errBroken }, nil)
		r.start(w)
		r.wait(message.StatusDead, id)
		require.Equal(t, 2, r.letter(id).AttemptsUsed)
		require.Len(t, log.lines(t), 2)
	})
}

// An error of its own counts although the worker is stopping.
func TestFailureDuringShutdown(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		w, _ := r.worker(worker.Config{Grace: 5 * time.Second}) // a second from the context's end to its own
		began := make(chan struct{})
		worker.Handle(w, func(ctx context.Context, _ *worker.Message[job]) error {
			close(began)
			<-ctx.Done()
			return errBroken
		}, nil)
		id := r.enqueue(job{}, nil)
		run := r.start(w)
		receive(t, began)
		require.NoError(t, run.stop())
		require.Equal(t, 1, r.get(id).RetryCount)
	})
}

// Sixty starts and stops, with handlers that end just then.
// Reported as riverqueue/river#400.
func TestStartsAndStops(t *testing.T) {
	t.Parallel()
	cycles := 60
	if testing.Short() {
		cycles = 20
	}
	each(t, func(t *testing.T, r *rig) {
		var ran atomic.Int64
		for i := range cycles {
			w, log := r.worker(worker.Config{Concurrency: 4})
			ctx, cancel := context.WithCancel(t.Context())
			worker.Handle(w, func(context.Context, *worker.Message[job]) error {
				cancel()
				ran.Add(1)
				return nil
			}, nil)
			r.jobs(4, nil)
			if i%4 == 3 { // before anything has begun
				go func() {
					for range 3 * i {
						runtime.Gosched()
					}
					cancel()
				}()
			}
			require.NoError(t, w.Run(ctx))
			cancel()
			require.Zero(t, r.count("SELECT count(*) FROM {{s}}messages WHERE status = 1"))
			require.Empty(t, log.lines(t))
		}
		require.EqualValues(t, ran.Load(), r.counted(message.StatusSucceeded))
		require.EqualValues(t, 4*cycles, ran.Load()+int64(r.counted(message.StatusPending)))
		require.Zero(t, r.count("SELECT count(*) FROM {{s}}attempts"))
	})
}

// The leases of a draining worker are kept.
// Reported as rails/solid_queue#568.
func TestBeatsWhileItDrains(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		const lease = 2 * time.Second
		w, log := r.worker(worker.Config{Lease: lease})
		began, resume := make(chan struct{}, 2), make(chan struct{})
		worker.Handle(w, func(context.Context, *worker.Message[job]) error {
			began <- struct{}{}
			<-resume
			return nil
		}, nil)
		id := r.enqueue(job{}, nil)
		run := r.start(w)
		receive(t, began)
		reaped := r.reaping()
		run.cancel()
		<-time.After(3 * lease)
		close(resume)
		require.NoError(t, run.wait())
		require.Empty(t, reaped())
		require.Zero(t, r.wait(message.StatusSucceeded, id).RetryCount)
		require.Empty(t, began)
		require.Empty(t, log.lines(t))
	})
}

// Handlers that do not heed their context are named, and their messages go
// back uncharged.
func TestGraceEnds(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		w, log := r.worker(worker.Config{Grace: 500 * time.Millisecond})
		began, resume, ended := make(chan struct{}, 3), make(chan struct{}), make(chan struct{}, 3)
		worker.Handle(w, func(context.Context, *worker.Message[job]) error {
			began <- struct{}{}
			<-resume
			ended <- struct{}{}
			return errors.New("too late")
		}, nil)
		ids := r.jobs(3, nil)
		run := r.start(w)
		for range ids {
			receive(t, began)
		}
		var left *worker.AbandonedError
		require.ErrorAs(t, run.stop(), &left)
		var named []int64
		for _, m := range left.Messages {
			named = append(named, m.ID)
			require.Contains(t, left.Error(), `"job" message `+literal(m.ID))
		}
		require.ElementsMatch(t, ids, named)
		check := func() {
			for _, id := range ids {
				m := r.get(id)
				require.Equal(t, message.StatusPending, m.Status)
				require.Zero(t, m.RetryCount)
				as := r.attempts(id)
				require.Len(t, as, 1)
				require.Equal(t, message.OutcomeReleased, as[0].Outcome)
			}
		}
		check()
		close(resume)
		for range ids {
			receive(t, ended)
		}
		check()
		require.Empty(t, log.lines(t, lineFailed, lineDead))
	})
}

func TestAbandonedErrorNamesAFew(t *testing.T) {
	t.Parallel()
	err := &worker.AbandonedError{Messages: make([]message.Message, 7)}
	for i := range err.Messages {
		err.Messages[i] = message.Message{ID: int64(i + 1), Kind: "k"}
	}
	require.Equal(t, `worker: 7 handlers had not returned when the grace ended: "k" message 1; "k" message 2; `+
		`"k" message 3; "k" message 4; "k" message 5; …`, err.Error())
}

// Without a logger the program's own is used; nothing is said when all goes
// well.
func TestDefaultLogger(t *testing.T) {
	j := &journal{}
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewJSONHandler(j, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	each(t, func(t *testing.T, r *rig) {
		w, err := worker.New(r.db.DB, worker.Config{Schema: r.db.Schema, RetryPolicy: soon})
		require.NoError(t, err)
		worker.Handle(w, func(_ context.Context, m *worker.Message[job]) error {
			if m.Attempt == 1 {
				return errBroken
			}
			return nil
		}, nil)
		id := r.enqueue(job{}, correlated(r.engine.Name))
		r.start(w)
		r.wait(message.StatusSucceeded, id)
		require.Contains(t, j.String(), `"correlation_id":"`+r.engine.Name+`"`)
	})
}
