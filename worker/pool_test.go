package worker_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
	"github.com/styxmq/styx/reaper"
	"github.com/styxmq/styx/worker"
)

// Handlers that hold a transaction and enqueue beside it want two connections
// each, of a pool that has not even one for each: their enqueues end with
// their contexts, the worker keeps its lease and goes on, and nothing is left
// behind. SQLite's one writer is such a handler itself.
// Reported as acaloiaro/neoq#103 and e2b-dev/infra#2422.
func TestHandlersThatUseUpThePool(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		db := r.open()
		db.SetMaxOpenConns(4) // the smallest that a worker takes
		c, err := client.New(db, client.Config{Schema: r.db.Schema, Logger: discard()})
		require.NoError(t, err)
		w, err := worker.New(db, worker.Config{
			Schema: r.db.Schema, Logger: discard(), Concurrency: 10, RetryPolicy: worker.Exponential{Base: 20 * time.Millisecond, Jitter: 1},
		})
		require.NoError(t, err)
		var refused atomic.Int64
		worker.Handle(w, func(ctx context.Context, m *worker.Message[job]) error {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer func() { _ = tx.Rollback() }()
			limited, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			defer cancel()
			if _, err := c.Enqueue(limited, other{N: m.Payload.N}, in("elsewhere")); err != nil {
				if !errors.Is(err, context.DeadlineExceeded) {
					return worker.Permanent(err)
				}
				refused.Add(1)
				return err
			}
			return tx.Commit()
		}, nil)
		worker.Handle(w, others, nil)
		ids := r.jobs(12, &client.EnqueueOptions{MaxRetries: 3})
		reaped := r.reaping()
		run := r.start(w)
		until(t, "an enqueue was refused", func() bool { return refused.Load() > 0 })
		r.wait(message.StatusSucceeded, r.enqueue(other{}, nil)) // needs no connection
		until(t, "each has come to its end", func() bool {
			return r.counted(message.StatusSucceeded)+r.counted(message.StatusDead) == len(ids)+1
		})
		for _, id := range ids {
			if m := r.get(id); m.Status == message.StatusDead {
				require.Equal(t, message.DecisionExhausted, r.letter(id).Decision)
			}
		}
		require.NoError(t, run.stop())
		require.Empty(t, reaped())
		until(t, "the connections are free", func() bool { return db.Stats().InUse == 0 })
	})
}

// A transaction that a handler forgets ends with the handler's context.
// Reported as riverqueue/river#695.
func TestForgottenTransactions(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		db := r.open()
		db.SetMaxOpenConns(4)
		w, err := worker.New(db, worker.Config{Schema: r.db.Schema, Concurrency: 1, Logger: discard()})
		require.NoError(t, err)
		worker.Handle(w, func(ctx context.Context, _ *worker.Message[job]) error {
			_, err := db.BeginTx(ctx, nil)
			return err
		}, nil)
		ids := r.jobs(10, nil)
		run := r.start(w)
		r.wait(message.StatusSucceeded, ids...)
		require.NoError(t, run.stop())
		until(t, "the connections are free", func() bool { return db.Stats().InUse == 0 })
	})
}

// A pool that is used up for good holds up neither the stop of a worker nor
// the reaper, which tells it.
// Reported as acaloiaro/neoq#103.
func TestUsedUpPool(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		db := r.open()
		db.SetMaxOpenConns(4)
		w, err := worker.New(db, worker.Config{Schema: r.db.Schema, Grace: time.Second, Logger: discard()})
		require.NoError(t, err)
		worker.Handle(w, others, nil)
		run := r.start(w)
		r.wait(message.StatusSucceeded, r.enqueue(other{}, nil))

		ctx, cancel := context.WithCancel(t.Context())
		var (
			wg   sync.WaitGroup
			held atomic.Int64
		)
		for range 4 {
			wg.Go(func() {
				conn, err := db.DB.Conn(ctx)
				if err != nil {
					return // the worker keeps some for itself
				}
				held.Add(1)
				<-ctx.Done()
				_ = conn.Close()
			})
		}
		until(t, "the pool is used up", func() bool { return held.Load() == 2 })
		rp, err := reaper.New(db, reaper.Config{Schema: r.db.Schema, Timeout: time.Second, Logger: discard()})
		require.NoError(t, err)
		_, err = rp.RunOnce(t.Context())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, run.stop())
		cancel()
		wg.Wait()
		r.wait(message.StatusPending, r.enqueue(other{}, nil))
	})
}

// hanging is a store whose pool has no connection to give.
type hanging struct{ store.Store }

func (hanging) SchemaVersion(ctx context.Context) (current, known int, err error) {
	<-ctx.Done()
	return 0, 0, ctx.Err()
}

// A start does not wait for ever.
// Reported as acaloiaro/neoq#103.
func TestRunDoesNotWaitForAConnectionForEver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, err := worker.NewOn(hanging{}, worker.Config{Logger: discard()})
		require.NoError(t, err)
		worker.Handle(w, others, nil)
		require.ErrorIs(t, w.Run(t.Context()), context.DeadlineExceeded)
	})
}
