package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

var batchProperties = []property{
	{"none is a no-op", batchNone},
	{"one", batchOne},
	{"10,000 in order", batchThousands},
	{"100,000 in one call", batchHundredThousand},
	{"mixed messages keep their own settings", batchMixed},
	{"a large batch keeps every field", batchLarge},
	{"a large batch with one bad message stores nothing", batchLargeRefused},
	{"a held key stores nothing and is named by its index", batchDuplicate},
	{"a key that stands twice in the batch", batchTwice},
	{"keys in opposite orders do not deadlock", batchOpposite},
	{"10,000 keys at once", batchKeys},
	{"10,000 in the caller's transaction", batchTx},
}

func batchNone(t *testing.T, f *fixture) {
	for _, ms := range [][]store.NewMessage{nil, {}} {
		ins, err := f.Store.InsertMany(t.Context(), nil, ms)
		require.NoError(t, err)
		require.Empty(t, ins)
	}
	require.Zero(t, f.total())
}

func batchOne(t *testing.T, f *fixture) {
	ins, err := f.Store.InsertMany(t.Context(), nil, copies(1, store.NewMessage{Payload: "x", Delay: time.Hour}))
	require.NoError(t, err)
	require.Len(t, ins, 1)
	m := f.get(ins[0].ID)
	require.Equal(t, "x", m.Payload)
	require.WithinDuration(t, m.CreatedAt, ins[0].CreatedAt, 0)
	require.WithinDuration(t, m.RetryAfter, ins[0].RetryAfter, 0)
}

func (f *fixture) wantBatch(n int) {
	f.t.Helper()
	ms := copies(n, store.NewMessage{})
	for i := range ms {
		ms[i].Payload = fmt.Sprint(i)
	}
	ins, err := f.Store.InsertMany(f.t.Context(), nil, ms)
	require.NoError(f.t, err)
	require.Len(f.t, ins, n)
	ids := idsOf(ins)
	require.True(f.t, slices.IsSorted(ids), "ids ascend")
	require.Len(f.t, slices.Compact(slices.Clone(ids)), n)
	require.Equal(f.t, n, f.total())
	for i := 0; i < n; i += n / 10 {
		require.Equal(f.t, fmt.Sprint(i), f.get(ids[i]).Payload)
	}
	require.Equal(f.t, ids[:100], claimedIDs(f.worker().take("q", 100)))
}

// Reported as saurabhnanda/odd-jobs#42.
func batchThousands(_ *testing.T, f *fixture) { f.wantBatch(10_000) }

// Bulk inserts elsewhere end at 65,535 parameters.
// Reported as dereuromark/cakephp-queue#508.
func batchHundredThousand(t *testing.T, f *fixture) {
	if testing.Short() {
		t.Skip("takes long")
	}
	f.wantBatch(100_000)
}

// largeBatch has messages of every sort but postponed ones.
func largeBatch() []store.NewMessage {
	ms := make([]store.NewMessage, 1200)
	for i := range ms {
		m := store.NewMessage{Queue: fmt.Sprintf("q%d", i%2), Payload: fmt.Sprintf(`{"i":%d,"ü":"\\n"}`, i), MaxRetries: 1 + i%900}
		switch i % 6 {
		case 1:
			m.Priority, m.Timeout = -9, -1
		case 2:
			m.Priority, m.Timeout = 9, 1500*time.Millisecond
		case 3:
			m.Tenant, m.Headers = "t", map[string]string{"a": `"\`, "b": ""}
		case 4:
			m.CorrelationID, m.Kind = "c", "other"
		case 5:
			m.IdempotencyKey, m.Digest, m.KeyWindow = fmt.Sprint("k", i), "d", time.Hour
		}
		ms[i] = filled(m)
	}
	return ms
}

func batchLarge(t *testing.T, f *fixture) {
	keyed := largeBatch()
	plain := slices.DeleteFunc(largeBatch(), func(m store.NewMessage) bool { return m.IdempotencyKey != "" })
	for _, ms := range [][]store.NewMessage{keyed, plain[:900], plain[:700]} {
		ins, err := f.Store.InsertMany(t.Context(), nil, ms)
		require.NoError(t, err)
		require.Len(t, ins, len(ms))
		ids := idsOf(ins)
		require.True(t, slices.IsSorted(ids))
		for i := 0; i < len(ms); i += 7 {
			m, got := ms[i], f.get(ins[i].ID)
			require.WithinDuration(t, ins[i].CreatedAt, got.CreatedAt, 0)
			require.Equal(t, message.Message{
				ID: ins[i].ID, Queue: m.Queue, Kind: m.Kind, Payload: m.Payload, Status: message.StatusPending,
				Priority: m.Priority, Attempt: 1, MaxRetries: m.MaxRetries, Timeout: m.Timeout, Headers: m.Headers,
				Tenant: m.Tenant, CorrelationID: m.CorrelationID, IdempotencyKey: m.IdempotencyKey,
				CreatedAt: got.CreatedAt, UpdatedAt: got.UpdatedAt,
			}, got)
		}
	}
	require.Equal(t, len(keyed)+900+700, f.total())
	_, err := f.Store.InsertMany(t.Context(), nil, keyed[600:])
	require.ErrorAs(t, err, new(*message.DuplicateError))
	require.Equal(t, len(keyed)+900+700, f.total())
}

// The engine refuses one of the messages when others have been written.
func batchLargeRefused(t *testing.T, f *fixture) {
	f.put(store.NewMessage{})
	f.define(`CREATE UNIQUE INDEX once_kind ON {{s}}messages (kind)`)
	ms := largeBatch()
	for i := range ms {
		ms[i].IdempotencyKey, ms[i].Kind = "", fmt.Sprint("k", i)
	}
	ms[1100].Kind = "k3"
	_, err := f.Store.InsertMany(t.Context(), nil, ms)
	require.Error(t, err)
	require.Equal(t, 1, f.total())
	ms[1100].Kind = "k1100"
	_, err = f.Store.InsertMany(t.Context(), nil, ms)
	require.NoError(t, err)
	require.Equal(t, 1+len(ms), f.total())
}

func batchMixed(t *testing.T, f *fixture) {
	at := time.Now().Add(time.Hour)
	ms := []store.NewMessage{
		{Queue: "a", Kind: "x", Priority: 9, MaxRetries: 1, Timeout: time.Second},
		{Queue: "b", Delay: time.Hour, Tenant: "t", ExpiresIn: time.Minute},
		{Queue: "a", RunAt: at, CorrelationID: "c", Headers: map[string]string{"a": "b"}, Timeout: -1},
		{Queue: "b", Priority: -9, IdempotencyKey: "k", Digest: "d", KeyWindow: time.Hour},
		{Queue: "a", RunAt: time.Unix(0, 0)},
	}
	for i := range ms {
		ms[i] = filled(ms[i])
	}
	ins, err := f.Store.InsertMany(t.Context(), nil, ms)
	require.NoError(t, err)
	for i, m := range ms {
		got := f.get(ins[i].ID)
		require.Equal(t, m.Queue, got.Queue)
		require.Equal(t, m.Kind, got.Kind)
		require.Equal(t, m.Priority, got.Priority)
		require.Equal(t, m.MaxRetries, got.MaxRetries)
		require.Equal(t, m.Tenant, got.Tenant)
		require.Equal(t, m.CorrelationID, got.CorrelationID)
		require.Equal(t, m.IdempotencyKey, got.IdempotencyKey)
		require.Equal(t, m.Headers["a"], got.Headers["a"])
		require.Equal(t, m.Timeout > 0, got.Timeout > 0)
		require.Equal(t, m.Timeout < 0, got.Timeout < 0)
		require.Equal(t, m.ExpiresIn > 0, !got.ExpiresAt.IsZero())
		require.WithinDuration(t, got.RetryAfter, ins[i].RetryAfter, 0)
	}
	require.True(t, ins[0].RetryAfter.IsZero())
	require.WithinDuration(t, ins[1].CreatedAt.Add(time.Hour), ins[1].RetryAfter, time.Minute)
	require.WithinDuration(t, at, ins[2].RetryAfter, time.Millisecond)
	w := f.worker()
	require.Equal(t, []int64{ins[0].ID, ins[4].ID}, sorted(claimedIDs(w.take("a", 10))))
	require.Equal(t, []int64{ins[3].ID}, claimedIDs(w.take("b", 10)))
}

func sorted(ids []int64) []int64 {
	slices.Sort(ids)
	return ids
}

func keyed(key string) store.NewMessage {
	return filled(store.NewMessage{IdempotencyKey: key, Digest: "d", KeyWindow: time.Hour})
}

// wantDuplicate checks who holds the key.
func wantDuplicate(t *testing.T, err error, key string, id int64) *message.DuplicateError {
	t.Helper()
	d, ok := errors.AsType[*message.DuplicateError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, key, d.Key)
	require.Equal(t, id, d.ID)
	return d
}

func batchDuplicate(t *testing.T, f *fixture) {
	z := f.put(keyed("z"))
	a := f.put(keyed("a"))
	ms := copies(300, store.NewMessage{})
	ms[120], ms[250] = keyed("z"), keyed("a")
	ms[10], ms[11] = keyed("new"), keyed("another")
	_, err := f.Store.InsertMany(t.Context(), nil, ms)
	d := wantDuplicate(t, err, "z", z)
	require.Equal(t, 120, d.Index, "the first in the order of the batch")
	require.Equal(t, "q", d.Queue)
	require.False(t, d.Mismatch)
	require.Equal(t, 2, f.total(), "all or nothing")

	ms[120] = keyed("free")
	ms[250].Digest = "other"
	_, err = f.Store.InsertMany(t.Context(), nil, ms)
	d = wantDuplicate(t, err, "a", a)
	require.Equal(t, 250, d.Index)
	require.True(t, d.Mismatch)
	require.Equal(t, 2, f.total())

	ms[250] = keyed("free too")
	_, err = f.Store.InsertMany(t.Context(), nil, ms)
	require.NoError(t, err, "no key was taken by the refused calls")
	require.Equal(t, 302, f.total())
}

func batchTwice(t *testing.T, f *fixture) {
	ms := []store.NewMessage{keyed("a"), keyed("b"), keyed("c"), keyed("b"), keyed("a")}
	_, err := f.Store.InsertMany(t.Context(), nil, ms)
	d, ok := errors.AsType[*message.DuplicateError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, 3, d.Index)
	require.Equal(t, "b", d.Key)
	require.Zero(t, f.total())
	ms[3].Queue, ms[4].Queue = "other", "other"
	_, err = f.Store.InsertMany(t.Context(), nil, ms)
	require.NoError(t, err, "another queue has keys of its own")
	require.Equal(t, 5, f.total())
}

func batchOpposite(t *testing.T, f *fixture) {
	const rounds, keys = 10, 50
	for round := range rounds {
		up := make([]store.NewMessage, keys)
		for i := range up {
			up[i] = keyed(fmt.Sprintf("%d/%d", round, i))
		}
		down := slices.Clone(up)
		slices.Reverse(down)
		var wg sync.WaitGroup
		errs := make([]error, 6)
		for i := range errs {
			wg.Go(func() {
				ms := up
				if i%2 == 1 {
					ms = down
				}
				_, errs[i] = f.Store.InsertMany(t.Context(), nil, ms)
			})
		}
		wg.Wait()
		stored := 0
		for _, err := range errs {
			if err == nil {
				stored++
				continue
			}
			_, ok := errors.AsType[*message.DuplicateError](err)
			require.True(t, ok, "%v", err)
		}
		require.Equal(t, 1, stored)
		require.Equal(t, (round+1)*keys, f.total())
	}
}

func batchKeys(t *testing.T, f *fixture) {
	const n = 10_000
	ms := make([]store.NewMessage, n)
	for i := range ms {
		ms[i] = keyed(fmt.Sprintf("key %d", (i*7919)%n))
	}
	ins, err := f.Store.InsertMany(t.Context(), nil, ms)
	require.NoError(t, err)
	require.True(t, slices.IsSorted(idsOf(ins)))
	_, err = f.Store.InsertMany(t.Context(), nil, ms[n-1:])
	wantDuplicate(t, err, ms[n-1].IdempotencyKey, ins[n-1].ID)
	require.Equal(t, n, f.total())
}

func batchTx(t *testing.T, f *fixture) {
	ctx := t.Context()
	for _, commit := range []bool{false, true} {
		tx, err := f.DB.BeginTx(ctx, nil)
		require.NoError(t, err)
		ins, err := f.Store.InsertMany(ctx, tx, copies(10_000, store.NewMessage{}))
		require.NoError(t, err)
		require.Len(t, ins, 10_000)
		if commit {
			require.NoError(t, tx.Commit())
			require.Equal(t, 10_000, f.total())
		} else {
			require.NoError(t, tx.Rollback())
			require.Zero(t, f.total())
		}
	}
}
