package worker_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/worker"
)

// Handlers that ignore their context are recorded as failures, their slots
// are filled again, what they return later changes nothing, and Run names
// them.
func TestStuckHandlers(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		w, log := r.worker(worker.Config{
			Concurrency: 2, Timeout: 100 * time.Millisecond, RetryPolicy: worker.Delays{time.Hour}, Grace: time.Second,
		})
		resume, ended := make(chan struct{}), make(chan struct{}, 2)
		worker.Handle(w, func(_ context.Context, m *worker.Message[job]) error {
			if m.Payload.Text == "" {
				<-resume
				ended <- struct{}{}
			}
			return nil
		}, nil)
		stuck := r.jobs(2, nil) // as many as there are slots
		good := r.enqueue(job{Text: "good"}, nil)
		run := r.start(w)
		r.wait(message.StatusSucceeded, good)
		check := func() {
			for _, id := range stuck {
				m := r.get(id)
				require.Equal(t, message.StatusPending, m.Status)
				require.Equal(t, 1, m.RetryCount)
				as := r.attempts(id)
				require.Len(t, as, 1)
				require.Equal(t, "worker.Abandoned", as[0].ErrorClass)
				require.Equal(t, message.FailureTransient, as[0].FailureKind)
				require.GreaterOrEqual(t, as[0].FinishedAt.Sub(as[0].StartedAt), worker.AbandonAfter)
			}
		}
		until(t, "both are recorded", func() bool { return len(r.attempts(stuck[0]))+len(r.attempts(stuck[1])) == 2 })
		check()
		var left *worker.AbandonedError
		require.ErrorAs(t, run.stop(), &left)
		require.Len(t, left.Messages, 2)
		require.ElementsMatch(t, stuck, []int64{left.Messages[0].ID, left.Messages[1].ID})
		close(resume)
		receive(t, ended)
		receive(t, ended)
		check()
		require.Len(t, log.lines(t, lineFailed), 2)
		require.Len(t, log.lines(t, "handler did not return after its context ended, its goroutine runs on"), 2)
	})
}

// One that returns while the worker still runs is forgotten.
func TestStuckHandlerReturnsLate(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		w, _ := r.worker(worker.Config{Concurrency: 1, Timeout: 50 * time.Millisecond, RetryPolicy: soon, Grace: 5 * time.Second})
		resume, ended := make(chan struct{}), make(chan struct{}, 2)
		worker.Handle(w, func(_ context.Context, m *worker.Message[job]) error {
			<-resume
			ended <- struct{}{}
			return worker.Permanent(errBroken)
		}, nil)
		id := r.enqueue(job{}, &client.EnqueueOptions{MaxRetries: 2})
		run := r.start(w)
		m := r.wait(message.StatusDead, id) // two goroutines are stuck now
		require.Equal(t, 2, m.RetryCount)
		l := r.letter(id)
		require.Equal(t, message.DecisionTimedOut, l.Decision)
		require.Equal(t, "worker.Abandoned", l.ErrorClass)
		close(resume)
		receive(t, ended)
		receive(t, ended)
		require.NoError(t, run.stop())
		require.Equal(t, l, r.letter(id))
	})
}
