package worker_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
	"github.com/styxmq/styx/internal/store/storetest"
	"github.com/styxmq/styx/worker"
)

// tally counts how often each message ran.
type tally struct {
	mu  sync.Mutex
	ran map[int64]int
}

func (c *tally) handle(_ context.Context, m *worker.Message[job]) error {
	c.add(m.ID)
	return nil
}

func (c *tally) add(id int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ran == nil {
		c.ran = map[int64]int{}
	}
	c.ran[id]++
}

func (c *tally) of(id int64) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ran[id]
}

// once makes a hook that fails the first call of a method.
func once(method string, err error) (hook func(string) error, done *atomic.Bool) {
	done = new(atomic.Bool)
	return func(m string) error {
		if m == method && done.CompareAndSwap(false, true) {
			return err
		}
		return nil
	}, done
}

// A database that is away for less than a lease costs nothing: what ran is
// recorded afterwards, once.
// Reported as jobrunr/jobrunr#1264.
func TestOutageShorterThanTheLease(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		w, f, log := r.faulty(worker.Config{Lease: 30 * time.Second})
		var ran tally
		began, resume := make(chan struct{}, 10), make(chan struct{})
		worker.Handle(w, func(_ context.Context, m *worker.Message[job]) error {
			ran.add(m.ID)
			began <- struct{}{}
			<-resume
			if m.Payload.N%2 == 0 {
				return worker.RetryAfter(time.Hour, errBroken)
			}
			return nil
		}, nil)
		ids := r.jobs(6, nil)
		r.start(w)
		for range ids {
			receive(t, began)
		}
		f.Down()
		close(resume)
		calls := f.Calls("Settle")
		until(t, "it is tried again and again", func() bool { return f.Calls("Settle") >= calls+5 })
		f.Up()
		for i, id := range ids {
			if i%2 == 0 {
				until(t, "it failed", func() bool { return r.get(id).RetryCount == 1 })
				require.Len(t, r.attempts(id), 1)
			} else {
				require.Zero(t, r.wait(message.StatusSucceeded, id).RetryCount)
			}
			require.Equal(t, 1, ran.of(id))
			require.EqualValues(t, 1, r.get(id).LeaseToken)
		}
		after := r.enqueue(job{N: 1}, nil)
		r.wait(message.StatusSucceeded, after)
		require.Len(t, log.lines(t, lineFailed), 3)
	})
}

// Longer, and the worker gives up what it held: others may run it by now. It
// goes on by itself when the database is back.
func TestOutageLongerThanTheLease(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		w, f, log := r.faulty(worker.Config{Lease: time.Second})
		began, cause := make(chan struct{}, 1), make(chan error, 1)
		worker.Handle(w, func(ctx context.Context, m *worker.Message[job]) error {
			if m.Attempt == 2 {
				return nil
			}
			began <- struct{}{}
			<-ctx.Done()
			cause <- context.Cause(ctx)
			return nil
		}, nil)
		id := r.enqueue(job{}, nil)
		r.start(w)
		receive(t, began)
		f.Down()
		require.ErrorIs(t, receive(t, cause), message.ErrLeaseLost)
		until(t, "it is lost", func() bool { return len(r.reap()) == 1 })
		f.Up()
		m := r.wait(message.StatusSucceeded, id)
		require.Equal(t, 1, m.RetryCount)
		require.Len(t, r.attempts(id), 1)
		require.Len(t, log.lines(t, "the worker counts as dead, gives up its messages and registers anew"), 1)
	})
}

// A stop during an outage still names the handlers that run on.
func TestStopDuringAnOutage(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		w, f, log := r.faulty(worker.Config{Lease: 500 * time.Millisecond, Grace: 500 * time.Millisecond})
		began, resume, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
		worker.Handle(w, func(context.Context, *worker.Message[job]) error {
			defer close(ended)
			close(began)
			<-resume
			return nil
		}, nil)
		id := r.enqueue(job{}, nil)
		run := r.start(w)
		receive(t, began)
		f.Down()
		until(t, "it is dead", func() bool {
			return len(log.lines(t, "the worker counts as dead, gives up its messages and registers anew")) > 0
		})
		var left *worker.AbandonedError
		require.ErrorAs(t, run.stop(), &left)
		require.Len(t, left.Messages, 1)
		require.Equal(t, id, left.Messages[0].ID)
		close(resume)
		receive(t, ended)
		require.Equal(t, message.StatusProcessing, r.get(id).Status) // for the reaper
	})
}

// A claim may be carried out although its reply is lost: the messages run
// again, uncharged, although their worker lives on.
func TestClaimWithoutReply(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		w, f, log := r.faulty(worker.Config{Lease: 30 * time.Second})
		hook, done := once("Claim", store.ErrUnavailable)
		ids := r.jobs(8, nil)
		f.After(hook)
		var ran tally
		worker.Handle(w, ran.handle, nil)
		r.start(w)
		r.wait(message.StatusSucceeded, ids...)
		require.True(t, done.Load())
		for _, id := range ids {
			m := r.get(id)
			require.EqualValues(t, 2, m.LeaseToken)
			require.Zero(t, m.RetryCount)
			require.Zero(t, m.WorkerLosses)
			require.Equal(t, 1, ran.of(id))
			require.Empty(t, r.attempts(id))
		}
		require.Equal(t, 1, r.count("SELECT count(*) FROM {{s}}workers"))
		require.Len(t, log.lines(t, "released messages whose claim had lost its reply"), 1)
	})
}

// An outcome that was recorded although the reply was lost counts once.
func TestSettleWithoutReply(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		w, f, log := r.faulty(worker.Config{Concurrency: 1})
		var lost atomic.Int64
		f.After(func(method string) error { // every other one
			if method == "Settle" && lost.Add(1)%2 == 1 {
				return store.ErrUnavailable
			}
			return nil
		})
		worker.Handle(w, func(_ context.Context, m *worker.Message[job]) error {
			switch m.Payload.N {
			case 0:
				return nil
			case 1:
				return worker.RetryAfter(time.Hour, errBroken)
			case 2:
				return worker.Permanent(errBroken)
			case 3:
				return worker.Snooze(time.Hour)
			}
			return worker.Ignore(errBroken)
		}, nil)
		ids := r.jobs(5, nil)
		r.start(w)
		r.wait(message.StatusSucceeded, ids[0], ids[4])
		r.wait(message.StatusDead, ids[2])
		until(t, "the others are back", func() bool { return r.counted(message.StatusPending) == 2 })
		require.Equal(t, 1, r.get(ids[1]).RetryCount)
		require.Equal(t, 1, r.get(ids[3]).Snoozes)
		require.Equal(t, 1, r.letter(ids[2]).AttemptsUsed)
		for i, want := range []int{0, 1, 1, 1, 0} {
			require.Len(t, r.attempts(ids[i]), want)
			require.EqualValues(t, 1, r.get(ids[i]).LeaseToken)
		}
		require.Len(t, log.lines(t, lineFailed, lineDead), 2)
		require.Empty(t, log.lines(t, "lease lost: the outcome of this attempt does not count"))
	})
}

// Losing replies left and right loses no message and charges nobody.
func TestRepliesLostAtRandom(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		w, f, _ := r.faulty(worker.Config{Lease: 30 * time.Second, Concurrency: 20, RetryPolicy: soon})
		var calls atomic.Int64
		f.After(func(method string) error {
			if slices.Contains([]string{"Claim", "Settle", "Beat", "SetIdle"}, method) && calls.Add(1)%5 == 0 {
				return store.ErrUnavailable
			}
			return nil
		})
		var ran tally
		worker.Handle(w, func(ctx context.Context, m *worker.Message[job]) error {
			if m.Attempt <= 2 {
				return errBroken
			}
			return ran.handle(ctx, m)
		}, nil)
		ids := r.jobs(300, nil)
		run := r.start(w)
		r.wait(message.StatusSucceeded, ids...)
		require.NoError(t, run.stop())
		for _, id := range ids {
			require.Equal(t, 1, ran.of(id))
			require.Equal(t, 2, r.get(id).RetryCount)
			require.Len(t, r.attempts(id), 2)
		}
	})
}

// What a claim brings after its worker's stop goes back uncharged.
// Reported as NangoHQ/nango#7403 and janbjorge/pgqueuer#693.
func TestStopWhileAClaimIsUnderWay(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		for name, hook := range map[string]func(f *storetest.Faulty, do func(string) error){
			"before it is carried out": (*storetest.Faulty).Before, "after it": (*storetest.Faulty).After,
		} {
			w, f, log := r.faulty(worker.Config{})
			var ran tally
			worker.Handle(w, ran.handle, nil)
			ids := r.jobs(10, nil)
			under, resume := make(chan struct{}), make(chan struct{})
			var first sync.Once
			hook(f, func(method string) error {
				if method == "Claim" {
					first.Do(func() {
						close(under)
						<-resume
					})
				}
				return nil
			})
			run := r.start(w)
			receive(t, under)
			run.cancel()
			close(resume)
			require.NoError(t, run.wait(), name)
			for _, id := range ids {
				m := r.get(id)
				require.Equal(t, message.StatusPending, m.Status, name)
				require.Zero(t, m.RetryCount, name)
				require.Zero(t, ran.of(id), name)
				require.NoError(t, r.client.Cancel(t.Context(), id, nil))
			}
			require.Empty(t, log.lines(t), name)
		}
	})
}

// What a worker claims that does not know yet that it counts as dead goes
// back uncharged.
func TestClaimOfADeadWorker(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		w, f, log := r.faulty(worker.Config{Lease: time.Second})
		var ran tally
		worker.Handle(w, ran.handle, nil)
		ids := r.jobs(3, nil)
		under, resume := make(chan struct{}), make(chan struct{})
		var first sync.Once
		f.After(func(method string) error {
			if method == "Claim" {
				first.Do(func() {
					close(under)
					<-resume
				})
			}
			return nil
		})
		r.start(w)
		receive(t, under)
		r.exec("UPDATE {{s}}workers SET beat_at = {{long ago}}")
		until(t, "it is dead", func() bool { return len(log.lines(t)) > 0 })
		close(resume)
		r.wait(message.StatusSucceeded, ids...)
		for _, id := range ids {
			require.Zero(t, r.get(id).RetryCount)
			require.EqualValues(t, 2, r.get(id).LeaseToken)
			require.Equal(t, 1, ran.of(id))
		}
	})
}

// A database that refuses everything at first is an error of Run; later it is
// not.
func TestRunNeedsTheDatabaseAtFirst(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		for _, method := range []string{"SchemaVersion", "Pulse", "Register"} {
			w, f, _ := r.faulty(worker.Config{})
			worker.Handle(w, func(context.Context, *worker.Message[job]) error { return nil }, nil)
			hook, _ := once(method, errBroken)
			f.Before(hook)
			require.ErrorIs(t, w.Run(t.Context()), errBroken, method)
		}
		require.Zero(t, r.count("SELECT count(*) FROM {{s}}messages"))
	})
}

// The look at the row after a CompleteTx is repeated through an outage, and
// a failure then only when nothing is known.
func TestCompleteTxIsLookedUpThroughAnOutage(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		w, f, log := r.faulty(worker.Config{})
		hook, done := once("Settled", store.ErrUnavailable)
		f.After(hook)
		worker.Handle(w, func(ctx context.Context, m *worker.Message[job]) error {
			tx, err := r.db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			if err := m.CompleteTx(ctx, tx); err != nil {
				return errors.Join(err, tx.Rollback())
			}
			return errors.Join(tx.Commit(), errBroken)
		}, nil)
		id := r.enqueue(job{}, &client.EnqueueOptions{MaxRetries: 1})
		r.start(w)
		r.wait(message.StatusSucceeded, id)
		until(t, "it was looked up", func() bool { return f.Calls("Settled") == 2 })
		require.True(t, done.Load())
		require.Empty(t, log.lines(t))
	})
}
