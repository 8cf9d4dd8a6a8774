package worker_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/worker"
)

// What a handler returns after its context has ended still counts, and is
// recorded although that context has ended.
// Reported as travis-ci/worker#408,
// sourcegraph/sourcegraph-public-snapshot#23576 and hibiken/asynq#532.
func TestTimeout(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		tests := map[string]struct {
			returns  func(ctx context.Context) error
			status   message.Status
			kind     message.FailureKind
			class    string
			decision message.Decision
		}{
			"its error": {context.Cause, message.StatusPending, message.FailureTransient, "worker.Timeout", ""},
			"ctx.Err()": {func(ctx context.Context) error { return wrap(ctx.Err()) }, message.StatusPending, message.FailureUnknown, "worker.Timeout", ""},
			"permanent": {func(context.Context) error { return worker.Permanent(errBroken) }, message.StatusDead, message.FailurePermanent, "*errors.errorString", message.DecisionPoison},
			"permanent timeout": {
				func(ctx context.Context) error { return worker.Permanent(context.Cause(ctx)) },
				message.StatusDead, message.FailurePermanent, "worker.Timeout", message.DecisionPoison,
			},
			"another error": {func(context.Context) error { return errBroken }, message.StatusPending, message.FailureUnknown, "*errors.errorString", ""},
			"nil":           {func(context.Context) error { return nil }, message.StatusSucceeded, "", "", ""},
			"snooze":        {func(context.Context) error { return worker.Snooze(time.Hour) }, message.StatusPending, "", "", ""},
		}
		causes := make(chan error, len(tests))
		w, log := r.worker(worker.Config{RetryPolicy: worker.Delays{time.Hour}, Timeout: 300 * time.Millisecond})
		worker.Handle(w, func(ctx context.Context, m *worker.Message[job]) error {
			end, ok := ctx.Deadline()
			if !ok || time.Until(end) > 300*time.Millisecond {
				return errors.New("no such deadline")
			}
			child, cancel := context.WithCancel(ctx) // a cause reaches the contexts made of it
			defer cancel()
			<-child.Done()
			causes <- context.Cause(child)
			return tests[m.Payload.Text].returns(ctx)
		}, nil)
		ids := map[string]int64{}
		for name := range tests {
			ids[name] = r.enqueue(job{Text: name}, nil)
		}
		r.start(w)
		for name, test := range tests {
			m := r.get(ids[name])
			until(t, "it has run", func() bool {
				m = r.get(ids[name])
				return m.LeaseToken == 1 && m.Status != message.StatusProcessing
			})
			require.Equal(t, test.status, m.Status, name)
			if test.class != "" {
				require.Equal(t, 1, m.RetryCount, name)
				a := r.attempts(m.ID)[0]
				require.Equal(t, test.class, a.ErrorClass, name)
				require.Equal(t, test.kind, a.FailureKind, name)
			}
			if test.decision != "" {
				require.Equal(t, test.decision, r.letter(m.ID).Decision, name)
			}
			require.ErrorIs(t, receive(t, causes), worker.ErrTimeout, name)
		}
		require.Len(t, log.lines(t), 5)
	})
}

// The last attempt's timeout is the reason of the death.
func TestTimeoutOfTheLastAttempt(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		w, _ := r.worker(worker.Config{RetryPolicy: soon})
		worker.Handle(w, func(ctx context.Context, _ *worker.Message[job]) error {
			<-ctx.Done()
			return ctx.Err()
		}, nil)
		id := r.enqueue(job{}, &client.EnqueueOptions{MaxRetries: 2, Timeout: 50 * time.Millisecond})
		r.start(w)
		r.wait(message.StatusDead, id)
		l := r.letter(id)
		require.Equal(t, message.DecisionTimedOut, l.Decision)
		require.Equal(t, 2, l.AttemptsUsed)
		require.Contains(t, l.ErrorMessage, worker.ErrTimeout.Error())
	})
}

// The message beats the kind beats the queue beats the worker.
func TestTimeoutOfWhom(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		w, _ := r.worker(worker.Config{
			Timeout: time.Hour,
			Queues:  []worker.Queue{{Name: "default"}, {Name: "own", Timeout: 2 * time.Hour}, {Name: "none", Timeout: -1}},
		})
		left := make(chan time.Duration, 1)
		note := func(ctx context.Context) {
			if end, ok := ctx.Deadline(); ok {
				left <- time.Until(end)
				return
			}
			left <- -1
		}
		worker.Handle(w, func(ctx context.Context, _ *worker.Message[job]) error { note(ctx); return nil }, nil)
		worker.Handle(w, func(ctx context.Context, _ *worker.Message[other]) error { note(ctx); return nil },
			&worker.HandlerOptions{Timeout: 3 * time.Hour})
		r.start(w)
		for _, test := range []struct {
			payload client.Payload
			opts    client.EnqueueOptions
			want    time.Duration
		}{
			{job{}, client.EnqueueOptions{}, time.Hour},
			{job{}, client.EnqueueOptions{Queue: "own"}, 2 * time.Hour},
			{job{}, client.EnqueueOptions{Queue: "none"}, -1},
			{other{}, client.EnqueueOptions{Queue: "none"}, 3 * time.Hour},
			{other{}, client.EnqueueOptions{Timeout: 4 * time.Hour}, 4 * time.Hour},
			{other{}, client.EnqueueOptions{Timeout: -1}, -1},
		} {
			r.enqueue(test.payload, &test.opts)
			require.InDelta(t, test.want, receive(t, left), float64(10*time.Minute))
		}
	})
}

// More time is more time, also in the database, whose deadline would
// otherwise let a reaper take the message away.
func TestExtend(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		w, log := r.worker(worker.Config{Lease: time.Second, RetryPolicy: worker.Delays{time.Hour}})
		before, after, resume := make(chan error, 1), make(chan error, 1), make(chan struct{})
		worker.Handle(w, func(ctx context.Context, m *worker.Message[job]) error {
			for _, d := range []time.Duration{0, -1, message.MaxTimeout + 1} {
				var invalid *message.ValidationError
				if err := m.Extend(ctx, d); !errors.As(err, &invalid) {
					return errors.New("a bad extension was not refused")
				}
			}
			first, _ := ctx.Deadline()
			before <- m.Extend(ctx, time.Hour)
			<-time.After(time.Until(first) + 100*time.Millisecond)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			<-resume
			after <- m.Extend(ctx, 50*time.Millisecond) // shorter is possible too
			<-ctx.Done()
			return context.Cause(ctx)
		}, &worker.HandlerOptions{Timeout: 500 * time.Millisecond})
		id := r.enqueue(job{}, nil)
		r.start(w)
		require.NoError(t, receive(t, before))
		m := r.get(id)
		require.Equal(t, message.StatusProcessing, m.Status)
		require.Greater(t, m.Deadline.Sub(m.CreatedAt), time.Hour)
		require.Empty(t, r.reap())
		close(resume)
		require.NoError(t, receive(t, after))
		until(t, "it timed out", func() bool { return len(r.attempts(id)) == 1 })
		require.Equal(t, "worker.Timeout", r.attempts(id)[0].ErrorClass)
		require.Len(t, log.lines(t), 1)
	})
}

// Who lost the message learns it from Extend, and its context ends.
func TestExtendAfterTheLeaseWasLost(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		w, log := r.worker(worker.Config{})
		began, resume, result, cause := make(chan int64), make(chan struct{}), make(chan error, 2), make(chan error, 1)
		worker.Handle(w, func(ctx context.Context, m *worker.Message[job]) error {
			if m.Attempt == 2 {
				return nil
			}
			began <- m.ID
			<-resume
			result <- m.Extend(context.WithoutCancel(ctx), time.Hour)
			<-ctx.Done()
			cause <- context.Cause(ctx)
			result <- m.Extend(context.WithoutCancel(ctx), time.Hour)
			return nil
		}, nil)
		r.enqueue(job{}, nil)
		r.start(w)
		id := receive(t, began)
		r.overdue(id)
		require.Len(t, r.reap(), 1)
		close(resume)
		require.ErrorIs(t, receive(t, result), message.ErrLeaseLost)
		require.ErrorIs(t, receive(t, cause), message.ErrLeaseLost)
		require.ErrorIs(t, receive(t, result), message.ErrLeaseLost)
		require.Equal(t, 1, r.wait(message.StatusSucceeded, id).RetryCount)
		require.Len(t, log.lines(t, "lease lost: the outcome of this attempt does not count"), 1)
	})
}

// A message that was taken away although its worker lives ends its handler's
// context, without anybody asking.
func TestLeaseLostEndsTheContext(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		w, log := r.worker(worker.Config{Lease: time.Second})
		began, cause := make(chan int64), make(chan error, 1)
		worker.Handle(w, func(ctx context.Context, m *worker.Message[job]) error {
			if m.Attempt == 2 {
				return nil
			}
			began <- m.ID
			<-ctx.Done()
			cause <- context.Cause(ctx)
			return nil // a late success changes nothing
		}, nil)
		r.enqueue(job{}, nil)
		r.start(w)
		id := receive(t, began)
		r.overdue(id)
		require.Len(t, r.reap(), 1)
		require.ErrorIs(t, receive(t, cause), message.ErrLeaseLost)
		m := r.wait(message.StatusSucceeded, id)
		require.Equal(t, 1, m.RetryCount)
		require.EqualValues(t, 2, m.LeaseToken)
		require.Empty(t, log.lines(t, lineFailed, lineDead))
	})
}

// Tokens grow with every claim, so that a store downstream can refuse an old
// worker too.
func TestLeaseTokenGrows(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		w, _ := r.worker(worker.Config{RetryPolicy: soon})
		tokens := make(chan int64, 10)
		worker.Handle(w, func(_ context.Context, m *worker.Message[job]) error {
			tokens <- m.LeaseToken
			switch {
			case m.ReplayCount == 1:
				return nil
			case m.Snoozes == 0:
				return worker.Snooze(0)
			}
			return errBroken
		}, nil)
		id := r.enqueue(job{}, &client.EnqueueOptions{MaxRetries: 2})
		r.start(w)
		r.wait(message.StatusDead, id)
		require.NoError(t, r.client.DeadLetters().Replay(t.Context(), id, nil))
		require.EqualValues(t, 4, r.wait(message.StatusSucceeded, id).LeaseToken)
		for want := int64(1); want <= 4; want++ {
			require.Equal(t, want, receive(t, tokens))
		}
	})
}
