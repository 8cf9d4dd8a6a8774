package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// A claim can commit while its reply is lost: the worker that beats for it
// does not know that it holds anything.
var orphanProperties = []property{
	{"what the worker does not know is released, uncharged", orphanReleased},
	{"claims begun after the beat's UpTo stay", orphanUpTo},
	{"another worker's claims stay", orphanForeign},
	{"settled messages of an orphan stay settled", orphanSettled},
	{"an old orphan does not release what a known claim holds", orphanHeldAgain},
	{"a beat with thousands of orphans", orphanMany},
	{"no beat of a dead worker releases anything", orphanDead},
}

func orphanReleased(t *testing.T, f *fixture) {
	f.puts(6, store.NewMessage{})
	w := f.worker()
	known := w.take("q", 2)
	first := w.number
	orphans := w.take("q", 3)
	more := w.take("q", 1)
	last := w.number
	reply := w.beat(store.Beat{Known: []int64{first}, UpTo: last})
	require.Equal(t, 4, reply.Orphans)
	f.wantStatus(message.StatusProcessing, claimedIDs(known)...)
	for _, c := range append(orphans, more...) {
		m := f.get(c.ID)
		require.Equal(t, message.StatusPending, m.Status)
		require.Zero(t, m.RetryCount, "uncharged")
		require.Zero(t, m.WorkerLosses)
		require.Equal(t, c.LeaseToken, m.LeaseToken)
		w.refused(succeed(c))
	}
	f.wantHints(1, w)
	require.Zero(t, w.beat(store.Beat{Known: []int64{first}, UpTo: last}).Orphans, "once")
	again := w.take("q", 10)
	require.Equal(t, append(claimedIDs(orphans), more[0].ID), sorted(claimedIDs(again)), "at once")
	for _, c := range again {
		require.EqualValues(t, 2, c.LeaseToken)
	}
	for _, c := range known {
		w.settle(succeed(c))
	}
}

func orphanUpTo(t *testing.T, f *fixture) {
	f.puts(3, store.NewMessage{})
	w := f.worker()
	known, running := w.take("q", 1), w.take("q", 2)
	require.Zero(t, w.beat(store.Beat{Known: []int64{1}, UpTo: 1}).Orphans)
	f.wantStatus(message.StatusProcessing, claimedIDs(known)...)
	f.wantStatus(message.StatusProcessing, claimedIDs(running)...)
	w.settle(succeed(running[0]), succeed(running[1]))
}

func orphanForeign(t *testing.T, f *fixture) {
	f.puts(2, store.NewMessage{})
	w, other := f.worker(), f.worker()
	mine, foreign := w.take("q", 1), other.take("q", 1)
	require.Equal(t, 1, w.beat(store.Beat{UpTo: 1000}).Orphans)
	f.wantStatus(message.StatusPending, mine[0].ID)
	f.wantStatus(message.StatusProcessing, foreign[0].ID)
	other.settle(succeed(foreign[0]))
}

func orphanSettled(t *testing.T, f *fixture) {
	f.puts(4, store.NewMessage{})
	w := f.worker()
	got := w.take("q", 4)
	w.settle(succeed(got[0]), retry(got[1], time.Hour), bury(got[2]))
	require.Equal(t, 1, w.beat(store.Beat{UpTo: w.number}).Orphans)
	f.wantStatus(message.StatusSucceeded, got[0].ID)
	f.wantStatus(message.StatusDead, got[2].ID)
	m := f.get(got[1].ID)
	require.Equal(t, 1, m.RetryCount)
	require.WithinDuration(t, m.CreatedAt.Add(time.Hour), m.RetryAfter, time.Minute, "its delay stays")
	require.Equal(t, []int64{got[3].ID}, claimedIDs(w.take("q", 10)))
}

func orphanHeldAgain(t *testing.T, f *fixture) {
	id := f.put(store.NewMessage{})
	w := f.worker()
	require.Equal(t, id, w.only("q").ID) // its reply is lost
	f.overdue(id)
	require.Equal(t, []int64{id}, rescuedIDs(f.rescue()))
	f.due(id)
	c := w.only("q")
	require.Equal(t, id, c.ID)
	w.beat(store.Beat{Known: []int64{w.number}, UpTo: w.number})
	f.wantStatus(message.StatusProcessing, id)
	w.settle(succeed(c))
}

func orphanMany(t *testing.T, f *fixture) {
	f.puts(3_000, store.NewMessage{})
	w := f.worker()
	for range 3 {
		require.NotEmpty(t, w.claim(w.cursor("q"), 1_000, false).Messages)
	}
	held := f.count("SELECT count(*) FROM {{s}}messages WHERE status = 1")
	require.Equal(t, held, w.beat(store.Beat{UpTo: w.number}).Orphans)
	require.Zero(t, f.count("SELECT count(*) FROM {{s}}messages WHERE status = 1"))
	f.wantHints(0, w)
	require.Len(t, w.take("q", 5_000), 3_000)
}

func orphanDead(t *testing.T, f *fixture) {
	id := f.put(store.NewMessage{})
	w := f.worker()
	w.only("q")
	f.silence(w)
	_, err := w.pulse().Beat(t.Context(), store.Beat{WorkerID: w.id, UpTo: 10})
	require.ErrorIs(t, err, message.ErrLeaseLost)
	require.Equal(t, []int64{id}, rescuedIDs(f.rescue()), "charged as a loss")
	require.Equal(t, 1, f.get(id).RetryCount)
}
