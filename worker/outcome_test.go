package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/worker"
)

// wrap hides an error as an application's layers do.
func wrap(err error) error { return fmt.Errorf("outer: %w", errors.Join(fmt.Errorf("inner: %w", err))) }

func TestOutcomeErrors(t *testing.T) {
	t.Parallel()
	require.NoError(t, worker.Permanent(nil))
	require.NoError(t, worker.Ignore(nil))
	require.EqualError(t, worker.RetryAfter(time.Second, nil), "worker: retry after 1s")
	require.EqualError(t, worker.Snooze(time.Minute), "worker: snooze 1m0s")
	for _, err := range []error{worker.Permanent(errBroken), worker.Ignore(errBroken), worker.RetryAfter(0, errBroken)} {
		require.EqualError(t, err, errBroken.Error())
		require.ErrorIs(t, err, errBroken)
	}
}

// What becomes of a message of two attempts after the error of the first.
// Reported as hibiken/asynq#532.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		const far = time.Hour
		type want struct {
			status   message.Status
			charged  int
			delay    time.Duration
			outcome  message.Outcome
			kind     message.FailureKind
			decision message.Decision
		}
		var (
			success = want{status: message.StatusSucceeded}
			poison  = want{message.StatusDead, 1, 0, message.OutcomeDead, message.FailurePermanent, message.DecisionPoison}
			later   = want{message.StatusPending, 1, far, message.OutcomeRetried, message.FailureTransient, ""}
			unknown = want{message.StatusPending, 1, 2 * far, message.OutcomeRetried, message.FailureUnknown, ""}
			snoozed = want{message.StatusPending, 0, far, message.OutcomeSnoozed, "", ""}
		)
		tests := map[string]struct {
			err  error
			want want
		}{
			"nil":                             {nil, success},
			"plain":                           {errBroken, unknown},
			"permanent":                       {worker.Permanent(errBroken), poison},
			"permanent, wrapped":              {wrap(worker.Permanent(errBroken)), poison},
			"ignore":                          {worker.Ignore(errBroken), success},
			"ignore, wrapped":                 {wrap(worker.Ignore(errBroken)), success},
			"retry after":                     {worker.RetryAfter(far, errBroken), later},
			"retry after, wrapped":            {wrap(worker.RetryAfter(far, errBroken)), later},
			"retry after nothing":             {worker.RetryAfter(far, nil), later},
			"snooze":                          {worker.Snooze(far), snoozed},
			"snooze, wrapped":                 {wrap(worker.Snooze(far)), snoozed},
			"permanent around retry after":    {worker.Permanent(wrap(worker.RetryAfter(far, errBroken))), poison},
			"retry after around permanent":    {worker.RetryAfter(far, wrap(worker.Permanent(errBroken))), later},
			"ignore around snooze":            {wrap(worker.Ignore(wrap(worker.Snooze(far)))), success},
			"first of two joined":             {errors.Join(worker.Permanent(errBroken), worker.Snooze(far)), poison},
			"permanent that says transient":   {worker.Permanent(context.DeadlineExceeded), poison},
			"a deadline of its own":           {wrap(context.DeadlineExceeded), want{message.StatusPending, 1, far, message.OutcomeRetried, message.FailureTransient, ""}},
			"cancelled by itself":             {wrap(context.Canceled), unknown},
			"a shutdown that there is not":    {worker.ErrShutdown, unknown},
			"a lease lost somewhere else":     {message.ErrLeaseLost, unknown},
			"invalid data for another system": {wrap(&message.ValidationError{Field: "x", Code: "invalid"}), poison},
		}
		w, log := r.worker(worker.Config{RetryPolicy: worker.RetryFunc(func(f worker.Failure) time.Duration {
			if f.Kind == message.FailureUnknown {
				return 2 * far
			}
			return far
		})})
		worker.Handle(w, func(_ context.Context, m *worker.Message[job]) error { return tests[m.Payload.Text].err }, nil)
		ids := map[string]int64{}
		for name := range tests {
			ids[name] = r.enqueue(job{Text: name}, &client.EnqueueOptions{MaxRetries: 2})
		}
		r.start(w)
		failures := 0
		for name, test := range tests {
			t.Run(name, func(t *testing.T) {
				m := r.get(ids[name])
				until(t, "it has run", func() bool {
					m = r.get(ids[name])
					return m.LeaseToken == 1 && m.Status != message.StatusProcessing
				})
				require.Equal(t, test.want.status, m.Status)
				require.Equal(t, test.want.charged, m.RetryCount)
				as := r.attempts(m.ID)
				if test.want.status == message.StatusSucceeded {
					require.Empty(t, as)
					return
				}
				require.Len(t, as, 1)
				require.Equal(t, test.want.outcome, as[0].Outcome)
				require.Equal(t, test.want.charged == 1, as[0].Charged)
				require.Equal(t, test.want.kind, as[0].FailureKind)
				if test.want.charged == 1 {
					failures++
					require.Equal(t, test.err.Error(), as[0].ErrorMessage)
					require.NotContains(t, as[0].ErrorClass, "outcome", "the class is that of the error inside")
					require.Equal(t, 1, as[0].Number)
				}
				if test.want.status == message.StatusPending {
					require.Equal(t, test.want.delay, m.RetryAfter.Sub(as[0].FinishedAt).Round(time.Minute))
					return
				}
				require.Equal(t, test.want.decision, r.letter(m.ID).Decision)
			})
		}
		require.Len(t, log.lines(t, lineFailed, lineDead), failures)
		require.Len(t, log.lines(t), failures)
	})
}

func TestIgnoreKeepsANote(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		w, log := r.worker(worker.Config{})
		worker.Handle(w, func(context.Context, *worker.Message[job]) error {
			return worker.Ignore(errors.New("sent \x00 before: " + strings.Repeat("ä", 2000)))
		}, nil)
		id := r.enqueue(job{}, nil)
		r.start(w)
		r.wait(message.StatusSucceeded, id)
		var note string
		require.NoError(t, r.db.QueryRowContext(t.Context(), r.text("SELECT note FROM {{s}}archive WHERE id = ?"), id).Scan(&note))
		require.True(t, strings.HasPrefix(note, "sent \uFFFD before: ää"), note)
		require.LessOrEqual(t, len(note), 1024)
		require.Empty(t, log.lines(t))
	})
}

// The budget counts failures and nothing else.
func TestBudget(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		w, log := r.worker(worker.Config{RetryPolicy: soon, MaxSnoozes: 2})
		var numbers []int
		worker.Handle(w, func(_ context.Context, m *worker.Message[job]) error {
			numbers = append(numbers, m.Attempt) // one message, so one at a time
			if m.Snoozes < 2 && m.Attempt == 2 {
				return worker.Snooze(0)
			}
			return worker.RetryAfter(-time.Hour, errBroken)
		}, nil)
		id := r.enqueue(job{}, &client.EnqueueOptions{MaxRetries: 3})
		r.start(w)
		m := r.wait(message.StatusDead, id)
		require.Equal(t, []int{1, 2, 2, 2, 3}, numbers)
		require.Equal(t, 3, m.RetryCount)
		require.Equal(t, 2, m.Snoozes)
		require.EqualValues(t, 5, m.LeaseToken)
		l := r.letter(id)
		require.Equal(t, message.DecisionExhausted, l.Decision)
		require.Equal(t, 3, l.AttemptsUsed)
		require.Len(t, log.lines(t, lineFailed), 2)
		require.Len(t, log.lines(t, lineDead), 1)
		require.Len(t, log.lines(t), 3)
	})
}

// A snooze too many is a failure, so that nothing is snoozed for ever.
func TestSnoozeLimit(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		w, log := r.worker(worker.Config{RetryPolicy: soon, MaxSnoozes: 3})
		worker.Handle(w, func(context.Context, *worker.Message[job]) error { return wrap(worker.Snooze(time.Millisecond)) }, nil)
		id := r.enqueue(job{}, &client.EnqueueOptions{MaxRetries: 2})
		r.start(w)
		m := r.wait(message.StatusDead, id)
		require.Equal(t, 3, m.Snoozes)
		require.EqualValues(t, 5, m.LeaseToken)
		require.Equal(t, message.DecisionExhausted, r.letter(id).Decision)
		require.Equal(t, message.FailureTransient, r.letter(id).FailureKind)
		require.Len(t, log.lines(t), 2)
	})
}

// The delay counts from the failure, however long the attempt took.
// Reported as riverqueue/river#74.
func TestRetryDelayCountsFromTheFailure(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		w, _ := r.worker(worker.Config{RetryPolicy: worker.Delays{time.Hour}})
		worker.Handle(w, func(ctx context.Context, _ *worker.Message[job]) error {
			<-ctx.Done()
			return errBroken
		}, &worker.HandlerOptions{Timeout: time.Second})
		id := r.enqueue(job{}, nil)
		r.start(w)
		until(t, "it failed", func() bool { return len(r.attempts(id)) == 1 })
		a := r.attempts(id)[0]
		require.GreaterOrEqual(t, a.FinishedAt.Sub(a.StartedAt), time.Second)
		require.WithinDuration(t, a.FinishedAt.Add(time.Hour), a.RetryAfter, 100*time.Millisecond)
		require.True(t, a.RetryAfter.Equal(r.get(id).RetryAfter))
	})
}
