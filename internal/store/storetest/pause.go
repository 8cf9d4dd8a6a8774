package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

var pauseProperties = []property{
	{"a paused queue is not claimed from, others are", pauseClaims},
	{"another process notices a pause and its end", pauseElsewhere},
	{"a pause ends by itself", pauseEnds},
	{"what is held goes on while the queue is paused", pauseHeld},
	{"a repeat replaces reason and end", pauseAgain},
	{"a pause without an end, of a queue that never was", pauseUnknown},
	{"odd names are paused as well", pauseNames},
}

var operator = store.Actor{Name: "ann", Origin: "192.0.2.7", Reason: "the bank is down"}

func (f *fixture) pause(r store.PauseRequest) {
	f.t.Helper()
	require.NoError(f.t, f.Store.Pause(f.t.Context(), r, operator))
}

func (f *fixture) pauses() []store.Pause {
	f.t.Helper()
	all, err := f.Store.Pauses(f.t.Context())
	require.NoError(f.t, err)
	return all
}

func (f *fixture) resume(queue string) bool {
	f.t.Helper()
	was, err := f.Store.Resume(f.t.Context(), queue, operator)
	require.NoError(f.t, err)
	return was
}

func pauseClaims(t *testing.T, f *fixture) {
	ids := f.puts(3, store.NewMessage{})
	other := f.put(store.NewMessage{Queue: "other"})
	w := f.worker()
	c := w.cursor("q")
	require.Len(t, w.claim(c, 1, false).Messages, 1)
	f.pause(store.PauseRequest{Queue: "q"})
	for range 3 {
		c.Wake()
		b := w.claim(c, 10, true)
		require.Empty(t, b.Messages)
		require.False(t, b.Again)
		require.GreaterOrEqual(t, b.NextDue, time.Duration(0), "the worker must look again")
		require.LessOrEqual(t, b.NextDue, store.PauseEvery)
		require.Empty(t, f.lend(10))
	}
	require.Equal(t, other, w.only("other").ID)
	require.True(t, f.resume("q"))
	require.False(t, f.resume("q"))
	c.Wake()
	require.Equal(t, ids[1:2], claimedIDs(w.claim(c, 1, false).Messages))
	require.Equal(t, ids[2:], messageIDs(f.lend(10)))
}

func pauseElsewhere(t *testing.T, f *fixture) {
	there := f.Reopen(t)
	w := register(t, there)
	c := w.cursor("q")
	claim := func() int {
		f.put(store.NewMessage{})
		c.Wake()
		return len(w.claim(c, 1, false).Messages)
	}
	require.Equal(t, 1, claim())
	f.pause(store.PauseRequest{Queue: "q"})
	require.Eventually(t, func() bool { return claim() == 0 }, patience, 20*time.Millisecond)
	require.True(t, f.resume("q"))
	require.Eventually(t, func() bool { return claim() == 1 }, patience, 20*time.Millisecond)
}

func pauseEnds(t *testing.T, f *fixture) {
	f.put(store.NewMessage{})
	f.pause(store.PauseRequest{Queue: "q", For: time.Hour})
	f.pause(store.PauseRequest{Queue: "p", Until: time.Now().Add(time.Hour)})
	all := f.pauses()
	require.Len(t, all, 2)
	for _, p := range all {
		require.WithinDuration(t, p.Since.Add(time.Hour), p.Until, 5*time.Minute)
	}
	require.Empty(t, f.lend(1))
	f.exec("UPDATE {{s}}queues SET paused_until = " + f.Engine.Ago(time.Second))
	require.Empty(t, f.pauses())
	require.False(t, f.resume("p"), "it is over")
	require.Eventually(t, func() bool { return len(f.lend(1)) == 1 }, patience, 20*time.Millisecond)

	f.pause(store.PauseRequest{Queue: "q", Until: time.Now().Add(-time.Hour)})
	require.Empty(t, f.pauses(), "an end in the past pauses nothing")
	f.pause(store.PauseRequest{Queue: "q", For: time.Millisecond})
	require.Eventually(t, func() bool { return len(f.pauses()) == 0 }, patience, 10*time.Millisecond)
}

func pauseHeld(t *testing.T, f *fixture) {
	f.puts(3, store.NewMessage{})
	w := f.worker()
	held, lent := w.take("q", 2), f.lendOne()
	f.pause(store.PauseRequest{Queue: "q"})
	w.settle(succeed(held[0]), retry(held[1], 0))
	f.told(remotely(lent, store.Succeed))
	id := f.put(store.NewMessage{})
	f.wantStatus(message.StatusPending, held[1].ID, id)
	require.Empty(t, w.takeAny("q", 10))
}

func pauseAgain(t *testing.T, f *fixture) {
	f.pause(store.PauseRequest{Queue: "q", For: time.Hour})
	first := f.pauses()[0]
	require.Equal(t, "ann", first.Actor)
	require.Equal(t, "the bank is down", first.Reason)
	require.NoError(t, f.Store.Pause(t.Context(), store.PauseRequest{Queue: "q"}, store.Actor{Name: "bob"}))
	all := f.pauses()
	require.Equal(t, []store.Pause{{Queue: "q", Since: first.Since, Actor: "bob"}}, all)
}

func pauseUnknown(t *testing.T, f *fixture) {
	require.Empty(t, f.pauses())
	f.pause(store.PauseRequest{Queue: "new"})
	id := f.put(store.NewMessage{Queue: "new"})
	w := f.worker()
	require.Empty(t, w.take("new", 1))
	require.True(t, f.pauses()[0].Until.IsZero())
	require.True(t, f.resume("new"))
	require.Equal(t, id, w.only("new").ID)
}

func pauseNames(t *testing.T, f *fixture) {
	names := []string{`"a" {b}, \c`, "ab", "ä'; --", "日本"}
	for _, name := range []string{names[3], names[1], names[0], names[2]} {
		f.pause(store.PauseRequest{Queue: name})
	}
	var got []string
	for _, p := range f.pauses() {
		got = append(got, p.Queue)
	}
	require.Equal(t, names, got, "in the order of bytes")
	for _, name := range names {
		f.put(store.NewMessage{Queue: name})
		require.Empty(t, f.worker().take(name, 1))
		require.True(t, f.resume(name))
	}
}
