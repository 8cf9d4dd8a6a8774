package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/internal/store"
)

// A message that lost a worker before runs alone, so that a payload which
// kills processes does not take its neighbours along.
var suspectProperties = []property{
	{"suspects are handed out only when asked for", suspectAsked},
	{"suspects come one by one", suspectAlone},
	{"many suspects are all handed out, one after the other", suspectMany},
	{"a suspect is not starved by others", suspectNotStarved},
	{"suspects keep kinds and delays", suspectKinds},
	{"a timeout makes no suspect", suspectTimeout},
	{"a suspect that fails or is replayed stays one", suspectStays},
}

// suspects makes n messages each of which lost a worker.
func (f *fixture) suspects(n int, m store.NewMessage) []int64 {
	f.t.Helper()
	m.MaxRetries = 10
	ids := f.puts(n, m)
	w := f.worker()
	require.Len(f.t, w.take(filled(m).Queue, n), n)
	f.silence(w)
	require.Equal(f.t, ids, rescuedIDs(f.rescue()))
	return ids
}

func suspectAsked(t *testing.T, f *fixture) {
	ids := f.suspects(3, store.NewMessage{})
	plain := f.puts(3, store.NewMessage{})
	w := f.worker()
	c := w.cursor("q")
	require.Equal(t, plain, claimedIDs(w.drain(c, 10, false)))
	c.Wake()
	require.Empty(t, w.drain(c, 10, false))
	c.Wake()
	got := w.drain(c, 10, true)
	require.NotEmpty(t, got)
	for _, m := range got {
		require.Contains(t, ids, m.ID)
		require.Equal(t, 1, m.WorkerLosses)
		require.Equal(t, 2, m.Attempt)
	}
}

func suspectAlone(t *testing.T, f *fixture) {
	ids := f.suspects(3, store.NewMessage{})
	plain := f.puts(20, store.NewMessage{})
	w := f.worker()
	c := w.cursor("q")
	var suspects, others []int64
	for range 100 {
		b := w.claim(c, 10, true)
		for _, m := range b.Messages {
			if m.WorkerLosses == 0 {
				others = append(others, m.ID)
				continue
			}
			require.Len(t, b.Messages, 1, "alone")
			suspects = append(suspects, m.ID)
		}
		if len(suspects) == len(ids) && len(others) == len(plain) {
			break
		}
		if !b.Again {
			c.Wake()
		}
	}
	require.Equal(t, ids, sorted(suspects))
	require.Equal(t, plain, sorted(others))
}

// Those that wait for their turn must not fall out of sight meanwhile.
func suspectMany(t *testing.T, f *fixture) {
	ids := f.suspects(60, store.NewMessage{})
	w := f.worker()
	c := w.cursor("q")
	var got []int64
	for len(got) < len(ids) {
		f.put(store.NewMessage{})
		c.Wake()
		before := len(got)
		for _, m := range w.drain(c, 10, true) {
			if m.WorkerLosses > 0 {
				got = append(got, m.ID)
			}
			w.settle(succeed(m))
		}
		require.Greater(t, len(got), before, "of %d", len(ids))
	}
	require.Equal(t, ids, sorted(got))
}

func suspectNotStarved(t *testing.T, f *fixture) {
	id := f.suspects(1, store.NewMessage{})[0]
	w := f.worker()
	c := w.cursor("q")
	for range 200 {
		f.puts(3, store.NewMessage{Priority: -9})
		c.Wake()
		if slices.Contains(claimedIDs(w.claim(c, 2, true).Messages), id) {
			return
		}
	}
	require.Fail(t, "passed over 200 times")
}

func suspectKinds(t *testing.T, f *fixture) {
	ids := f.suspects(2, store.NewMessage{Kind: "x"})
	w := f.worker()
	require.Empty(t, w.drain(w.store.Cursor(w.spec("q", "y")), 10, true))
	require.Empty(t, w.takeAny("other", 10))
	f.exec("UPDATE {{s}}messages SET due_at = "+f.Engine.Ago(-time.Hour)+" WHERE id = ?", ids[0])
	got := w.drain(w.store.Cursor(w.spec("q", "y", "x")), 10, true)
	require.Equal(t, ids[1:], claimedIDs(got))
	b := w.claim(w.cursor("q"), 10, true)
	require.Empty(t, b.Messages)
	require.InDelta(t, time.Hour, b.NextDue, float64(5*time.Minute), "a worker may sleep until then")
}

func suspectTimeout(t *testing.T, f *fixture) {
	ids := f.puts(2, store.NewMessage{})
	w := f.worker()
	w.take("q", 2)
	f.overdue(ids...)
	require.Len(t, f.rescue(), 2)
	f.due(ids...)
	require.Equal(t, ids, sorted(claimedIDs(w.take("q", 10))))
}

func suspectStays(t *testing.T, f *fixture) {
	id := f.suspects(1, store.NewMessage{})[0]
	w := f.worker()
	for _, verb := range []func(store.Claimed) store.Settlement{
		func(c store.Claimed) store.Settlement { return retry(c, 0) },
		func(c store.Claimed) store.Settlement { return release(c, 0) },
		func(c store.Claimed) store.Settlement { return snooze(c, 0) },
		bury,
	} {
		require.Empty(t, w.take("q", 10))
		c := w.only("q")
		require.Equal(t, 1, c.WorkerLosses)
		w.settle(verb(c))
	}
	require.NoError(t, f.Store.Replay(t.Context(), id, store.Actor{Name: "a"}))
	w.settle(succeed(w.only("q")))
}
