package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

var reapProperties = []property{
	{"what lives is left alone", reapLive},
	{"a dead worker's messages come back, charged", reapDeadWorker},
	{"a passed deadline is a loss although the worker lives", reapTimeout},
	{"the last attempt lost ends dead", reapExhausted},
	{"a budget of one is never run again", reapBudgetOfOne},
	{"later losses and timeouts wait before the next attempt", reapWaits},
	{"a lost lease cannot be settled", reapFences},
	{"at most limit are rescued by a call", reapLimit},
	{"an extended deadline counts, not that of the claim", reapExtended},
	{"a row that names no worker is recovered", reapNoWorker},
	{"a row whose worker is forgotten is recovered", reapForgottenWorker},
	{"a row without a claims row is recovered by the sweep", reapNoHint},
	{"the sweep leaves the living alone", sweepLive},
	{"a row without a deadline ends with its worker", reapNoDeadline},
	{"every kind and queue is treated alike", reapEverything},
	{"a key in use elsewhere blocks nothing", reapKeyConflict},
}

func reapLive(t *testing.T, f *fixture) {
	ids := f.puts(10, store.NewMessage{})
	w := f.worker()
	got := w.take("q", 5)
	f.puts(3, store.NewMessage{Delay: time.Hour})
	for range 3 {
		require.Empty(t, f.rescue())
	}
	f.wantStatus(message.StatusProcessing, ids[:5]...)
	f.wantStatus(message.StatusPending, ids[5:]...)
	for _, c := range got {
		w.settle(succeed(c))
	}
	require.Empty(t, f.rescue())
}

func reapDeadWorker(t *testing.T, f *fixture) {
	ids := f.puts(3, store.NewMessage{})
	w, live := f.worker(), f.worker()
	lost := w.take("q", 2)
	kept := live.take("q", 1)
	f.silence(w)
	rescued := f.rescue()
	require.Equal(t, ids[:2], rescuedIDs(rescued))
	for _, r := range rescued {
		require.Equal(t, message.DecisionWorkerLost, r.Decision)
		require.False(t, r.Dead)
		require.Equal(t, "q", r.Queue)
		require.Equal(t, "k", r.Kind)
	}
	for _, c := range lost {
		m := f.get(c.ID)
		require.Equal(t, message.StatusPending, m.Status)
		require.Equal(t, 1, m.RetryCount, "charged")
		require.Equal(t, 1, m.WorkerLosses)
		require.Equal(t, c.LeaseToken, m.LeaseToken)
		require.NotEmpty(t, m.LastError)
		as := f.attempts(c.ID)
		require.Len(t, as, 1)
		require.Equal(t, message.OutcomeRetried, as[0].Outcome)
		require.True(t, as[0].Charged)
		require.Equal(t, 1, as[0].Number)
		require.Equal(t, c.LeaseToken, as[0].LeaseToken)
		require.Equal(t, w.id, as[0].WorkerID)
		require.NotEmpty(t, as[0].ErrorMessage)
	}
	require.Empty(t, f.rescue(), "once")
	again := live.takeAny("q", 1)
	require.Len(t, again, 1, "at once after the first loss")
	require.Equal(t, 2, again[0].Attempt)
	live.settle(succeed(kept[0]), succeed(again[0]))
}

func reapTimeout(t *testing.T, f *fixture) {
	ids := f.puts(2, store.NewMessage{})
	w := f.worker()
	got := w.take("q", 2)
	f.overdue(ids[0])
	rescued := f.rescue()
	require.Equal(t, ids[:1], rescuedIDs(rescued))
	require.Equal(t, message.DecisionTimedOut, rescued[0].Decision)
	require.False(t, rescued[0].Dead)
	m := f.get(ids[0])
	require.Equal(t, message.StatusPending, m.Status)
	require.Equal(t, 1, m.RetryCount)
	require.Zero(t, m.WorkerLosses, "no worker was lost")
	require.NotEmpty(t, m.LastError)
	w.refused(succeed(got[0]))
	w.settle(succeed(got[1]))
}

// vectorize-io/hindsight#2675: a crash was never charged, and one job killed
// its worker 54 times.
func reapExhausted(t *testing.T, f *fixture) {
	id := f.put(store.NewMessage{MaxRetries: 3, IdempotencyKey: "k", Digest: "d", KeyWindow: time.Hour, Payload: "p"})
	runs := 0
	for range 10 {
		w := f.worker()
		got := w.takeAny("q", 10)
		if len(got) == 0 {
			break
		}
		runs++
		require.Equal(t, runs, got[0].Attempt)
		f.silence(w)
		rescued := f.rescue()
		require.Len(t, rescued, 1)
		require.Equal(t, message.DecisionWorkerLost, rescued[0].Decision)
		require.Equal(t, runs == 3, rescued[0].Dead)
		if !rescued[0].Dead {
			f.due(id)
		}
	}
	require.Equal(t, 3, runs)
	l := f.letter(id)
	require.Equal(t, message.DecisionWorkerLost, l.Decision)
	require.Equal(t, 3, l.AttemptsUsed)
	require.Equal(t, 3, l.WorkerLosses)
	require.Equal(t, "p", l.Payload)
	require.NotEmpty(t, l.ErrorMessage)
	as := f.attempts(id)
	require.Len(t, as, 3)
	for i, a := range as {
		require.Equal(t, i+1, a.Number)
		require.True(t, a.Charged)
		require.NotEmpty(t, a.ErrorMessage)
	}
	require.Equal(t, message.OutcomeDead, as[2].Outcome)
	f.wantHeld("k", id)

	id = f.put(store.NewMessage{MaxRetries: 2})
	w := f.worker()
	for range 2 {
		require.Equal(t, id, w.only("q").ID)
		f.overdue(id)
		require.Equal(t, []int64{id}, rescuedIDs(f.rescue()))
		if f.get(id).Status == message.StatusPending {
			f.due(id)
		}
	}
	f.wantStatus(message.StatusDead, id)
	require.Equal(t, message.DecisionTimedOut, f.letter(id).Decision)
}

func reapBudgetOfOne(t *testing.T, f *fixture) {
	id := f.put(store.NewMessage{MaxRetries: 1})
	w := f.worker()
	w.only("q")
	f.silence(w)
	rescued := f.rescue()
	require.Len(t, rescued, 1)
	require.True(t, rescued[0].Dead)
	f.wantStatus(message.StatusDead, id)
	require.Empty(t, f.worker().takeAny("q", 10))
}

// Reported as graphile/worker#313.
func reapWaits(t *testing.T, f *fixture) {
	id := f.put(store.NewMessage{MaxRetries: 10})
	lose := func() {
		t.Helper()
		w := f.worker()
		require.Equal(t, id, w.only("q").ID)
		f.silence(w)
		require.Len(t, f.rescue(), 1)
	}
	lose()
	lose()
	require.Empty(t, f.worker().takeAny("q", 10))
	require.False(t, f.get(id).RetryAfter.IsZero())
	f.due(id)
	f.worker().only("q")
	f.overdue(id)
	require.Len(t, f.rescue(), 1)
	require.Empty(t, f.worker().takeAny("q", 10))
	f.due(id)
	require.Equal(t, 4, f.worker().only("q").Attempt)
}

func reapFences(t *testing.T, f *fixture) {
	ids := f.puts(2, store.NewMessage{})
	w := f.worker()
	got := w.take("q", 2)
	f.silence(w)
	require.Equal(t, ids, rescuedIDs(f.rescue()))
	before := f.get(ids[0])
	for _, s := range []store.Settlement{succeed(got[0]), bury(got[0]), release(got[0], 0), snooze(got[0], 0)} {
		w.refused(s)
	}
	require.ErrorIs(t, f.Store.SettleTx(t.Context(), f.DB, w.id, succeed(got[0])), message.ErrLeaseLost)
	_, err := f.Store.Extend(t.Context(), w.id, ids[0], got[0].LeaseToken, time.Hour)
	require.ErrorIs(t, err, message.ErrLeaseLost)
	require.Equal(t, before, f.get(ids[0]))

	other := f.worker()
	c := other.only("q")
	w.refused(succeed(got[0]))
	other.settle(succeed(c))
}

func reapLimit(t *testing.T, f *fixture) {
	f.puts(25, store.NewMessage{})
	w := f.worker()
	require.Len(t, w.take("q", 25), 25)
	f.silence(w)
	_, err := f.Store.BuryWorkers(t.Context())
	require.NoError(t, err)
	total := 0
	for range 3 {
		rescued, err := f.Store.Rescue(t.Context(), 10)
		require.NoError(t, err)
		require.LessOrEqual(t, len(rescued), 10)
		total += len(rescued)
	}
	require.Equal(t, 25, total)
	require.Empty(t, f.rescue())
	require.Zero(t, f.count("SELECT count(*) FROM {{s}}messages WHERE status = 1"))
}

func reapExtended(t *testing.T, f *fixture) {
	ids := f.puts(2, store.NewMessage{})
	w := f.worker()
	got := w.take("q", 2)
	f.overdue(ids...)
	_, err := f.Store.Extend(t.Context(), w.id, ids[1], got[1].LeaseToken, time.Hour)
	require.NoError(t, err)
	require.Equal(t, ids[:1], rescuedIDs(f.rescue()))
	require.Empty(t, f.rescue())
	f.wantStatus(message.StatusProcessing, ids[1])
	f.overdue(ids[1])
	rescued, err := f.Store.Rescue(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, ids[1:], rescuedIDs(rescued), "its claims row was kept")
}

// hibiken/asynq#1144: tasks that were active without a lease record hung for
// ever.
func reapNoWorker(t *testing.T, f *fixture) {
	id := f.put(store.NewMessage{})
	f.exec("UPDATE {{s}}messages SET status = 1 WHERE id = ?", id)
	rescued := f.rescue()
	require.Equal(t, []int64{id}, rescuedIDs(rescued))
	m := f.get(id)
	require.Equal(t, message.StatusPending, m.Status)
	require.Equal(t, 1, m.RetryCount)
	f.due(id)
	w := f.worker()
	w.settle(succeed(w.only("q")))
}

func reapForgottenWorker(t *testing.T, f *fixture) {
	id := f.put(store.NewMessage{})
	w := f.worker()
	w.only("q")
	f.exec("DELETE FROM {{s}}workers WHERE id = ?", w.id)
	require.Equal(t, []int64{id}, rescuedIDs(f.rescue()))
}

func reapNoHint(t *testing.T, f *fixture) {
	ids := f.puts(30, store.NewMessage{})
	w, live := f.worker(), f.worker()
	w.take("q", 10)
	late := claimedIDs(live.take("q", 10))
	f.puts(10, store.NewMessage{})
	f.loseHints()
	f.silence(w)
	f.overdue(late[:5]...)
	_, err := f.Store.BuryWorkers(t.Context())
	require.NoError(t, err)
	rescued, err := f.Store.Rescue(t.Context(), 100)
	require.NoError(t, err)
	rescued = append(rescued, f.sweep(4)...)
	require.Equal(t, append(ids[:10:10], late[:5]...), rescuedIDs(rescued))
	f.wantStatus(message.StatusProcessing, late[5:]...)
	require.Empty(t, f.sweep(4))
}

func sweepLive(t *testing.T, f *fixture) {
	ids := f.puts(20, store.NewMessage{})
	w := f.worker()
	got := w.take("q", 10)
	f.loseHints()
	for _, limit := range []int{1, 3, 1000} {
		require.Empty(t, f.sweep(limit))
	}
	f.wantStatus(message.StatusProcessing, ids[:10]...)
	for _, c := range got {
		w.settle(succeed(c))
	}
}

func reapNoDeadline(t *testing.T, f *fixture) {
	id := f.put(store.NewMessage{Timeout: -1})
	w := f.worker()
	w.only("q")
	f.loseHints()
	require.Empty(t, f.rescue())
	f.silence(w)
	require.Equal(t, []int64{id}, rescuedIDs(f.rescue()))
}

// riverqueue/river#1105: the rescuer discarded kinds that it did not know.
func reapEverything(t *testing.T, f *fixture) {
	w := f.worker()
	var ids []int64
	for _, queue := range []string{"a", "b", "c"} {
		for _, kind := range []string{"x", "y"} {
			ids = append(ids, f.put(store.NewMessage{Queue: queue, Kind: kind}))
		}
		require.Len(t, w.take(queue, 2), 2)
	}
	f.silence(w)
	require.Equal(t, ids, rescuedIDs(f.rescue()))
	f.wantStatus(message.StatusPending, ids...)
}

// timgit/pg-boss#492: a row whose key was taken meanwhile made the whole
// maintenance fail, each time.
func reapKeyConflict(t *testing.T, f *fixture) {
	lost := f.put(keyed("k"))
	others := f.puts(50, store.NewMessage{})
	w := f.worker()
	require.Len(t, w.take("q", 51), 51)
	f.exec("DELETE FROM {{s}}keys")
	holder := f.put(keyed("k"))
	f.silence(w)
	require.Equal(t, append([]int64{lost}, others...), rescuedIDs(f.rescue()))
	f.wantStatus(message.StatusPending, others...)
	f.wantStatus(message.StatusPending, lost, holder)
	f.wantHeld("k", holder)
}
