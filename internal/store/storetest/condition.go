package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/internal/store"
)

var conditionProperties = []property{
	{"an empty database has no tick and no trouble", conditionEmpty},
	{"a tick is remembered", conditionTick},
	{"overdue messages are counted, whoever holds them", conditionOverdue},
	{"kinds that no live worker of the queue handles", conditionUnhandled},
	{"living workers with what they serve, newest first", conditionWorkers},
}

func (f *fixture) condition() store.Condition {
	f.t.Helper()
	c, err := f.Store.Condition(f.t.Context())
	require.NoError(f.t, err)
	return c
}

func conditionEmpty(t *testing.T, f *fixture) {
	c := f.condition()
	require.Negative(t, c.LastTick)
	require.Zero(t, c.Overdue)
	require.Empty(t, c.Unhandled)
	require.True(t, c.SynchronousCommit)
	require.GreaterOrEqual(t, c.OldestTransaction, time.Duration(0))
	if f.Engine.OneWriter {
		require.Zero(t, c.MaxConnections+c.Connections)
	} else {
		require.Positive(t, c.MaxConnections)
		require.Positive(t, c.Connections)
	}
}

func conditionTick(t *testing.T, f *fixture) {
	for range 3 {
		require.NoError(t, f.Store.Ticked(t.Context()))
	}
	require.Less(t, f.condition().LastTick, time.Minute)
	require.GreaterOrEqual(t, f.condition().LastTick, time.Duration(0))
	require.Equal(t, 1, f.count("SELECT count(*) FROM {{s}}reaper"))
	f.exec("UPDATE {{s}}reaper SET ticked_at = " + f.Engine.Ago(2*time.Hour))
	require.InDelta(t, 2*time.Hour, f.condition().LastTick, float64(time.Hour))
	require.NoError(t, f.Store.Ticked(t.Context()))
	require.Less(t, f.condition().LastTick, time.Minute)
}

func conditionOverdue(t *testing.T, f *fixture) {
	f.puts(5, store.NewMessage{})
	held := f.worker().take("q", 2)
	f.lend(3)
	require.Zero(t, f.condition().Overdue)
	f.overdue(held[0].ID)
	require.Equal(t, 1, f.condition().Overdue)
	f.overdue(1, 2, 3, 4, 5)
	require.Equal(t, 5, f.condition().Overdue)
	require.Len(t, f.rescue(), 5)
	require.Zero(t, f.condition().Overdue)
}

func conditionUnhandled(t *testing.T, f *fixture) {
	f.put(store.NewMessage{Kind: "k"})
	f.put(store.NewMessage{Kind: "x"})
	f.put(store.NewMessage{Kind: "later", Delay: time.Hour})
	due := f.put(store.NewMessage{Kind: "due", Delay: time.Hour})
	f.due(due)
	f.put(store.NewMessage{Queue: "none", Kind: "k"})
	f.put(store.NewMessage{Queue: "any", Kind: "k"})
	w := f.worker() // k of q, and of an odd one
	_, err := f.Store.Register(t.Context(), store.WorkerInfo{Name: "all", Queues: []string{"any"}, Lease: time.Hour})
	require.NoError(t, err)
	require.Equal(t, []store.Unhandled{{Queue: "none", Kind: "k"}, {Queue: "q", Kind: "due"}, {Queue: "q", Kind: "x"}},
		f.condition().Unhandled)
	f.silence(w)
	require.Equal(t, []store.Unhandled{
		{Queue: "none", Kind: "k"}, {Queue: "q", Kind: "due"}, {Queue: "q", Kind: "k"}, {Queue: "q", Kind: "x"},
	}, f.condition().Unhandled, "a dead worker handles nothing")
	for i := range 30 {
		f.put(store.NewMessage{Queue: fmt.Sprintf("none%02d", i)})
	}
	require.Len(t, f.condition().Unhandled, 20)
}

func conditionWorkers(t *testing.T, f *fixture) {
	list := func(limit int) []store.WorkerState {
		all, err := f.Store.Workers(t.Context(), limit)
		require.NoError(t, err)
		return all
	}
	require.Empty(t, list(10))
	one, two, three := f.worker(), f.worker(), f.worker()
	all := list(10)
	require.Len(t, all, 3)
	require.Equal(t, []int64{three.id, two.id, one.id}, []int64{all[0].ID, all[1].ID, all[2].ID})
	require.Equal(t, store.WorkerInfo{
		Name: "tester", Host: "host", Version: "v1", PID: 7, Queues: []string{"q", `odd "q", \ {}`}, Kinds: []string{"k"},
		Concurrency: 10, Lease: time.Hour,
	}, all[0].WorkerInfo)
	require.Equal(t, time.UTC, all[0].BeatAt.Location())
	require.WithinDuration(t, all[0].StartedAt, all[0].BeatAt, time.Minute)
	require.Len(t, list(2), 2)
	f.silence(two)
	require.NoError(t, f.Store.Unregister(t.Context(), three.id))
	all = list(10)
	require.Len(t, all, 1)
	require.Equal(t, one.id, all[0].ID)
}
