package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/internal/store"
)

var orderProperties = []property{
	{"first in, first out", orderFIFO},
	{"lower priority values first, then ids", orderPriority},
	{"all nineteen priorities", orderAllPriorities},
	{"the least urgent is not starved", orderNoStarvation},
	{"due ones come before those that never waited", orderDueFirst},
	{"due ones are ordered by priority and id", orderDue},
	{"a lower priority that arrives later is not passed over", orderUrgentLater},
	{"messages that keep failing do not hold up the others", orderFailing},
}

func orderFIFO(t *testing.T, f *fixture) {
	var ids []int64
	for range 20 {
		ids = append(ids, f.put(store.NewMessage{}))
		ids = append(ids, f.puts(3, store.NewMessage{})...)
	}
	w := f.worker()
	c := w.cursor("q")
	var got []int64
	for len(got) < len(ids) {
		b := w.claim(c, 7, false)
		require.NotEmpty(t, b.Messages)
		got = append(got, claimedIDs(b.Messages)...)
	}
	require.Equal(t, ids, got)
}

func orderPriority(t *testing.T, f *fixture) {
	low := f.puts(2, store.NewMessage{Priority: 5})
	mid := f.puts(3, store.NewMessage{})
	top := f.puts(3, store.NewMessage{Priority: -9})
	more := f.puts(3, store.NewMessage{})
	want := slices.Concat(top, mid, more, low)
	w := f.worker()
	c := w.cursor("q")
	var got []int64
	for len(got) < len(want) {
		b := w.claim(c, 5, false)
		require.True(t, b.Again || len(b.Messages) > 0, "%d of %d", len(got), len(want))
		got = append(got, claimedIDs(b.Messages)...)
	}
	require.Equal(t, want, got)
}

func orderAllPriorities(t *testing.T, f *fixture) {
	var want []int64
	for p := 9; p >= -9; p-- {
		want = append(want, f.put(store.NewMessage{Priority: p}))
	}
	slices.Reverse(want)
	got := claimedIDs(f.worker().take("q", 100))
	require.Equal(t, want[:5], got[:5])
	require.ElementsMatch(t, want, got)
}

// Strict priority starved low queues for ever: mergestat/mergestat#318.
// Reported as hibiken/asynq#314 and hibiken/asynq#907.
func orderNoStarvation(t *testing.T, f *fixture) {
	low := f.put(store.NewMessage{Priority: 9})
	delayed := f.put(store.NewMessage{Priority: 9, Delay: time.Hour})
	f.due(delayed)
	w := f.worker()
	c := w.cursor("q")
	waiting := []int64{low, delayed}
	for range 200 {
		f.puts(3, store.NewMessage{Priority: -9})
		c.Wake()
		for _, m := range w.claim(c, 2, false).Messages {
			waiting = slices.DeleteFunc(waiting, func(id int64) bool { return id == m.ID })
		}
		if len(waiting) == 0 {
			return
		}
	}
	require.Empty(t, waiting, "passed over 200 times")
}

func orderDueFirst(t *testing.T, f *fixture) {
	ready := f.puts(3, store.NewMessage{})
	delayed := f.puts(2, store.NewMessage{Delay: time.Hour})
	f.due(delayed...)
	w := f.worker()
	require.Equal(t, delayed, claimedIDs(w.take("q", 2)))
	require.Equal(t, ready, claimedIDs(w.take("q", 10)))
}

func orderDue(t *testing.T, f *fixture) {
	low := f.puts(2, store.NewMessage{Delay: time.Hour, Priority: 3})
	top := f.puts(2, store.NewMessage{Delay: time.Hour, Priority: -3})
	mid := f.puts(2, store.NewMessage{Delay: time.Hour})
	f.due(slices.Concat(mid, low, top)...)
	require.Equal(t, slices.Concat(top, mid, low), claimedIDs(f.worker().take("q", 100)))
}

func orderUrgentLater(t *testing.T, f *fixture) {
	w := f.worker()
	c := w.cursor("q")
	f.puts(30, store.NewMessage{Priority: 2})
	require.Len(t, w.claim(c, 10, false).Messages, 10)
	urgent := f.puts(2, store.NewMessage{Priority: -1})
	c.Wake()
	require.Equal(t, urgent, claimedIDs(w.claim(c, 2, false).Messages))
	again := f.puts(2, store.NewMessage{Priority: -1})
	c.Wake()
	require.Equal(t, again, claimedIDs(w.claim(c, 2, false).Messages))
	require.Len(t, w.drain(c, 100, false), 20)
}

// PR graphile/worker#313: what came back kept its old place, went to the
// front and blocked everything newer.
func orderFailing(t *testing.T, f *fixture) {
	bad := f.puts(8, store.NewMessage{MaxRetries: 100})
	good := f.puts(20, store.NewMessage{})
	w := f.worker()
	c := w.cursor("q")
	var done []int64
	for round := range 40 {
		got := w.claim(c, 4, false).Messages
		for _, m := range got {
			if slices.Contains(bad, m.ID) {
				w.settle(retry(m, time.Hour))
				continue
			}
			w.settle(succeed(m))
			done = append(done, m.ID)
		}
		if len(done) == len(good) {
			break
		}
		require.Less(t, round, 39)
	}
	require.Equal(t, good, done)
}
