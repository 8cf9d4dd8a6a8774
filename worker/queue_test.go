package worker_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/worker"
)

// Each queue has its own slots: one full of long handlers does not hold up
// another.
// Reported as hibiken/asynq#314 and mergestat/mergestat#318.
func TestQueuesHaveTheirOwnSlots(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		w, _ := r.worker(worker.Config{
			Concurrency: 2, Queues: []worker.Queue{{Name: "bulk", Concurrency: 3}, {Name: "critical", Concurrency: 1}, {Name: "default"}},
		})
		var mu sync.Mutex
		running, most := map[string]int{}, map[string]int{}
		began, resume := make(chan struct{}, 20), make(chan struct{})
		worker.Handle(w, func(_ context.Context, m *worker.Message[job]) error {
			mu.Lock()
			running[m.Queue]++
			most[m.Queue] = max(most[m.Queue], running[m.Queue])
			mu.Unlock()
			defer func() {
				mu.Lock()
				running[m.Queue]--
				mu.Unlock()
			}()
			if m.Queue != "critical" {
				began <- struct{}{}
				<-resume
			}
			return nil
		}, nil)
		ids := append(r.jobs(8, in("bulk")), r.jobs(5, nil)...)
		r.start(w)
		for range 3 + 2 {
			receive(t, began)
		}
		urgent := r.jobs(10, in("critical"))
		r.wait(message.StatusSucceeded, urgent...)
		require.Empty(t, began)
		close(resume)
		r.wait(message.StatusSucceeded, ids...)
		require.Equal(t, map[string]int{"bulk": 3, "critical": 1, "default": 2}, most)
	})
}

// A queue starts its messages by priority, the lowest number first, and by id
// within one.
func TestPriorities(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		var want [3][]int64
		for range 2 { // fewer than the claims after which the least urgent have a turn
			for order, p := range map[int]int{0: -9, 1: 0, 2: 9} {
				want[order] = append(want[order], r.enqueue(job{}, &client.EnqueueOptions{Priority: p}))
			}
		}
		w, _ := r.worker(worker.Config{Concurrency: 1})
		seen := make(chan int64, 6)
		worker.Handle(w, func(_ context.Context, m *worker.Message[job]) error {
			seen <- m.ID
			return nil
		}, nil)
		r.start(w)
		for _, ids := range want {
			for _, id := range ids {
				require.Equal(t, id, receive(t, seen))
			}
		}
	})
}

// A worker holds no more than it can run.
// Reported as RamaAditya49/titen#151.
func TestClaimsNoMoreThanItsSlots(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		r.jobs(50, nil)
		w, _ := r.worker(worker.Config{Concurrency: 3})
		began, resume := make(chan struct{}, 50), make(chan struct{})
		worker.Handle(w, func(context.Context, *worker.Message[job]) error {
			began <- struct{}{}
			<-resume
			return nil
		}, nil)
		r.start(w)
		for range 3 {
			receive(t, began)
		}
		require.Equal(t, 3, r.counted(message.StatusProcessing))
		require.Empty(t, began)
		close(resume)
		until(t, "all are done", func() bool { return r.counted(message.StatusSucceeded) == 50 })
	})
}

// What is postponed runs at its time, without waiting for a poll, and never
// sooner.
// Reported as celery/kombu#337.
func TestPostponed(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		w, _ := r.worker(worker.Config{PollInterval: time.Hour})
		worker.Handle(w, func(context.Context, *worker.Message[job]) error { return nil }, nil)
		id := r.enqueue(job{}, &client.EnqueueOptions{Delay: 2 * time.Second})
		r.start(w)
		m := r.wait(message.StatusSucceeded, id)
		require.GreaterOrEqual(t, m.UpdatedAt.Sub(m.CreatedAt), 2*time.Second)
		require.Zero(t, r.count("SELECT count(*) FROM {{s}}attempts"))
	})
}

// Rows whose counters were changed by hand cannot stop a queue: what has no
// attempt left dies with a reason, and everything else flows.
// Reported as oban-bg/oban#532 and laravel/framework#24636.
func TestOverspent(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		odd := r.jobs(3, nil)
		good := r.jobs(10, nil)
		r.exec("UPDATE {{s}}messages SET retry_count = max_retries WHERE id = ?", odd[0])
		r.exec("UPDATE {{s}}messages SET retry_count = 2147483647 WHERE id = ?", odd[1])
		r.exec("UPDATE {{s}}messages SET retry_count = 2147483646, max_retries = 2147483647, losses = 32767, snoozes = 32767 WHERE id = ?", odd[2])
		r.exec("UPDATE {{s}}messages SET due_at = {{long ago}} WHERE id = ?", odd[2]) // losses are found there
		w, log := r.worker(worker.Config{RetryPolicy: soon})
		var ran atomic.Int64
		worker.Handle(w, func(_ context.Context, m *worker.Message[job]) error {
			if m.ID == odd[2] {
				return errBroken
			}
			ran.Add(1)
			return nil
		}, nil)
		r.start(w)
		r.wait(message.StatusSucceeded, good...)
		r.wait(message.StatusDead, odd...)
		require.EqualValues(t, len(good), ran.Load())
		for _, id := range odd[:2] {
			l := r.letter(id)
			require.Equal(t, message.DecisionExhausted, l.Decision)
			require.Equal(t, "worker.Overspent", l.ErrorClass)
		}
		require.Equal(t, message.DecisionExhausted, r.letter(odd[2]).Decision)
		require.Len(t, log.lines(t, lineDead), 3)
		require.Len(t, log.lines(t), 3)
	})
}

// Messages that always time out do not hold up those behind them for good.
// Reported as graphile/worker#313.
func TestTimeoutsMakeRoom(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		w, _ := r.worker(worker.Config{Concurrency: 4, RetryPolicy: worker.Delays{time.Hour}})
		worker.Handle(w, func(ctx context.Context, m *worker.Message[job]) error {
			if m.Payload.Text == "" {
				return nil
			}
			<-ctx.Done()
			return context.Cause(ctx)
		}, nil)
		var stuck []int64
		for range 8 {
			stuck = append(stuck, r.enqueue(job{Text: "stuck"}, &client.EnqueueOptions{Timeout: 100 * time.Millisecond}))
		}
		good := r.jobs(100, nil)
		r.start(w)
		r.wait(message.StatusSucceeded, good...)
		for _, id := range stuck {
			require.Equal(t, message.StatusPending, r.get(id).Status)
			require.Equal(t, 1, r.get(id).RetryCount)
		}
	})
}
