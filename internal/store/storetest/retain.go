package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// rails/solid_queue, riverqueue/river#575: one big delete never finished, and
// one age for all took dead jobs before anyone had looked.
var retainProperties = []property{
	{"nothing is deleted by default", retainZero},
	{"old archived messages go, others stay", retainArchive},
	{"resolved and waiting letters have ages of their own", retainLetters},
	{"letters go in steps", retainSteps},
	{"pending and processing messages never go", retainLive},
	{"keys whose window is over go", retainKeys},
	{"a deleted letter frees its key", retainFreesKey},
	{"attempts stay with their message", retainAttempts},
	{"two at once", retainTogether},
	{"Prepare may be called at any time", retainPrepare},
}

// retain goes on until nothing is left.
func (f *fixture) retain(r store.Retention) (sum store.Retained) {
	f.t.Helper()
	if r.Batch == 0 {
		r.Batch = 100
	}
	for range 100 {
		done, more, err := f.Store.Retain(f.t.Context(), r)
		require.NoError(f.t, err)
		sum.Archived += done.Archived
		sum.Partitions += done.Partitions
		sum.Letters += done.Letters
		sum.Keys += done.Keys
		sum.Attempts += done.Attempts
		if !more {
			return sum
		}
	}
	require.Fail(f.t, "there is always more")
	return sum
}

// archived stores a message that succeeded so many days ago.
func (f *fixture) archived(days int, m store.NewMessage) int64 {
	f.t.Helper()
	id := f.put(m)
	w := f.worker()
	w.settle(succeed(w.only(filled(m).Queue)))
	if days > 0 {
		for _, statement := range f.Engine.Age(id, days) {
			f.define(statement)
		}
	}
	return id
}

const days = 24 * time.Hour

func retainZero(t *testing.T, f *fixture) {
	old := f.archived(400, store.NewMessage{})
	dead, resolved := f.kill(store.NewMessage{}), f.kill(store.NewMessage{})
	require.NoError(t, f.Store.Resolve(t.Context(), resolved, ann))
	f.exec("UPDATE {{s}}dead_letters SET dead_at = " + f.Engine.Ago(400*days))
	f.exec("UPDATE {{s}}dead_letters SET resolved_at = " + f.Engine.Ago(400*days) + " WHERE resolved_at IS NOT NULL")
	for _, keep := range []time.Duration{0, -1, -days} {
		require.False(t, f.retain(store.Retention{Archive: keep, Resolved: keep, Dead: keep}).Any())
	}
	f.wantStatus(message.StatusSucceeded, old)
	f.wantStatus(message.StatusDead, dead, resolved)
}

func retainArchive(t *testing.T, f *fixture) {
	ancient, old := f.archived(30, store.NewMessage{}), f.archived(9, store.NewMessage{})
	recent, now := f.archived(4, store.NewMessage{}), f.archived(0, store.NewMessage{})
	dead := f.kill(store.NewMessage{})
	f.exec("UPDATE {{s}}dead_letters SET dead_at = " + f.Engine.Ago(400*days))
	sum := f.retain(store.Retention{Archive: 7 * days})
	if f.Engine.Partitioned {
		require.Equal(t, 2, sum.Partitions)
	} else {
		require.Equal(t, 2, sum.Archived)
	}
	f.gone(ancient, old)
	f.wantStatus(message.StatusSucceeded, recent, now)
	f.wantStatus(message.StatusDead, dead)
	require.False(t, f.retain(store.Retention{Archive: 7 * days}).Any())
	later := f.archived(0, store.NewMessage{})
	f.wantStatus(message.StatusSucceeded, later)
}

// Reported as oban-bg/oban#1084.
func retainLetters(t *testing.T, f *fixture) {
	old, recent := f.kill(store.NewMessage{}), f.kill(store.NewMessage{})
	oldResolved, recentResolved := f.kill(store.NewMessage{}), f.kill(store.NewMessage{})
	for _, id := range []int64{oldResolved, recentResolved} {
		require.NoError(t, f.Store.Resolve(t.Context(), id, ann))
	}
	f.exec("UPDATE {{s}}dead_letters SET dead_at = "+f.Engine.Ago(10*days)+" WHERE message_id <> ?", recent)
	f.exec("UPDATE {{s}}dead_letters SET resolved_at = "+f.Engine.Ago(5*days)+" WHERE message_id = ?", oldResolved)
	require.Zero(t, f.retain(store.Retention{Resolved: 6 * days}).Letters, "counted from the resolution")
	require.Equal(t, 1, f.retain(store.Retention{Resolved: 4 * days}).Letters)
	f.gone(oldResolved)
	f.wantStatus(message.StatusDead, old, recent, recentResolved)
	require.Zero(t, f.retain(store.Retention{Dead: 11 * days}).Letters)
	require.Equal(t, 1, f.retain(store.Retention{Dead: 9 * days}).Letters)
	f.gone(old)
	f.wantStatus(message.StatusDead, recent, recentResolved)
	require.Positive(t, f.count("SELECT count(*) FROM {{s}}audit_log WHERE action = 'purge'"), "a dead letter never goes silently")
}

// Reported as riverqueue/river#575.
func retainSteps(t *testing.T, f *fixture) {
	f.puts(25, store.NewMessage{})
	w := f.worker()
	for _, c := range w.take("q", 25) {
		w.settle(bury(c))
	}
	f.exec("UPDATE {{s}}dead_letters SET dead_at = " + f.Engine.Ago(10*days))
	r := store.Retention{Dead: days, Batch: 10}
	done, more, err := f.Store.Retain(t.Context(), r)
	require.NoError(t, err)
	require.LessOrEqual(t, done.Letters, 10)
	require.Positive(t, done.Letters)
	require.True(t, more)
	require.Equal(t, 25, done.Letters+f.retain(r).Letters)
	require.Zero(t, f.total())
}

// Reported as rails/solid_queue#609.
func retainLive(t *testing.T, f *fixture) {
	ids := f.puts(4, store.NewMessage{})
	w := f.worker()
	w.settle(retry(w.take("q", 1)[0], time.Hour))
	w.take("q", 1)
	f.created(4000 * days)
	f.exec("UPDATE {{s}}messages SET updated_at = " + f.Engine.Ago(4000*days))
	f.exec("UPDATE {{s}}attempts SET finished_at = " + f.Engine.Ago(4000*days))
	require.False(t, f.retain(store.Retention{Archive: time.Millisecond, Resolved: time.Millisecond, Dead: time.Millisecond}).Any())
	require.Equal(t, len(ids), f.total())
	require.Len(t, f.attempts(ids[0]), 1)
}

func retainKeys(t *testing.T, f *fixture) {
	f.put(keyed("done"))
	w := f.worker()
	w.settle(succeed(w.only("q")))
	held := f.put(keyed("held"))
	dead := f.kill(store.NewMessage{Queue: "d", IdempotencyKey: "dead", Digest: "d", KeyWindow: time.Hour})
	require.Zero(t, f.retain(store.Retention{}).Keys)
	f.exec("UPDATE {{s}}keys SET expires_at = " + f.Engine.Ago(time.Second) + " WHERE key = 'done'")
	require.Equal(t, 1, f.retain(store.Retention{}).Keys)
	require.Equal(t, 2, f.count("SELECT count(*) FROM {{s}}keys"))
	f.wantHeld("held", held)
	f.wantStatus(message.StatusDead, dead)
}

func retainFreesKey(t *testing.T, f *fixture) {
	f.kill(keyed("k"))
	f.exec("UPDATE {{s}}dead_letters SET dead_at = " + f.Engine.Ago(10*days))
	require.Equal(t, 1, f.retain(store.Retention{Dead: days}).Letters)
	w := f.worker()
	f.put(keyed("k"))
	w.settle(succeed(w.only("q")))

	id := f.kill(keyed("r"))
	require.NoError(t, f.Store.Replay(t.Context(), id, ann))
	f.exec("UPDATE {{s}}dead_letters SET resolved_at = " + f.Engine.Ago(10*days))
	require.Equal(t, 1, f.retain(store.Retention{Resolved: days}).Letters)
	f.wantStatus(message.StatusPending, id)
	f.wantHeld("r", id)
}

func retainAttempts(t *testing.T, f *fixture) {
	w := f.worker()
	failOnce := func(queue string) int64 {
		t.Helper()
		id := f.put(store.NewMessage{Queue: queue})
		w.settle(retry(w.only(queue), 0))
		return id
	}
	old := failOnce("a")
	w.settle(succeed(w.only("a")))
	recent := failOnce("b")
	w.settle(succeed(w.only("b")))
	pending := failOnce("c")
	dead := failOnce("d")
	w.settle(bury(w.only("d")))
	for _, statement := range f.Engine.Age(old, 30) {
		f.define(statement)
	}
	f.exec("UPDATE {{s}}attempts SET finished_at = " + f.Engine.Ago(31*days))
	require.Len(t, f.attempts(old), 1)
	f.retain(store.Retention{Archive: 7 * days})
	f.retain(store.Retention{Archive: 7 * days})
	f.gone(old)
	for _, id := range []int64{recent, pending} {
		require.Len(t, f.attempts(id), 1)
	}
	require.Len(t, f.attempts(dead), 2)
}

// Reported as timgit/pg-boss#282.
func retainTogether(t *testing.T, f *fixture) {
	f.archived(30, store.NewMessage{})
	f.puts(200, store.NewMessage{})
	w := f.worker()
	for _, c := range w.take("q", 200) {
		w.settle(bury(c))
	}
	f.exec("UPDATE {{s}}dead_letters SET dead_at = " + f.Engine.Ago(10*days))
	f.archived(0, store.NewMessage{})
	r := store.Retention{Archive: 7 * days, Dead: days, Batch: 20}
	errs := make([]error, 4)
	letters := make([]int, 4)
	at(4, func(i int) {
		for range 100 {
			done, more, err := f.Store.Retain(t.Context(), r)
			letters[i] += done.Letters
			if errs[i] = err; err != nil || !more {
				return
			}
		}
	})
	for _, err := range errs {
		require.NoError(t, err)
	}
	rest := f.retain(r)
	require.Equal(t, 200, letters[0]+letters[1]+letters[2]+letters[3]+rest.Letters)
	require.Equal(t, 1, f.total())
}

func retainPrepare(t *testing.T, f *fixture) {
	errs := make([]error, 4)
	at(4, func(i int) { errs[i] = f.Store.Prepare(t.Context()) })
	for _, err := range errs {
		require.NoError(t, err)
	}
	f.archived(0, store.NewMessage{})
	require.NoError(t, f.Store.Prepare(t.Context()))
}
