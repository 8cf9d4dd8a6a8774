package storetest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/internal/store"
)

var gaugeProperties = []property{
	{"a duty has one holder until it ends or leaves", dutyHeld},
	{"of many that want a duty one gets it", dutyRace},
	{"an empty database has no gauges", gaugeEmpty},
	{"gauges agree with the counts of queues", gaugeCounts},
	{"the age of the dead is a percentile of those that wait", gaugeDeadAge},
	{"the attempts are a percentile of those that failed", gaugeAttempts},
	{"a fingerprint was first seen with its oldest waiting letter", gaugeFirstSeen},
	{"the newest fingerprints are shown", gaugeNewest},
	{"live workers are counted by queue", gaugeWorkers},
	{"what is held past its deadline is counted", gaugeOverdue},
	{"a transaction that holds vacuum back is seen", gaugeTransaction},
}

func dutyHeld(t *testing.T, f *fixture) {
	ctx := t.Context()
	take := func(duty, holder string, d time.Duration) bool {
		taken, err := f.Store.TakeDuty(ctx, duty, holder, d)
		require.NoError(t, err)
		return taken
	}
	require.True(t, take("gauge", "ann", time.Hour))
	require.False(t, take("gauge", "ben", time.Hour), "it is ann's")
	require.True(t, take("gauge", "ann", time.Hour), "a repeat prolongs")
	require.True(t, take("other", "ben", time.Hour), "another duty is free")
	require.NoError(t, f.Store.LeaveDuty(ctx, "gauge", "ben"), "who does not hold it changes nothing")
	require.False(t, take("gauge", "ben", time.Hour))
	require.NoError(t, f.Store.LeaveDuty(ctx, "gauge", "ann"))
	require.True(t, take("gauge", "ben", time.Hour))
	f.exec("UPDATE {{s}}duties SET until = "+f.Engine.Ago(time.Second)+" WHERE name = ?", "gauge")
	require.True(t, take("gauge", "ann", time.Hour), "it has ended")
	require.False(t, take("gauge", "ben", time.Hour))
}

func dutyRace(t *testing.T, f *fixture) {
	var got atomic.Int64
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			taken, err := f.Store.TakeDuty(t.Context(), "gauge", fmt.Sprint(i), time.Hour)
			if err != nil {
				t.Error(err)
			}
			if taken {
				got.Add(1)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 1, got.Load())
}

func (f *fixture) gauges() (store.Gauges, map[string]store.QueueGauges) {
	f.t.Helper()
	g, err := f.Store.Gauge(f.t.Context())
	require.NoError(f.t, err)
	byQueue := make(map[string]store.QueueGauges)
	for _, q := range g.Queues {
		require.NotContains(f.t, byQueue, q.Queue, "once")
		byQueue[q.Queue] = q
	}
	return g, byQueue
}

func gaugeEmpty(t *testing.T, f *fixture) {
	g, _ := f.gauges()
	require.Empty(t, g.Queues)
	require.Empty(t, g.Fingerprints)
}

func gaugeCounts(t *testing.T, f *fixture) {
	f.puts(3, store.NewMessage{Queue: "a"})
	f.puts(2, store.NewMessage{Queue: "a", Delay: time.Hour})
	f.kill(store.NewMessage{Queue: "d"})
	f.created(time.Hour)
	_, q := f.gauges()
	for name, want := range f.stats() {
		require.InDelta(t, want.OldestReady, q[name].OldestReady, float64(time.Minute))
		want.OldestReady = q[name].OldestReady
		require.Equal(t, want, q[name].QueueStats)
	}
	require.Equal(t, 3, q["a"].Ready)
	require.Equal(t, 1, q["d"].Dead)
}

func gaugeDeadAge(t *testing.T, f *fixture) {
	const n = 40
	ids := make([]int64, n)
	for i := range ids {
		ids[i] = f.kill(store.NewMessage{Queue: "d"})
		f.exec("UPDATE {{s}}dead_letters SET dead_at = "+f.Engine.Ago(time.Duration(n-i)*time.Hour)+" WHERE message_id = ?", ids[i])
	}
	_, q := f.gauges()
	require.InDelta(t, 38*time.Hour, q["d"].DeadAgeP95, float64(time.Minute), "two of forty are older")
	for _, id := range ids[:20] {
		require.NoError(t, f.Store.Resolve(t.Context(), id, ann))
	}
	_, q = f.gauges()
	require.InDelta(t, 19*time.Hour, q["d"].DeadAgeP95, float64(time.Minute), "of those that wait")
	for _, id := range ids[21:] {
		require.NoError(t, f.Store.Resolve(t.Context(), id, ann))
	}
	_, q = f.gauges()
	require.InDelta(t, 20*time.Hour, q["d"].DeadAgeP95, float64(time.Minute), "one alone")
}

func gaugeAttempts(t *testing.T, f *fixture) {
	w := f.worker()
	f.puts(30, store.NewMessage{Queue: "a", MaxRetries: 9})
	f.puts(5, store.NewMessage{Queue: "a", Delay: time.Hour})
	got := w.take("a", 30)
	require.Len(t, got, 30)
	for _, m := range got {
		w.settle(retry(m, time.Hour))
	}
	_, q := f.gauges()
	require.Equal(t, 1, q["a"].AttemptsP95, "what never failed does not count")
	for _, m := range got[:2] {
		f.exec("UPDATE {{s}}messages SET retry_count = 7 WHERE id = ?", m.ID)
	}
	_, q = f.gauges()
	require.Equal(t, 7, q["a"].AttemptsP95, "two of thirty used seven")
	f.exec("UPDATE {{s}}messages SET retry_count = 1 WHERE id = ?", got[0].ID)
	_, q = f.gauges()
	require.Equal(t, 1, q["a"].AttemptsP95)
	f.put(store.NewMessage{Queue: "b"})
	_, q = f.gauges()
	require.Zero(t, q["b"].AttemptsP95)
}

// died gives a letter a fingerprint and an age.
func (f *fixture) died(id int64, fingerprint string, ago time.Duration) {
	f.t.Helper()
	f.exec("UPDATE {{s}}dead_letters SET fingerprint = ?, dead_at = "+f.Engine.Ago(ago)+" WHERE message_id = ?", fingerprint, id)
}

func gaugeFirstSeen(t *testing.T, f *fixture) {
	old := f.kill(store.NewMessage{Queue: "a", Kind: "x"})
	f.died(old, "f1", 3*time.Hour)
	f.died(f.kill(store.NewMessage{Queue: "a", Kind: "x"}), "f1", 2*time.Hour)
	f.died(f.kill(store.NewMessage{Queue: "b", Kind: "y"}), "f0", time.Hour)
	g, _ := f.gauges()
	require.Len(t, g.Fingerprints, 2)
	require.Equal(t, "f0", g.Fingerprints[0].Fingerprint, "newest first")
	require.Equal(t, "b", g.Fingerprints[0].Queue)
	require.Equal(t, "y", g.Fingerprints[0].Kind)
	require.Equal(t, "test.Error", g.Fingerprints[0].ErrorClass)
	require.Equal(t, "f1", g.Fingerprints[1].Fingerprint)
	require.WithinDuration(t, time.Now().Add(-3*time.Hour), g.Fingerprints[1].FirstSeen, 10*time.Minute)
	require.NoError(t, f.Store.Resolve(t.Context(), old, ann))
	g, _ = f.gauges()
	require.WithinDuration(t, time.Now().Add(-2*time.Hour), g.Fingerprints[1].FirstSeen, 10*time.Minute)
}

func gaugeNewest(t *testing.T, f *fixture) {
	const n = store.GaugeFingerprints + 5
	w := f.worker()
	f.puts(n, store.NewMessage{Queue: "a"})
	var batch []store.Settlement
	for i, m := range w.take("a", n) {
		s := bury(m)
		s.Failure.Fingerprint = fmt.Sprintf("f%02d", n-i)
		batch = append(batch, s)
		w.settle(s)
	}
	require.Len(t, batch, n)
	g, _ := f.gauges()
	require.Len(t, g.Fingerprints, store.GaugeFingerprints)
	for _, s := range g.Fingerprints {
		require.LessOrEqual(t, s.Fingerprint, fmt.Sprintf("f%02d", n-5), "the oldest are left out")
	}
}

func gaugeWorkers(t *testing.T, f *fixture) {
	ctx := t.Context()
	var ids []int64
	for _, queues := range [][]string{{"a"}, {"a", "b"}, {"b", "b", "ü\"{}"}} {
		id, err := f.Store.Register(ctx, store.WorkerInfo{Name: "w", Queues: queues, Lease: time.Hour})
		require.NoError(t, err)
		ids = append(ids, id)
	}
	_, q := f.gauges()
	require.Equal(t, 2, q["a"].Workers)
	require.Equal(t, 2, q["b"].Workers, "each once")
	require.Equal(t, 1, q["ü\"{}"].Workers)
	require.NoError(t, f.Store.Unregister(ctx, ids[0]))
	f.exec("UPDATE {{s}}workers SET beat_at = "+f.Engine.Ago(10*time.Hour)+" WHERE id = ?", ids[1])
	_, q = f.gauges()
	require.Zero(t, q["a"].Workers)
	require.Equal(t, 1, q["b"].Workers, "who does not beat does not live")
}

func gaugeOverdue(t *testing.T, f *fixture) {
	f.puts(5, store.NewMessage{Queue: "a"})
	w := f.worker()
	got := w.take("a", 4)
	require.Len(t, got, 4)
	_, q := f.gauges()
	require.Zero(t, q["a"].Overdue)
	f.overdue(got[0].ID, got[1].ID, got[2].ID)
	w.settle(succeed(got[2]))
	_, q = f.gauges()
	require.Equal(t, 2, q["a"].Overdue)
	require.Len(t, f.rescue(), 2)
	_, q = f.gauges()
	require.Zero(t, q["a"].Overdue)
}

func gaugeTransaction(t *testing.T, f *fixture) {
	g, _ := f.gauges()
	if g.OldestTransaction < 0 {
		require.True(t, f.Engine.OneWriter, "every other engine has such a thing")
		return
	}
	tx, err := f.DB.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	_, err = tx.ExecContext(t.Context(), f.text("CREATE TABLE {{s}}held (id integer)"))
	require.NoError(t, err)
	g, _ = f.gauges()
	require.Positive(t, g.OldestTransaction)
}
