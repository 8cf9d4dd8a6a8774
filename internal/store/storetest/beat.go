package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

var beatProperties = []property{
	{"ids of workers are never used again", beatIDs},
	{"a beat keeps the worker alive", beatAlive},
	{"a beat that comes too late is refused for ever", beatLate},
	{"death is one-way", beatDead},
	{"an unknown worker cannot beat", beatUnknown},
	{"after Unregister there is no beat", beatUnregistered},
	{"Unregister of one that is gone", unregisterTwice},
	{"newly dead workers are reported once", buryOnce},
	{"workers that have been dead for a day are forgotten", buryForgets},
	{"done claims are forgotten, others stay", beatDone},
	{"pulses beat at once and close twice", beatPulses},
}

func (w *worker) pulse() store.Pulse {
	w.t.Helper()
	p, err := w.store.Pulse(w.t.Context())
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = p.Close() })
	return p
}

// beat shows life with a pulse of its own.
func (w *worker) beat(b store.Beat) store.BeatReply {
	w.t.Helper()
	b.WorkerID = w.id
	reply, err := w.pulse().Beat(w.t.Context(), b)
	require.NoError(w.t, err)
	return reply
}

func (w *worker) wantDead() {
	w.t.Helper()
	_, err := w.pulse().Beat(w.t.Context(), store.Beat{WorkerID: w.id})
	require.ErrorIs(w.t, err, message.ErrLeaseLost)
}

func beatIDs(t *testing.T, f *fixture) {
	one := f.worker()
	two := f.worker()
	require.Greater(t, two.id, one.id)
	require.NoError(t, f.Store.Unregister(t.Context(), two.id))
	f.define("DELETE FROM {{s}}workers")
	require.Greater(t, f.worker().id, two.id)
}

func beatAlive(t *testing.T, f *fixture) {
	f.put(store.NewMessage{})
	w := f.worker()
	c := w.only("q")
	f.exec("UPDATE {{s}}workers SET beat_at = " + f.Engine.Ago(59*time.Minute))
	require.Zero(t, w.beat(store.Beat{Known: []int64{1}, UpTo: 1}).Orphans)
	late := f.count("SELECT count(*) FROM {{s}}workers WHERE beat_at < " + f.Engine.Ago(10*time.Minute))
	require.Zero(t, late, "the beat was written")
	require.Empty(t, f.rescue())
	w.settle(succeed(c))
}

func beatLate(t *testing.T, f *fixture) {
	w := f.worker()
	p := w.pulse()
	_, err := p.Beat(t.Context(), store.Beat{WorkerID: w.id})
	require.NoError(t, err)
	f.exec("UPDATE {{s}}workers SET beat_at = " + f.Engine.Ago(61*time.Minute))
	for range 2 {
		_, err = p.Beat(t.Context(), store.Beat{WorkerID: w.id})
		require.ErrorIs(t, err, message.ErrLeaseLost, "nobody buried it, but it is too late")
	}
	w.wantDead()
	again := f.worker()
	again.beat(store.Beat{})
}

func beatDead(t *testing.T, f *fixture) {
	w := f.worker()
	f.silence(w)
	dead, err := f.Store.BuryWorkers(t.Context())
	require.NoError(t, err)
	require.Equal(t, []int64{w.id}, dead)
	w.wantDead()
	f.exec("UPDATE {{s}}workers SET beat_at = " + f.Engine.Ago(0))
	w.wantDead()
	dead, err = f.Store.BuryWorkers(t.Context())
	require.NoError(t, err)
	require.Empty(t, dead)
}

func beatUnknown(t *testing.T, f *fixture) {
	w := f.worker()
	w.id = 1 << 40
	w.wantDead()
	w.id = 0
	w.wantDead()
}

func beatUnregistered(t *testing.T, f *fixture) {
	ids := f.puts(2, store.NewMessage{})
	w := f.worker()
	got := w.take("q", 2)
	w.settle(succeed(got[0]))
	require.NoError(t, f.Store.Unregister(t.Context(), w.id))
	w.wantDead()
	rescued := f.rescue()
	require.Equal(t, ids[1:], rescuedIDs(rescued), "what it still held")
	require.Equal(t, 1, f.get(ids[1]).WorkerLosses)
	w.refused(succeed(got[1]))
	f.wantStatus(message.StatusPending, ids[1])
}

func unregisterTwice(t *testing.T, f *fixture) {
	w := f.worker()
	require.NoError(t, f.Store.Unregister(t.Context(), w.id))
	require.NoError(t, f.Store.Unregister(t.Context(), w.id))
	require.NoError(t, f.Store.Unregister(t.Context(), 1<<40))
}

func buryOnce(t *testing.T, f *fixture) {
	live, late, later := f.worker(), f.worker(), f.worker()
	dead, err := f.Store.BuryWorkers(t.Context())
	require.NoError(t, err)
	require.Empty(t, dead)
	f.silence(late)
	f.silence(later)
	dead, err = f.Store.BuryWorkers(t.Context())
	require.NoError(t, err)
	require.ElementsMatch(t, []int64{late.id, later.id}, dead)
	dead, err = f.Store.BuryWorkers(t.Context())
	require.NoError(t, err)
	require.Empty(t, dead)
	live.beat(store.Beat{})
}

func buryForgets(t *testing.T, f *fixture) {
	old, recent, live := f.worker(), f.worker(), f.worker()
	f.silence(old)
	f.silence(recent)
	_, err := f.Store.BuryWorkers(t.Context())
	require.NoError(t, err)
	f.exec("UPDATE {{s}}workers SET dead_at = "+f.Engine.Ago(25*time.Hour)+" WHERE id = ?", old.id)
	_, err = f.Store.BuryWorkers(t.Context())
	require.NoError(t, err)
	require.Zero(t, f.count("SELECT count(*) FROM {{s}}workers WHERE id = ?", old.id))
	require.Equal(t, 1, f.count("SELECT count(*) FROM {{s}}workers WHERE id = ?", recent.id))
	live.beat(store.Beat{})
}

func beatDone(t *testing.T, f *fixture) {
	f.puts(3, store.NewMessage{})
	w := f.worker()
	for range 2 {
		for _, c := range w.take("q", 1) {
			w.settle(succeed(c))
		}
	}
	held := w.take("q", 1)
	reply := w.beat(store.Beat{Done: []int64{1, 2, 77}, Known: []int64{3}, UpTo: 3})
	require.Zero(t, reply.Orphans)
	f.wantHints(1, w)
	f.wantStatus(message.StatusProcessing, held[0].ID)
}

func beatPulses(t *testing.T, f *fixture) {
	one, two := f.worker(), f.worker()
	p, q := one.pulse(), two.pulse()
	for range 3 {
		_, err := p.Beat(t.Context(), store.Beat{WorkerID: one.id})
		require.NoError(t, err)
		_, err = q.Beat(t.Context(), store.Beat{WorkerID: two.id})
		require.NoError(t, err)
	}
	require.NoError(t, p.Close())
	_ = p.Close() // must not panic
	_, err := q.Beat(t.Context(), store.Beat{WorkerID: two.id})
	require.NoError(t, err)
	require.NoError(t, q.Close())
	one.beat(store.Beat{})
}
