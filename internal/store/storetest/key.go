package storetest

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// hibiken/asynq#1055: a finished task with a fixed id blocked every later one.
var keyProperties = []property{
	{"a key is held while pending, processing and dead", keyHeld},
	{"a key is held for its window after success, then taken over", keyWindow},
	{"a window of nothing and of a millisecond ends", keyShortWindow},
	{"another use of the key is a mismatch", keyMismatch},
	{"an empty key is none", keyEmpty},
	{"another queue has keys of its own", keyPerQueue},
	{"resolve, cancel and purge free the key", keyFreed},
	{"a key taken over is not freed by its former holder", keyTakenOver},
	{"100 at once store one message", keyRace},
	{"refused enqueues leave nothing behind", keyRefusedLeavesNothing},
}

func (f *fixture) wantHeld(key string, id int64) {
	f.t.Helper()
	m := keyed(key)
	_, err := f.Store.Insert(f.t.Context(), nil, &m)
	d := wantDuplicate(f.t, err, key, id)
	require.Equal(f.t, "q", d.Queue)
	require.Zero(f.t, d.Index)
	require.False(f.t, d.Mismatch)
}

func keyHeld(t *testing.T, f *fixture) {
	const key = "order-42 ✓ '"
	id := f.put(keyed(key))
	f.wantHeld(key, id)
	w := f.worker()
	c := w.only("q")
	f.wantHeld(key, id)
	w.settle(retry(c, 0))
	f.wantHeld(key, id)
	w.settle(bury(w.only("q")))
	f.wantHeld(key, id)
	require.NoError(t, f.Store.Replay(t.Context(), id, store.Actor{Name: "a"}))
	f.wantHeld(key, id)
	require.Equal(t, key, f.get(id).IdempotencyKey)
	w.settle(succeed(w.only("q")))
	f.wantHeld(key, id)
	require.Equal(t, 1, f.total())
}

func (f *fixture) expireKeys() {
	f.t.Helper()
	f.exec("UPDATE {{s}}keys SET expires_at = " + f.Engine.Ago(time.Second))
}

func keyWindow(t *testing.T, f *fixture) {
	first := f.put(keyed("k"))
	w := f.worker()
	w.settle(succeed(w.only("q")))
	f.wantHeld("k", first)
	f.expireKeys()
	second := f.put(keyed("k"))
	require.Greater(t, second, first)
	f.wantHeld("k", second)
	require.Equal(t, "k", f.get(first).IdempotencyKey)

	f.wantStatus(message.StatusPending, second)
	w.settle(succeed(w.only("q")))
	f.expireKeys()
	ins, err := f.Store.InsertMany(t.Context(), nil, []store.NewMessage{keyed("k"), keyed("other")})
	require.NoError(t, err, "taken over in a batch too")
	f.wantHeld("k", ins[0].ID)
}

func keyShortWindow(t *testing.T, f *fixture) {
	for _, window := range []time.Duration{0, time.Millisecond} {
		m := keyed(window.String())
		m.KeyWindow = window
		f.put(m)
		w := f.worker()
		w.settle(succeed(w.only("q")))
		require.Eventually(t, func() bool {
			_, err := f.Store.Insert(t.Context(), nil, &m)
			if err != nil {
				_, ok := errors.AsType[*message.DuplicateError](err)
				require.True(t, ok, "%v", err)
			}
			return err == nil
		}, patience, time.Millisecond)
		w.settle(succeed(w.only("q")))
	}
}

func keyMismatch(t *testing.T, f *fixture) {
	id := f.put(keyed("k"))
	m := keyed("k")
	m.Kind, m.Digest = "another", "another"
	_, err := f.Store.Insert(t.Context(), nil, &m)
	require.True(t, wantDuplicate(t, err, "k", id).Mismatch)
	w := f.worker()
	w.settle(succeed(w.only("q")))
	_, err = f.Store.Insert(t.Context(), nil, &m)
	require.True(t, wantDuplicate(t, err, "k", id).Mismatch)
	f.expireKeys()
	second := f.put(m)
	m = keyed("k")
	_, err = f.Store.Insert(t.Context(), nil, &m)
	require.True(t, wantDuplicate(t, err, "k", second).Mismatch, "the new holder's use counts")
}

func keyEmpty(t *testing.T, f *fixture) {
	first, second := f.put(keyed("")), f.put(keyed(""))
	require.NotEqual(t, first, second)
	f.puts(2, keyed(""))
	require.Equal(t, 4, f.total())
}

func keyPerQueue(t *testing.T, f *fixture) {
	m := keyed("k")
	first := f.put(m)
	m.Queue = "other"
	second := f.put(m)
	_, err := f.Store.Insert(t.Context(), nil, &m)
	require.Equal(t, "other", wantDuplicate(t, err, "k", second).Queue)
	f.wantHeld("k", first)
}

func keyFreed(t *testing.T, f *fixture) {
	ctx, by := t.Context(), store.Actor{Name: "a", Reason: "r"}
	resolved := f.kill(keyed("resolve"))
	require.NoError(t, f.Store.Resolve(ctx, resolved, by))
	purged := f.kill(keyed("purge"))
	n, err := f.Store.Purge(ctx, store.PurgeQuery{ID: purged, Limit: 10}, by)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	cancelled := f.put(keyed("cancel"))
	require.NoError(t, f.Store.Cancel(ctx, cancelled, by))
	for _, key := range []string{"resolve", "purge", "cancel"} {
		id := f.put(keyed(key))
		f.wantHeld(key, id)
	}
}

// A key that changed hands belongs to its new holder, whatever becomes of the
// letter of the former one.
func keyTakenOver(t *testing.T, f *fixture) {
	ctx, by := t.Context(), store.Actor{Name: "a"}
	for _, end := range []func(id int64) error{
		func(id int64) error { return f.Store.Resolve(ctx, id, by) },
		func(id int64) error {
			_, err := f.Store.Purge(ctx, store.PurgeQuery{ID: id, Limit: 10}, by)
			return err
		},
		func(int64) error {
			f.exec("UPDATE {{s}}dead_letters SET dead_at = " + f.Engine.Ago(48*time.Hour))
			_, _, err := f.Store.Retain(ctx, store.Retention{Dead: 24 * time.Hour, Batch: 100})
			return err
		},
	} {
		former := f.kill(keyed("k"))
		f.exec("DELETE FROM {{s}}keys")
		holder := f.put(keyed("k"))
		require.NoError(t, end(former))
		f.wantHeld("k", holder)
		w := f.worker()
		w.settle(succeed(w.only("q")))
		f.exec("DELETE FROM {{s}}keys")
	}
}

func keyRace(t *testing.T, f *fixture) {
	const callers = 100
	var wg sync.WaitGroup
	var ins [callers]store.Inserted
	var errs [callers]error
	for i := range callers {
		wg.Go(func() {
			m := keyed("k")
			ins[i], errs[i] = f.Store.Insert(t.Context(), nil, &m)
		})
	}
	wg.Wait()
	var holder int64
	for i := range callers {
		if errs[i] == nil {
			require.Zero(t, holder, "two were stored")
			holder = ins[i].ID
		}
	}
	require.NotZero(t, holder)
	for _, err := range errs {
		if err != nil {
			wantDuplicate(t, err, "k", holder)
		}
	}
	require.Equal(t, 1, f.total())
}

func keyRefusedLeavesNothing(t *testing.T, f *fixture) {
	id := f.put(keyed("k"))
	for range 50 {
		f.wantHeld("k", id)
	}
	require.Equal(t, 1, f.total())
	require.Equal(t, 1, f.count("SELECT count(*) FROM {{s}}keys"))
	require.Equal(t, []int64{id}, claimedIDs(f.worker().take("q", 10)))
}
