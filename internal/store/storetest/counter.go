package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// oban-bg/oban#532 and laravel/framework#24636: a row with an impossible
// counter made every claim of its queue fail.
var counterProperties = []property{
	{"a row that has used up its budget does not stop the queue", counterSpent},
	{"a row beyond its budget does not stop the reaper", counterSpentLost},
	{"counters at their maximum are settled, reaped and replayed", counterMaximum},
	{"a failure of an old attempt leaves the dead message dead", counterOldAttempt},
}

func counterSpent(t *testing.T, f *fixture) {
	odd := f.put(store.NewMessage{MaxRetries: 3})
	beyond := f.put(store.NewMessage{MaxRetries: 3})
	f.exec("UPDATE {{s}}messages SET retry_count = max_retries WHERE id = ?", odd)
	f.exec("UPDATE {{s}}messages SET retry_count = max_retries + 5 WHERE id = ?", beyond)
	healthy := f.puts(10, store.NewMessage{})
	w := f.worker()
	var done []int64
	for _, c := range w.takeAny("q", 100) {
		if slices.Contains(healthy, c.ID) {
			w.settle(succeed(c))
			done = append(done, c.ID)
			continue
		}
		w.settle(retry(c, 0))
	}
	require.Equal(t, healthy, done)
	require.Empty(t, w.takeAny("q", 100), "not handed out twice")
	for _, id := range []int64{odd, beyond} {
		if f.get(id).Status == message.StatusDead {
			require.NotEmpty(t, f.letter(id).Decision)
		}
		require.NotEqual(t, message.StatusProcessing, f.get(id).Status)
	}
}

func counterSpentLost(t *testing.T, f *fixture) {
	odd := f.put(store.NewMessage{MaxRetries: 3})
	others := f.puts(10, store.NewMessage{})
	w := f.worker()
	require.Len(t, w.take("q", 100), 11)
	f.exec("UPDATE {{s}}messages SET retry_count = 9 WHERE id = ?", odd)
	f.silence(w)
	require.Equal(t, append([]int64{odd}, others...), rescuedIDs(f.rescue()))
	f.wantStatus(message.StatusDead, odd)
	f.wantStatus(message.StatusPending, others...)
}

func counterMaximum(t *testing.T, f *fixture) {
	const smallest, largest = 32767, 2147483647
	full := func() int64 {
		id := f.put(store.NewMessage{Queue: "odd"})
		f.exec(`UPDATE {{s}}messages SET losses = ?, snoozes = ?, replay_count = ?, retry_count = ?, max_retries = ? WHERE id = ?`,
			smallest, smallest, smallest, largest-1, largest, id)
		f.exec("UPDATE {{s}}messages SET due_at = "+f.Engine.Ago(time.Minute)+" WHERE id = ?", id)
		return id
	}
	w := f.worker()
	healthy := func() {
		t.Helper()
		f.put(store.NewMessage{})
		w.settle(succeed(w.only("q")))
	}
	id := full()
	w.settle(snooze(w.only("odd"), 0))
	require.GreaterOrEqual(t, f.get(id).Snoozes, smallest)
	healthy()
	w.settle(release(w.only("odd"), 0))
	healthy()
	w.settle(retry(w.only("odd"), 0))
	f.wantStatus(message.StatusDead, id)
	healthy()
	require.NoError(t, f.Store.Replay(t.Context(), id, store.Actor{Name: "a"}))
	require.GreaterOrEqual(t, f.get(id).ReplayCount, smallest)
	w.settle(succeed(w.only("odd")))

	id = full()
	other := f.put(store.NewMessage{})
	dying := f.worker()
	dying.only("odd")
	dying.only("q")
	f.silence(dying)
	require.Equal(t, []int64{id, other}, rescuedIDs(f.rescue()))
	f.wantStatus(message.StatusDead, id)
	w.settle(succeed(w.only("q")))

	id = full()
	f.exec("UPDATE {{s}}messages SET retry_count = ? WHERE id = ?", largest, id)
	w.settle(retry(w.only("odd"), 0))
	f.wantStatus(message.StatusDead, id)
	id = full()
	w.settle(bury(w.only("odd")))
	f.wantStatus(message.StatusDead, id)
}

func counterOldAttempt(t *testing.T, f *fixture) {
	id := f.put(store.NewMessage{MaxRetries: 2})
	first := f.worker()
	old := first.only("q")
	f.overdue(id)
	require.Len(t, f.rescue(), 1)
	f.due(id)
	second := f.worker()
	second.settle(retry(second.only("q"), 0))
	before := f.letter(id)
	first.refused(succeed(old))
	first.refused(bury(old))
	first.try(retry(old, 0)) // as the reaper has charged it
	f.wantStatus(message.StatusDead, id)
	require.Equal(t, before, f.letter(id))
	require.Empty(t, second.takeAny("q", 10))
}
