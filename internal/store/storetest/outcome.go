package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

var outcomeProperties = []property{
	{"success moves the message to the archive", outcomeSuccess},
	{"a retry is charged and waits for its delay", outcomeRetry},
	{"a retry without delay runs again at once", outcomeRetryNow},
	{"a delay ends by itself", outcomeDelayEnds},
	{"the last failure in the budget buries", outcomeExhausted},
	{"a budget of one is never retried", outcomeBudgetOfOne},
	{"bury ends it with budget left", outcomeBury},
	{"a release is not charged, however often", outcomeRelease},
	{"a snooze is counted and not charged", outcomeSnooze},
	{"what comes back keeps all that was enqueued", outcomeKeeps},
}

func outcomeSuccess(t *testing.T, f *fixture) {
	id := f.put(store.NewMessage{
		Payload: "p", Priority: 2, MaxRetries: 4, Tenant: "t", CorrelationID: "c",
		Headers: map[string]string{"h": "v"}, IdempotencyKey: "k", Digest: "d", KeyWindow: time.Hour,
	})
	before := f.get(id)
	w := f.worker()
	w.settle(retry(w.only("q"), 0))
	s := succeed(w.only("q"))
	s.Note = "nothing to do"
	w.settle(s)
	m := f.get(id)
	require.Equal(t, message.StatusSucceeded, m.Status)
	require.Equal(t, "p", m.Payload)
	require.Equal(t, before.Headers, m.Headers)
	require.Equal(t, before.Priority, m.Priority)
	require.Equal(t, before.MaxRetries, m.MaxRetries)
	require.Equal(t, before.Tenant, m.Tenant)
	require.Equal(t, before.CorrelationID, m.CorrelationID)
	require.Equal(t, before.IdempotencyKey, m.IdempotencyKey)
	require.WithinDuration(t, before.CreatedAt, m.CreatedAt, 0)
	require.False(t, m.UpdatedAt.Before(m.CreatedAt))
	require.Equal(t, 1, m.RetryCount)
	require.EqualValues(t, 2, m.LeaseToken)
	require.Equal(t, w.id, m.WorkerID)
	require.True(t, m.Deadline.IsZero())
	require.True(t, m.RetryAfter.IsZero())
	require.Empty(t, w.take("q", 10))
	require.Zero(t, f.count("SELECT count(*) FROM {{s}}messages"))
	require.Equal(t, 1, f.total())
}

func outcomeRetry(t *testing.T, f *fixture) {
	id := f.put(store.NewMessage{})
	w := f.worker()
	c := w.only("q")
	w.settle(retry(c, time.Hour))
	m := f.get(id)
	require.Equal(t, message.StatusPending, m.Status)
	require.Equal(t, 1, m.RetryCount)
	require.Equal(t, 2, m.Attempt)
	require.Equal(t, failure("", "").Message, m.LastError)
	require.WithinDuration(t, m.CreatedAt.Add(time.Hour), m.RetryAfter, time.Minute)
	require.True(t, m.Deadline.IsZero())
	require.Zero(t, m.WorkerLosses)
	require.Empty(t, w.takeAny("q", 10), "not before its time")
	f.due(id)
	again := w.only("q")
	require.Equal(t, 2, again.Attempt)
	require.Equal(t, 1, again.RetryCount)
	require.Equal(t, failure("", "").Message, again.LastError)
}

func outcomeRetryNow(t *testing.T, f *fixture) {
	id := f.put(store.NewMessage{MaxRetries: 10})
	w := f.worker()
	for attempt := 1; attempt < 5; attempt++ {
		c := w.only("q")
		require.Equal(t, id, c.ID)
		require.Equal(t, attempt, c.Attempt)
		w.settle(retry(c, 0))
	}
}

func outcomeDelayEnds(t *testing.T, f *fixture) {
	id := f.put(store.NewMessage{MaxRetries: 10})
	w := f.worker()
	c := w.cursor("q")
	for _, verb := range []func(store.Claimed, time.Duration) store.Settlement{retry, release, snooze} {
		b := w.claim(c, 1, false)
		require.Len(t, b.Messages, 1)
		w.settle(verb(b.Messages[0], 40*time.Millisecond))
		var got []store.Claimed
		require.Eventually(t, func() bool {
			c.Wake()
			got = w.drain(c, 1, false)
			return len(got) == 1
		}, patience, 5*time.Millisecond)
		require.Equal(t, id, got[0].ID)
		w.settle(release(got[0], 0))
	}
}

func outcomeExhausted(t *testing.T, f *fixture) {
	id := f.put(store.NewMessage{MaxRetries: 3})
	w := f.worker()
	for range 2 {
		w.settle(retry(w.only("q"), 0))
		f.wantStatus(message.StatusPending, id)
	}
	c := w.only("q")
	require.Equal(t, 3, c.Attempt)
	w.settle(retry(c, time.Hour))
	m := f.get(id)
	require.Equal(t, message.StatusDead, m.Status)
	require.Equal(t, 3, m.RetryCount)
	require.True(t, m.RetryAfter.IsZero())
	require.Equal(t, message.DecisionExhausted, f.letter(id).Decision)
	require.Empty(t, w.takeAny("q", 10))
}

func outcomeBudgetOfOne(t *testing.T, f *fixture) {
	id := f.put(store.NewMessage{MaxRetries: 1})
	w := f.worker()
	w.settle(retry(w.only("q"), 0))
	f.wantStatus(message.StatusDead, id)
	require.Equal(t, 1, f.letter(id).AttemptsUsed)
}

func outcomeBury(t *testing.T, f *fixture) {
	id := f.put(store.NewMessage{MaxRetries: 5})
	w := f.worker()
	w.settle(bury(w.only("q")))
	m := f.get(id)
	require.Equal(t, message.StatusDead, m.Status)
	require.Equal(t, 1, m.RetryCount)
	require.Equal(t, failure("", "").Message, m.LastError)
	l := f.letter(id)
	require.Equal(t, message.DecisionPoison, l.Decision)
	require.Equal(t, 1, l.AttemptsUsed)
	require.Empty(t, w.takeAny("q", 10))
	require.Zero(t, f.count("SELECT count(*) FROM {{s}}messages"))
}

// PR riverqueue/river#1290: every deploy burnt an attempt.
func outcomeRelease(t *testing.T, f *fixture) {
	id := f.put(store.NewMessage{MaxRetries: 2})
	w := f.worker()
	for range 5 {
		c := w.only("q")
		require.Equal(t, 1, c.Attempt)
		w.settle(release(c, 0))
		m := f.get(id)
		require.Equal(t, message.StatusPending, m.Status)
		require.Zero(t, m.RetryCount)
		require.Empty(t, m.LastError)
		require.Zero(t, m.Snoozes)
		require.Zero(t, m.WorkerLosses)
	}
	w.settle(release(w.only("q"), time.Hour))
	require.Empty(t, w.takeAny("q", 10))
	f.due(id)
	w.settle(retry(w.only("q"), 0))
	require.Equal(t, 1, f.get(id).RetryCount, "a real failure still counts")
	w.settle(release(w.only("q"), 0))
	w.settle(retry(w.only("q"), 0))
	f.wantStatus(message.StatusDead, id)
}

func outcomeSnooze(t *testing.T, f *fixture) {
	id := f.put(store.NewMessage{MaxRetries: 1})
	w := f.worker()
	for n := 1; n <= 4; n++ {
		w.settle(snooze(w.only("q"), 0))
		m := f.get(id)
		require.Equal(t, message.StatusPending, m.Status)
		require.Equal(t, n, m.Snoozes)
		require.Zero(t, m.RetryCount)
	}
	w.settle(snooze(w.only("q"), time.Hour))
	m := f.get(id)
	require.WithinDuration(t, m.CreatedAt.Add(time.Hour), m.RetryAfter, time.Minute)
	require.Empty(t, w.takeAny("q", 10))
	f.due(id)
	require.Equal(t, 5, w.only("q").Snoozes)
}

func outcomeKeeps(t *testing.T, f *fixture) {
	id := f.put(store.NewMessage{
		Kind: "kind", Payload: `{"a": 1}`, Priority: -2, MaxRetries: 9, Timeout: 3 * time.Minute, ExpiresIn: 24 * time.Hour,
		Tenant: "t", CorrelationID: "c", Headers: map[string]string{"h": "v"}, IdempotencyKey: "k", Digest: "d", KeyWindow: time.Hour,
	})
	want := f.get(id)
	w := f.worker()
	check := func(m message.Message) {
		t.Helper()
		require.Equal(t, want.Kind, m.Kind)
		require.Equal(t, want.Payload, m.Payload)
		require.Equal(t, want.Priority, m.Priority)
		require.Equal(t, want.MaxRetries, m.MaxRetries)
		require.Equal(t, want.Timeout, m.Timeout)
		require.Equal(t, want.ExpiresAt, m.ExpiresAt)
		require.Equal(t, want.Tenant, m.Tenant)
		require.Equal(t, want.CorrelationID, m.CorrelationID)
		require.Equal(t, want.Headers, m.Headers)
		require.Equal(t, want.IdempotencyKey, m.IdempotencyKey)
		require.Equal(t, want.CreatedAt, m.CreatedAt)
		require.False(t, m.UpdatedAt.Before(want.UpdatedAt))
	}
	for _, s := range []func(store.Claimed) store.Settlement{
		func(c store.Claimed) store.Settlement { return retry(c, 0) },
		func(c store.Claimed) store.Settlement { return release(c, 0) },
		func(c store.Claimed) store.Settlement { return snooze(c, 0) },
		bury,
	} {
		c := w.only("q")
		check(f.get(id))
		w.settle(s(c))
		check(f.get(id))
	}
	require.NoError(t, f.Store.Replay(t.Context(), id, store.Actor{Name: "a"}))
	check(f.get(id))
}
