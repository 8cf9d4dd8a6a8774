package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/internal/store"
)

var auditProperties = []property{
	{"every operation tells who, from where and why", auditEverything},
	{"an operation that changes nothing leaves no trace", auditNothing},
	{"filters and pages", auditPages},
}

func (f *fixture) audit(q store.AuditQuery) []store.AuditEntry {
	f.t.Helper()
	q.Limit = max(q.Limit, 1)
	all, err := f.Store.Audit(f.t.Context(), q)
	require.NoError(f.t, err)
	require.LessOrEqual(f.t, len(all), q.Limit)
	return all
}

func auditEverything(t *testing.T, f *fixture) {
	ctx := t.Context()
	replayed, resolved, purged := f.kill(store.NewMessage{}), f.kill(store.NewMessage{}), f.kill(store.NewMessage{})
	require.NoError(t, f.Store.Replay(ctx, replayed, operator))
	require.NoError(t, f.Store.Cancel(ctx, replayed, operator))
	require.NoError(t, f.Store.Resolve(ctx, resolved, operator))
	n, err := f.Store.Purge(ctx, store.PurgeQuery{ID: purged, Limit: 10}, operator)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	f.pause(store.PauseRequest{Queue: "q"})
	require.True(t, f.resume("q"))

	all := f.audit(store.AuditQuery{Limit: 100})
	want := []store.AuditEntry{
		{Action: "resume", Queue: "q"},
		{Action: "pause", Queue: "q"},
		{Action: "purge", MessageID: purged},
		{Action: "resolve", Queue: "q", MessageID: resolved},
		{Action: "cancel", Queue: "q", MessageID: replayed},
		{Action: "replay", Queue: "q", MessageID: replayed},
	}
	require.Len(t, all, len(want))
	for i := range want {
		want[i].Actor, want[i].Origin, want[i].Reason, want[i].Affected = operator.Name, operator.Origin, operator.Reason, 1
		want[i].ID, want[i].At = all[i].ID, all[i].At
		require.Equal(t, want[i], all[i])
		require.WithinDuration(t, time.Now(), all[i].At, time.Hour)
		require.Equal(t, time.UTC, all[i].At.Location())
		if i > 0 {
			require.Less(t, all[i].ID, all[i-1].ID)
		}
	}
}

func auditNothing(t *testing.T, f *fixture) {
	id := f.put(store.NewMessage{})
	f.wantState(f.Store.Replay(t.Context(), id, operator), "pending")
	require.False(t, f.resume("q"))
	require.Empty(t, f.audit(store.AuditQuery{Limit: 10}))
	require.NoError(t, f.Store.Cancel(t.Context(), id, store.Actor{}))
	e := f.audit(store.AuditQuery{Limit: 10})
	require.Len(t, e, 1)
	require.Empty(t, e[0].Actor+e[0].Origin+e[0].Reason)
}

func auditPages(t *testing.T, f *fixture) {
	for range 3 {
		f.pause(store.PauseRequest{Queue: "a"})
		f.pause(store.PauseRequest{Queue: "b"})
	}
	id := f.put(store.NewMessage{Queue: "a"})
	require.NoError(t, f.Store.Cancel(t.Context(), id, operator))
	count := func(q store.AuditQuery) (n int) {
		for q.Limit = 2; ; {
			page := f.audit(q)
			n += len(page)
			if len(page) == 0 {
				return n
			}
			q.After = page[len(page)-1].ID
		}
	}
	require.Equal(t, 7, count(store.AuditQuery{}))
	require.Equal(t, 4, count(store.AuditQuery{Queue: "a"}))
	require.Equal(t, 3, count(store.AuditQuery{Queue: "b"}))
	require.Equal(t, 1, count(store.AuditQuery{MessageID: id}))
	require.Equal(t, 1, count(store.AuditQuery{Queue: "a", MessageID: id}))
	require.Zero(t, count(store.AuditQuery{Queue: "b", MessageID: id}))
}
