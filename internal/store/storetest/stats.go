package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/internal/store"
)

var statsProperties = []property{
	{"every state of every queue is counted", statsCounts},
	{"the age of the oldest ready message", statsOldest},
	{"counts end at the cap", statsCapped},
	{"an empty database has none", statsEmpty},
}

func (f *fixture) stats() map[string]store.QueueStats {
	f.t.Helper()
	all, err := f.Store.Stats(f.t.Context())
	require.NoError(f.t, err)
	byQueue := make(map[string]store.QueueStats)
	for _, q := range all {
		require.NotContains(f.t, byQueue, q.Queue, "once")
		byQueue[q.Queue] = q
	}
	return byQueue
}

func statsCounts(t *testing.T, f *fixture) {
	f.puts(3, store.NewMessage{Queue: "a"})
	f.puts(2, store.NewMessage{Queue: "a", Priority: 5})
	f.puts(4, store.NewMessage{Queue: "a", Delay: time.Hour})
	due := f.puts(2, store.NewMessage{Queue: "a", Delay: time.Hour})
	f.due(due...)
	f.suspects(1, store.NewMessage{Queue: "s"})
	f.puts(3, store.NewMessage{Queue: "b", Delay: time.Hour})
	f.kill(store.NewMessage{Queue: "d"})
	resolved := f.kill(store.NewMessage{Queue: "d"})
	require.NoError(t, f.Store.Resolve(t.Context(), resolved, ann))
	f.puts(3, store.NewMessage{Queue: "p"})
	w := f.worker()
	got := w.take("p", 2)
	require.Len(t, got, 2)

	s := f.stats()
	for _, want := range []store.QueueStats{
		{Queue: "a", Ready: 7, Scheduled: 4},
		{Queue: "b", Scheduled: 3},
		{Queue: "d", Dead: 1},
		{Queue: "p", Ready: 1, Processing: 2},
		{Queue: "s", Ready: 1},
	} {
		got := s[want.Queue]
		require.GreaterOrEqual(t, got.OldestReady, time.Duration(0))
		got.OldestReady = 0
		require.Equal(t, want, got)
	}
	require.Zero(t, s["b"].OldestReady)
	w.settle(retry(got[0], time.Hour), succeed(got[1]))
	p := f.stats()["p"]
	require.Equal(t, 1, p.Ready)
	require.Equal(t, 1, p.Scheduled)
	require.Zero(t, p.Processing)
}

func statsOldest(t *testing.T, f *fixture) {
	f.puts(2, store.NewMessage{Queue: "a"})
	f.created(time.Hour)
	f.puts(2, store.NewMessage{Queue: "a"})
	due := f.put(store.NewMessage{Queue: "b", Delay: time.Hour})
	f.exec("UPDATE {{s}}messages SET due_at = "+f.Engine.Ago(2*time.Hour)+" WHERE id = ?", due)
	s := f.stats()
	require.InDelta(t, time.Hour, s["a"].OldestReady, float64(time.Minute))
	require.InDelta(t, 2*time.Hour, s["b"].OldestReady, float64(time.Minute), "since it was due")
}

// Reported as riverqueue/river#746 and bensheldon/good_job#1532.
func statsCapped(t *testing.T, f *fixture) {
	f.puts(store.StatsCap+50, store.NewMessage{Queue: "a"})
	f.puts(store.StatsCap+50, store.NewMessage{Queue: "a", Delay: time.Hour})
	s := f.stats()["a"]
	require.Equal(t, store.StatsCap, s.Ready)
	require.Equal(t, store.StatsCap, s.Scheduled)
}

func statsEmpty(t *testing.T, f *fixture) { require.Empty(t, f.stats()) }
