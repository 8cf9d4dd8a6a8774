package worker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
	"github.com/styxmq/styx/worker"
)

// A handler may run for many leases, and longer than its worker's other
// messages may, as long as its worker beats.
// Reported as hexpm/hexpm#1825, riverqueue/river#1125 and celery/kombu#337.
func TestLongHandlerIsNotReaped(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		const lease = 2 * time.Second
		w, log := r.worker(worker.Config{Lease: lease, Timeout: time.Second})
		var ran atomic.Int64
		worker.Handle(w, func(ctx context.Context, _ *worker.Message[job]) error {
			ran.Add(1)
			select {
			case <-time.After(10 * lease):
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}, &worker.HandlerOptions{Timeout: time.Minute})
		worker.Handle(w, others, nil)
		ids := r.jobs(2, nil)
		postponed := r.enqueue(other{}, &client.EnqueueOptions{Delay: 8 * lease}) // is no concern of a lease
		reaped := r.reaping()
		r.start(w)
		r.wait(message.StatusSucceeded, ids...)
		r.wait(message.StatusSucceeded, postponed)
		require.Empty(t, reaped())
		require.EqualValues(t, len(ids), ran.Load())
		for _, id := range ids {
			m := r.get(id)
			require.Zero(t, m.RetryCount)
			require.EqualValues(t, 1, m.LeaseToken)
		}
		require.Empty(t, log.lines(t))
	})
}

// Handlers that use up the whole pool cannot make their worker look dead.
// Reported as deltawi/deltallm#249 and stablemates/workhorse#121.
func TestBeatsBesideAFullPool(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		const lease, conns = 2 * time.Second, 8
		db := r.open()
		db.SetMaxOpenConns(conns)
		w, err := worker.New(db, worker.Config{
			Schema: r.db.Schema, Lease: lease, Concurrency: conns, Timeout: time.Minute, Logger: discard(),
		})
		require.NoError(t, err)
		var ran, held atomic.Int64
		worker.Handle(w, func(ctx context.Context, _ *worker.Message[job]) error {
			ran.Add(1)
			// Two of the pool belong to the worker, so that some of these wait.
			limited, cancel := context.WithTimeout(ctx, 3*lease)
			defer cancel()
			conn, err := db.Conn(limited)
			if err != nil {
				return nil //nolint:nilerr // it has waited for long enough
			}
			held.Add(1)
			<-limited.Done()
			return conn.Close()
		}, nil)
		ids := r.jobs(conns, nil)
		reaped := r.reaping()
		r.start(w)
		until(t, "the pool is full", func() bool { return db.Stats().InUse == conns && held.Load() >= 4 })
		r.wait(message.StatusSucceeded, ids...)
		require.Empty(t, reaped())
		require.EqualValues(t, conns, ran.Load())
		for _, id := range ids {
			require.EqualValues(t, 1, r.get(id).LeaseToken)
		}
	})
}

// Transactions that stay open for leases neither stop the beats of their
// worker. PostgreSQL only: SQLite has one writer, and such a handler is it.
// Reported as deltawi/deltallm#249.
func TestBeatsBesideOpenTransactions(t *testing.T) {
	r := onPostgres(t)
	const lease = 2 * time.Second
	w, log := r.worker(worker.Config{Lease: lease, Concurrency: 10})
	worker.Handle(w, func(ctx context.Context, m *worker.Message[job]) error {
		return r.db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
			if err := m.CompleteTx(ctx, tx); err != nil {
				return err
			}
			select {
			case <-time.After(4 * lease):
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
	}, nil)
	ids := r.jobs(10, nil)
	reaped := r.reaping()
	r.start(w)
	r.wait(message.StatusSucceeded, ids...)
	require.Empty(t, reaped())
	for _, id := range ids {
		require.EqualValues(t, 1, r.get(id).LeaseToken)
	}
	require.Empty(t, log.lines(t))
}

// A worker that was found dead gives up what it held and registers anew.
func TestDeadWorkerRegistersAnew(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		w, f, log := r.faulty(worker.Config{Lease: time.Second})
		began, causes := make(chan struct{}, 4), make(chan error, 4)
		worker.Handle(w, func(ctx context.Context, m *worker.Message[job]) error {
			if m.Attempt == 2 {
				return nil
			}
			began <- struct{}{}
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return nil
		}, nil)
		ids := r.jobs(3, nil)
		run := r.start(w)
		for range ids {
			receive(t, began)
		}
		f.Before(func(method string) error { // it does not know yet, and would claim them again
			if method == "Claim" {
				return store.ErrContention
			}
			return nil
		})
		r.exec("UPDATE {{s}}workers SET beat_at = {{long ago}}")
		require.Len(t, r.reap(), 3)
		for range ids {
			require.ErrorIs(t, receive(t, causes), message.ErrLeaseLost)
		}
		f.Before(nil)
		r.wait(message.StatusSucceeded, ids...)
		for _, id := range ids {
			m := r.get(id)
			require.Equal(t, 1, m.RetryCount)
			require.Equal(t, 1, m.WorkerLosses)
			require.Equal(t, string(message.DecisionWorkerLost), r.attempts(id)[0].Reason)
		}
		require.NoError(t, run.stop())
		require.Equal(t, 2, r.count("SELECT count(*) FROM {{s}}workers"))
		require.Zero(t, r.count("SELECT count(*) FROM {{s}}workers WHERE dead_at IS NULL"))
		require.NotEmpty(t, log.lines(t, "the worker counts as dead, gives up its messages and registers anew"))
	})
}

// What lost a worker before runs alone among its like.
// Reported as vectorize-io/hindsight#2675.
func TestSuspectsRunOneAtATime(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		suspect := r.jobs(6, nil)
		good := r.jobs(20, nil)
		r.exec("UPDATE {{s}}messages SET losses = 1, retry_count = 1, due_at = {{long ago}} WHERE id <= ?", suspect[5])
		w, _ := r.worker(worker.Config{Concurrency: 10, PollInterval: 10 * time.Millisecond})
		var running, most, total atomic.Int64
		worker.Handle(w, func(_ context.Context, m *worker.Message[job]) error {
			if m.WorkerLosses > 0 {
				most.Store(max(most.Load(), running.Add(1)))
				defer running.Add(-1)
				<-time.After(20 * time.Millisecond)
			}
			total.Add(1)
			return nil
		}, nil)
		r.start(w)
		r.wait(message.StatusSucceeded, append(suspect, good...)...)
		require.EqualValues(t, 1, most.Load())
		require.EqualValues(t, 26, total.Load())
	})
}
