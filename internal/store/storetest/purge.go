package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

var purgeProperties = []property{
	{"one message's letters go with its attempts", purgeOne},
	{"waiting or resolved letters of one queue or all", purgeQueue},
	{"only older ones", purgeOlder},
	{"at most limit in a call, oldest first", purgeLimit},
	{"every purge is counted in the audit log", purgeAudited},
	{"the letter of a replayed message goes without harming it", purgeReplayed},
	{"purge takes nothing but letters", purgeOthers},
}

var ann = store.Actor{Name: "ann", Reason: "cleaning up"}

func (f *fixture) purge(q store.PurgeQuery) int {
	f.t.Helper()
	if q.Limit == 0 {
		q.Limit = 1000
	}
	n, err := f.Store.Purge(f.t.Context(), q, ann)
	require.NoError(f.t, err)
	return n
}

// gone checks that messages are nowhere.
func (f *fixture) gone(ids ...int64) {
	f.t.Helper()
	for _, id := range ids {
		_, err := f.Store.Get(f.t.Context(), id)
		require.ErrorIs(f.t, err, message.ErrNotFound)
		_, err = f.Store.Letter(f.t.Context(), id)
		require.ErrorIs(f.t, err, message.ErrNotFound)
		require.Zero(f.t, f.count("SELECT count(*) FROM {{s}}attempts WHERE message_id = ?", id))
	}
}

func purgeOne(t *testing.T, f *fixture) {
	one, other := f.kill(store.NewMessage{}), f.kill(store.NewMessage{})
	require.Equal(t, 1, f.purge(store.PurgeQuery{ID: one}))
	f.gone(one)
	f.wantStatus(message.StatusDead, other)
	require.Len(t, f.attempts(other), 1)
	require.Zero(t, f.purge(store.PurgeQuery{ID: one}), "a second time")
	require.Zero(t, f.purge(store.PurgeQuery{ID: 1 << 40}))

	require.NoError(t, f.Store.Resolve(t.Context(), other, ann))
	require.Equal(t, 1, f.purge(store.PurgeQuery{ID: other}), "resolved or not")
	f.gone(other)
}

func purgeQueue(t *testing.T, f *fixture) {
	a, b := f.kill(store.NewMessage{Queue: "a"}), f.kill(store.NewMessage{Queue: "b"})
	resolvedA, resolvedB := f.kill(store.NewMessage{Queue: "a"}), f.kill(store.NewMessage{Queue: "b"})
	require.NoError(t, f.Store.Resolve(t.Context(), resolvedA, ann))
	require.NoError(t, f.Store.Resolve(t.Context(), resolvedB, ann))
	require.Zero(t, f.purge(store.PurgeQuery{Queue: "nobody"}))
	require.Equal(t, 1, f.purge(store.PurgeQuery{Queue: "a", Resolved: true}))
	f.gone(resolvedA)
	f.wantStatus(message.StatusDead, a, b, resolvedB)
	require.Equal(t, 2, f.purge(store.PurgeQuery{}))
	f.gone(a, b)
	require.Equal(t, 1, f.purge(store.PurgeQuery{Resolved: true}))
	f.gone(resolvedB)
}

func purgeOlder(t *testing.T, f *fixture) {
	old, recent := f.kill(store.NewMessage{}), f.kill(store.NewMessage{})
	oldResolved, recentResolved := f.kill(store.NewMessage{}), f.kill(store.NewMessage{})
	f.exec("UPDATE {{s}}dead_letters SET dead_at = "+f.Engine.Ago(48*time.Hour)+" WHERE message_id <> ?", recent)
	for _, id := range []int64{oldResolved, recentResolved} {
		require.NoError(t, f.Store.Resolve(t.Context(), id, ann))
	}
	f.exec("UPDATE {{s}}dead_letters SET resolved_at = "+f.Engine.Ago(25*time.Hour)+" WHERE message_id = ?", oldResolved)
	require.Equal(t, 1, f.purge(store.PurgeQuery{OlderThan: 24 * time.Hour}))
	f.gone(old)
	f.wantStatus(message.StatusDead, recent, oldResolved, recentResolved)
	require.Equal(t, 1, f.purge(store.PurgeQuery{OlderThan: 24 * time.Hour, Resolved: true}))
	f.gone(oldResolved)
	f.wantStatus(message.StatusDead, recent, recentResolved)
}

func purgeLimit(t *testing.T, f *fixture) {
	var ids []int64
	for range 5 {
		ids = append(ids, f.kill(store.NewMessage{}))
	}
	require.Equal(t, 2, f.purge(store.PurgeQuery{Limit: 2}))
	f.gone(ids[:2]...)
	require.Equal(t, 2, f.purge(store.PurgeQuery{Limit: 2}))
	require.Equal(t, 1, f.purge(store.PurgeQuery{Limit: 2}))
	require.Zero(t, f.purge(store.PurgeQuery{Limit: 2}))
	f.gone(ids...)
}

func purgeAudited(t *testing.T, f *fixture) {
	for range 3 {
		f.kill(store.NewMessage{})
	}
	require.Equal(t, 3, f.purge(store.PurgeQuery{Queue: "q"}))
	require.Equal(t, 1, f.count(`SELECT count(*) FROM {{s}}audit_log
		WHERE action = 'purge' AND actor = 'ann' AND reason = 'cleaning up' AND queue = 'q' AND affected = 3`))
	id := f.kill(store.NewMessage{})
	f.purge(store.PurgeQuery{ID: id})
	require.Equal(t, 1, f.count("SELECT affected FROM {{s}}audit_log WHERE action = 'purge' AND message_id = ?", id))
}

func purgeReplayed(t *testing.T, f *fixture) {
	m := keyed("k")
	m.MaxRetries = 3
	id := f.kill(m)
	require.NoError(t, f.Store.Replay(t.Context(), id, ann))
	require.Equal(t, 1, f.purge(store.PurgeQuery{ID: id}))
	f.wantStatus(message.StatusPending, id)
	require.Len(t, f.attempts(id), 1, "the message lives, and so does its history")
	f.wantHeld("k", id)

	w := f.worker()
	w.settle(bury(w.only("q")))
	require.NoError(t, f.Store.Replay(t.Context(), id, ann))
	w.settle(succeed(w.only("q")))
	require.Equal(t, 1, f.purge(store.PurgeQuery{Resolved: true}))
	f.wantStatus(message.StatusSucceeded, id)
	f.wantHeld("k", id)
	require.Len(t, f.attempts(id), 2)
}

func purgeOthers(t *testing.T, f *fixture) {
	states := f.inEachState()
	require.Zero(t, f.purge(store.PurgeQuery{}))
	require.Zero(t, f.purge(store.PurgeQuery{Resolved: true}))
	for status, id := range states {
		require.Zero(t, f.purge(store.PurgeQuery{ID: id}))
		f.wantStatus(status, id)
	}
	require.Equal(t, 3, f.total())
	require.Zero(t, f.count("SELECT count(*) FROM {{s}}audit_log WHERE action = 'purge' AND affected > 0"))
	require.False(t, slices.Contains(f.letterIDs(store.LetterQuery{Limit: 10}), states[message.StatusPending]))
}
