package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// floci-io/floci#900, sidekiq/sidekiq#3436, riverqueue/riverui#622: what was
// put back kept its count and died at once, was put back twice, or met its
// twin with an error that nobody understood.
var replayProperties = []property{
	{"a replay gives a fresh budget and keeps everything else", replayFresh},
	{"a budget of one can be replayed", replayBudgetOfOne},
	{"what is not dead cannot be replayed", replayStates},
	{"of two at once exactly one replays", replayTogether},
	{"a key that was used again is a conflict", replayConflict},
	{"the key stays with the replayed message", replayKeepsKey},
	{"a key that was freed is taken again", replayTakesKey},
	{"a message can be replayed again and again", replayAgain},
	{"old tokens stay refused after a replay", replayFences},
}

// Reported as floci-io/floci#900.
func replayFresh(t *testing.T, f *fixture) {
	id := f.put(store.NewMessage{
		Kind: "kind", Payload: `{"n": 1}`, Priority: 4, MaxRetries: 2, Timeout: time.Second,
		Tenant: "t", CorrelationID: "c", Headers: map[string]string{"h": "v"},
	})
	enqueued := f.get(id)
	w := f.worker()
	w.settle(retry(w.only("q"), 0))
	w.settle(retry(w.only("q"), 0))
	f.wantStatus(message.StatusDead, id)
	require.NoError(t, f.Store.Replay(t.Context(), id, store.Actor{Name: "ann", Reason: "fixed in v2"}))

	m := f.get(id)
	require.Equal(t, message.StatusPending, m.Status)
	require.Zero(t, m.RetryCount)
	require.Equal(t, 1, m.Attempt)
	require.Equal(t, 2, m.MaxRetries)
	require.Equal(t, 1, m.ReplayCount)
	require.EqualValues(t, 2, m.LeaseToken)
	require.Equal(t, enqueued.Kind, m.Kind)
	require.Equal(t, enqueued.Payload, m.Payload)
	require.Equal(t, enqueued.Priority, m.Priority)
	require.Equal(t, enqueued.Timeout, m.Timeout)
	require.Equal(t, enqueued.Tenant, m.Tenant)
	require.Equal(t, enqueued.CorrelationID, m.CorrelationID)
	require.Equal(t, enqueued.Headers, m.Headers)
	require.Equal(t, enqueued.CreatedAt, m.CreatedAt)

	l := f.letter(id)
	require.Equal(t, message.ResolutionReplayed, l.Resolution)
	require.Equal(t, "ann", l.ResolvedBy)
	require.Equal(t, "fixed in v2", l.ResolveReason)
	require.False(t, l.ResolvedAt.IsZero())
	require.Len(t, f.attempts(id), 2, "history is kept")
	require.Equal(t, 1, f.total())
	require.Equal(t, 1, f.count("SELECT count(*) FROM {{s}}audit_log WHERE actor = 'ann' AND reason = 'fixed in v2'"))

	w.settle(retry(w.only("q"), 0))
	f.wantStatus(message.StatusPending, id)
	w.settle(succeed(w.only("q")))
	require.Equal(t, 1, f.get(id).ReplayCount)
}

func replayBudgetOfOne(t *testing.T, f *fixture) {
	id := f.put(store.NewMessage{MaxRetries: 1})
	w := f.worker()
	for range 3 {
		w.settle(retry(w.only("q"), 0))
		f.wantStatus(message.StatusDead, id)
		require.NoError(t, f.Store.Replay(t.Context(), id, store.Actor{Name: "a"}))
	}
	w.settle(succeed(w.only("q")))
}

func replayStates(t *testing.T, f *fixture) {
	for status, id := range f.inEachState() {
		wantState(t, f.Store.Replay(t.Context(), id, store.Actor{Name: "a"}), id, status)
		f.wantStatus(status, id)
	}
	for _, id := range []int64{0, -1, 1 << 40} {
		require.ErrorIs(t, f.Store.Replay(t.Context(), id, store.Actor{Name: "a"}), message.ErrNotFound)
	}
	dead := f.kill(store.NewMessage{Queue: "d"})
	require.NoError(t, f.Store.Replay(t.Context(), dead, store.Actor{Name: "a"}))
	wantState(t, f.Store.Replay(t.Context(), dead, store.Actor{Name: "a"}), dead, message.StatusPending)
	w := f.worker()
	w.settle(succeed(w.only("d")))
	wantState(t, f.Store.Replay(t.Context(), dead, store.Actor{Name: "a"}), dead, message.StatusSucceeded)
}

// Reported as sidekiq/sidekiq#3436.
func replayTogether(t *testing.T, f *fixture) {
	const callers, messages = 8, 10
	for range messages {
		id := f.kill(keyed("k"))
		errs := make([]error, callers)
		at(callers, func(i int) { errs[i] = f.Store.Replay(t.Context(), id, store.Actor{Name: "a"}) })
		replayed := 0
		for _, err := range errs {
			if err == nil {
				replayed++
				continue
			}
			wantState(t, err, id, message.StatusPending)
		}
		require.Equal(t, 1, replayed)
		require.Equal(t, 1, f.get(id).ReplayCount)
		w := f.worker()
		w.settle(succeed(w.only("q")))
		f.expireKeys()
	}
}

// Reported as riverqueue/riverui#622 and timgit/pg-boss#535.
func replayConflict(t *testing.T, f *fixture) {
	dead := f.kill(keyed("k"))
	others := []int64{f.kill(store.NewMessage{}), f.kill(keyed("other"))}
	f.exec("DELETE FROM {{s}}keys WHERE message_id = ?", dead)
	holder := f.put(keyed("k"))
	err := f.Store.Replay(t.Context(), dead, store.Actor{Name: "a"})
	d, ok := errors.AsType[*message.DuplicateError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, holder, d.ID)
	require.Equal(t, "k", d.Key)
	require.Equal(t, "q", d.Queue)
	f.wantStatus(message.StatusDead, dead)
	require.True(t, f.letter(dead).ResolvedAt.IsZero(), "it stays dead and waits")
	f.wantHeld("k", holder)
	for _, id := range others {
		require.NoError(t, f.Store.Replay(t.Context(), id, store.Actor{Name: "a"}))
	}

	w := f.worker()
	for _, c := range w.takeAny("q", 10) {
		w.settle(succeed(c))
	}
	err = f.Store.Replay(t.Context(), dead, store.Actor{Name: "a"})
	d, ok = errors.AsType[*message.DuplicateError](err)
	require.True(t, ok, "within the window after success: %v", err)
	require.Equal(t, holder, d.ID)
	f.expireKeys()
	require.NoError(t, f.Store.Replay(t.Context(), dead, store.Actor{Name: "a"}), "the window is over")
	f.wantStatus(message.StatusPending, dead)
	f.wantHeld("k", dead)
}

func replayKeepsKey(t *testing.T, f *fixture) {
	id := f.kill(keyed("k"))
	require.NoError(t, f.Store.Replay(t.Context(), id, store.Actor{Name: "a"}))
	f.wantHeld("k", id)
	w := f.worker()
	w.settle(succeed(w.only("q")))
	f.wantHeld("k", id)
	f.expireKeys()
	f.put(keyed("k"))
}

func replayTakesKey(t *testing.T, f *fixture) {
	id := f.kill(keyed("k"))
	f.exec("DELETE FROM {{s}}keys")
	require.NoError(t, f.Store.Replay(t.Context(), id, store.Actor{Name: "a"}))
	m := keyed("k")
	_, err := f.Store.Insert(t.Context(), nil, &m)
	d, ok := errors.AsType[*message.DuplicateError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, id, d.ID)
}

func replayAgain(t *testing.T, f *fixture) {
	id := f.put(store.NewMessage{MaxRetries: 1})
	w := f.worker()
	for n := 1; n <= 5; n++ {
		w.settle(bury(w.only("q")))
		require.NoError(t, f.Store.Replay(t.Context(), id, store.Actor{Name: "a"}))
		m := f.get(id)
		require.Equal(t, n, m.ReplayCount)
		require.EqualValues(t, n, m.LeaseToken)
	}
	require.Len(t, f.attempts(id), 5)
	require.Len(t, f.letterIDs(store.LetterQuery{Limit: 10, Resolved: true}), 5)
}

func replayFences(t *testing.T, f *fixture) {
	id := f.put(store.NewMessage{})
	w := f.worker()
	old := w.only("q")
	w.settle(bury(old))
	require.NoError(t, f.Store.Replay(t.Context(), id, store.Actor{Name: "a"}))
	w.refused(succeed(old))
	w.refused(release(old, 0))
	c := w.only("q")
	require.EqualValues(t, 2, c.LeaseToken)
	w.refused(succeed(old))
	f.wantStatus(message.StatusProcessing, id)
	w.settle(succeed(c))
}
