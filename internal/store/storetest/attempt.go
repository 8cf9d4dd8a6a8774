package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

var attemptProperties = []property{
	{"a failure is kept with all that is known", attemptKept},
	{"every sort of outcome but success leaves one", attemptOutcomes},
	{"the newest are returned, oldest first", attemptLimit},
	{"they survive success, death and replay", attemptSurvive},
	{"a message without any has none", attemptNone},
	{"the clock is read once for an outcome", attemptMoment},
}

func attemptKept(t *testing.T, f *fixture) {
	id := f.put(store.NewMessage{})
	w := f.worker()
	c := w.only("q")
	s := retry(c, time.Hour)
	s.Elapsed = 90 * time.Second
	w.settle(s)
	as := f.attempts(id)
	require.Len(t, as, 1)
	a := as[0]
	require.Positive(t, a.ID)
	require.False(t, a.FinishedAt.IsZero())
	require.WithinDuration(t, a.FinishedAt.Add(-90*time.Second), a.StartedAt, time.Second)
	require.WithinDuration(t, a.FinishedAt.Add(time.Hour), a.RetryAfter, time.Second)
	require.WithinDuration(t, f.get(id).RetryAfter, a.RetryAfter, 0)
	want := failure(message.FailureTransient, "")
	require.Equal(t, message.Attempt{
		ID: a.ID, MessageID: id, Number: 1, LeaseToken: 1, Outcome: message.OutcomeRetried, Charged: true,
		FailureKind: message.FailureTransient, ErrorClass: want.Class, ErrorMessage: want.Message, Stack: want.Stack,
		WorkerID: w.id, Reason: a.Reason, StartedAt: a.StartedAt, FinishedAt: a.FinishedAt, RetryAfter: a.RetryAfter,
		TraceID: want.TraceID,
	}, a)
}

func attemptMoment(t *testing.T, f *fixture) {
	ids := f.puts(200, store.NewMessage{})
	remote := f.put(store.NewMessage{})
	w := f.worker()
	claimed := w.take("q", len(ids))
	told := make([]store.Settlement, len(claimed))
	for i, c := range claimed {
		if told[i] = retry(c, time.Hour); i%2 == 1 {
			told[i] = bury(c)
		}
		told[i].Elapsed = 90 * time.Second
	}
	w.settle(told...)
	f.told(remotely(f.lendOne(), store.Retry))
	for i, id := range append(ids, remote) {
		m, as := f.get(id), f.attempts(id)
		require.Len(t, as, 1)
		moment := as[0].FinishedAt
		require.WithinDuration(t, moment, m.UpdatedAt, 0)
		if id == remote {
			require.WithinDuration(t, moment.Add(2*time.Second), m.RetryAfter, 0)
			continue
		}
		require.WithinDuration(t, moment.Add(-90*time.Second), as[0].StartedAt, 0)
		if i%2 == 0 {
			require.WithinDuration(t, moment.Add(time.Hour), m.RetryAfter, 0)
			require.WithinDuration(t, m.RetryAfter, as[0].RetryAfter, 0)
			continue
		}
		l := f.letter(id)
		require.WithinDuration(t, moment, l.DeadAt, 0)
		require.WithinDuration(t, moment, l.FirstFailedAt, 0)
		require.WithinDuration(t, moment, l.LastFailedAt, 0)
	}
}

func attemptOutcomes(t *testing.T, f *fixture) {
	id := f.put(store.NewMessage{MaxRetries: 4})
	w := f.worker()
	w.settle(retry(w.only("q"), 0))
	w.settle(release(w.only("q"), 0))
	w.settle(snooze(w.only("q"), 0))
	w.settle(retry(w.only("q"), 0))
	w.settle(bury(w.only("q")))
	type row struct {
		number  int
		token   int64
		outcome message.Outcome
		charged bool
	}
	var got []row
	for _, a := range f.attempts(id) {
		require.Equal(t, id, a.MessageID)
		require.Equal(t, w.id, a.WorkerID)
		got = append(got, row{a.Number, a.LeaseToken, a.Outcome, a.Charged})
	}
	require.Equal(t, []row{
		{1, 1, message.OutcomeRetried, true},
		{2, 2, message.OutcomeReleased, false},
		{2, 3, message.OutcomeSnoozed, false},
		{2, 4, message.OutcomeRetried, true},
		{3, 5, message.OutcomeDead, true},
	}, got)
	as := f.attempts(id)
	require.Equal(t, "shutdown", as[1].Reason)
	require.True(t, as[4].RetryAfter.IsZero())
	require.Equal(t, message.FailurePermanent, as[4].FailureKind)

	exhausted := f.put(store.NewMessage{MaxRetries: 1})
	w.settle(retry(w.only("q"), time.Hour))
	as = f.attempts(exhausted)
	require.Len(t, as, 1)
	require.Equal(t, message.OutcomeDead, as[0].Outcome)
	require.True(t, as[0].Charged)
	require.True(t, as[0].RetryAfter.IsZero())
}

func attemptLimit(t *testing.T, f *fixture) {
	id := f.put(store.NewMessage{MaxRetries: 100})
	w := f.worker()
	for range 10 {
		w.settle(retry(w.only("q"), 0))
	}
	as, err := f.Store.Attempts(t.Context(), id, 3)
	require.NoError(t, err)
	require.Len(t, as, 3)
	for i, a := range as {
		require.Equal(t, 8+i, a.Number)
	}
	require.Len(t, f.attempts(id), 10)
}

func attemptSurvive(t *testing.T, f *fixture) {
	id := f.put(store.NewMessage{MaxRetries: 2})
	w := f.worker()
	w.settle(retry(w.only("q"), 0))
	w.settle(retry(w.only("q"), 0))
	require.NoError(t, f.Store.Replay(t.Context(), id, store.Actor{Name: "a"}))
	require.Len(t, f.attempts(id), 2)
	w.settle(retry(w.only("q"), 0))
	w.settle(succeed(w.only("q")))
	as := f.attempts(id)
	require.Len(t, as, 3)
	require.Equal(t, 1, as[2].Number, "the budget began again")
	require.EqualValues(t, 3, as[2].LeaseToken, "the token did not")
}

func attemptNone(t *testing.T, f *fixture) {
	id := f.put(store.NewMessage{})
	require.Empty(t, f.attempts(id))
	w := f.worker()
	w.settle(succeed(w.only("q")))
	require.Empty(t, f.attempts(id))
}
