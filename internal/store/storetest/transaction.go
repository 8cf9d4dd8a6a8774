package storetest

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// rails/solid_queue#409: jobs stayed although their transaction did not.
var transactionProperties = []property{
	{"a message exists if its transaction commits", txCommit},
	{"nobody sees it before the commit", txInvisible},
	{"bun.Tx, sql.Tx, sql.Conn and bun.Conn serve", txConnections},
	{"a savepoint takes its messages back", txSavepoint},
	{"a duplicate leaves the transaction usable at every level", txDuplicate},
	{"a lost race for a key leaves the transaction usable", txLostRace},
	{"a rollback frees the key", txFreesKey},
	{"a second enqueue waits for the holder of the key", txWaits},
	{"a transaction that ended is refused", txEnded},
	{"a transaction that failed is refused", txFailed},
	{"a panic in RunInTx leaves nothing", txPanic},
}

func (f *fixture) begin(options *sql.TxOptions) bun.Tx {
	f.t.Helper()
	tx, err := f.DB.BeginTx(f.t.Context(), options)
	require.NoError(f.t, err)
	f.t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

func (f *fixture) putTx(conn bun.IConn, m store.NewMessage) int64 {
	f.t.Helper()
	m = filled(m)
	in, err := f.Store.Insert(f.t.Context(), conn, &m)
	require.NoError(f.t, err)
	return in.ID
}

func txCommit(t *testing.T, f *fixture) {
	tx := f.begin(nil)
	gone := f.putTx(tx, store.NewMessage{})
	require.NoError(t, tx.Rollback())
	_, err := f.Store.Get(t.Context(), gone)
	require.ErrorIs(t, err, message.ErrNotFound)
	require.Zero(t, f.total())

	tx = f.begin(nil)
	id := f.putTx(tx, store.NewMessage{})
	_, err = f.Store.InsertMany(t.Context(), tx, copies(2, store.NewMessage{}))
	require.NoError(t, err)
	require.NoError(t, tx.Commit())
	f.wantStatus(message.StatusPending, id)
	require.Equal(t, 3, f.total())
}

func txInvisible(t *testing.T, f *fixture) {
	tx := f.begin(nil)
	id := f.putTx(tx, store.NewMessage{})
	_, err := f.Store.Get(t.Context(), id)
	require.ErrorIs(t, err, message.ErrNotFound)
	page, err := f.Store.List(t.Context(), store.ListQuery{Limit: 10})
	require.NoError(t, err)
	require.Empty(t, page.Messages)
	require.NoError(t, tx.Commit())
	require.Equal(t, []int64{id}, claimedIDs(f.worker().take("q", 10)))
}

func txConnections(t *testing.T, f *fixture) {
	ctx := t.Context()
	plain, err := f.DB.DB.BeginTx(ctx, nil)
	require.NoError(t, err)
	one := f.putTx(plain, keyed("plain"))
	require.NoError(t, plain.Commit())
	conn, err := f.DB.DB.Conn(ctx)
	require.NoError(t, err)
	two := f.putTx(conn, keyed("conn"))
	require.NoError(t, conn.Close())
	bunConn, err := f.DB.Conn(ctx)
	require.NoError(t, err)
	three := f.putTx(bunConn, keyed("bun"))
	_, err = f.Store.InsertMany(ctx, bunConn, copies(3, store.NewMessage{}))
	require.NoError(t, err)
	require.NoError(t, bunConn.Close())
	f.wantStatus(message.StatusPending, one, two, three)
	require.Equal(t, 6, f.total())
}

func txSavepoint(t *testing.T, f *fixture) {
	ctx := t.Context()
	tx := f.begin(nil)
	kept := f.putTx(tx, store.NewMessage{})
	inner, err := tx.BeginTx(ctx, nil)
	require.NoError(t, err)
	gone := f.putTx(inner, keyed("k"))
	_, err = f.Store.InsertMany(ctx, inner, copies(2, store.NewMessage{}))
	require.NoError(t, err)
	require.NoError(t, inner.Rollback())
	again := f.putTx(tx, keyed("k"))
	require.NoError(t, tx.Commit())
	f.wantStatus(message.StatusPending, kept, again)
	if again != gone { // SQLite takes an id back with its savepoint
		_, err = f.Store.Get(ctx, gone)
		require.ErrorIs(t, err, message.ErrNotFound)
	}
	require.Equal(t, 2, f.total())
}

func txDuplicate(t *testing.T, f *fixture) {
	id := f.put(keyed("k"))
	for _, level := range f.Engine.Isolations {
		before := f.total()
		tx := f.begin(&sql.TxOptions{Isolation: level})
		first := f.putTx(tx, store.NewMessage{})
		m := keyed("k")
		_, err := f.Store.Insert(t.Context(), tx, &m)
		wantDuplicate(t, err, "k", id)
		_, err = f.Store.InsertMany(t.Context(), tx, []store.NewMessage{keyed("k1"), keyed("k")})
		require.Equal(t, 1, wantDuplicate(t, err, "k", id).Index)
		last := f.putTx(tx, keyed("after "+level.String()))
		require.NoError(t, tx.Commit(), level.String())
		f.wantStatus(message.StatusPending, first, last)
		require.Equal(t, before+2, f.total(), level.String())
	}
}

func txLostRace(t *testing.T, f *fixture) {
	if !f.Engine.AbortsTx {
		t.Skip("transactions that write run one after the other")
	}
	for _, level := range f.Engine.Isolations {
		name := level.String()
		tx := f.begin(&sql.TxOptions{Isolation: level})
		first := f.putTx(tx, store.NewMessage{}) // takes the snapshot
		holder := f.put(keyed(name))
		m := keyed(name)
		_, err := f.Store.Insert(t.Context(), tx, &m)
		d, ok := errors.AsType[*message.DuplicateError](err)
		require.True(t, ok, "%s: %v", name, err)
		require.Contains(t, []int64{0, holder}, d.ID)
		_, err = f.Store.InsertMany(t.Context(), tx, []store.NewMessage{keyed(name + "1"), keyed(name)})
		_, ok = errors.AsType[*message.DuplicateError](err)
		require.True(t, ok, "%s: %v", name, err)
		last := f.putTx(tx, store.NewMessage{})
		require.NoError(t, tx.Commit(), name)
		f.wantStatus(message.StatusPending, first, last)
		f.put(keyed(name + "1"))
	}
}

func txFreesKey(t *testing.T, f *fixture) {
	tx := f.begin(nil)
	f.putTx(tx, keyed("k"))
	_, err := f.Store.InsertMany(t.Context(), tx, []store.NewMessage{keyed("k1"), keyed("k2")})
	require.NoError(t, err)
	require.NoError(t, tx.Rollback())
	for _, key := range []string{"k", "k1", "k2"} {
		f.wantHeld(key, f.put(keyed(key)))
	}

	id := f.put(keyed("old"))
	w := f.worker()
	for _, c := range w.take("q", 10) {
		w.settle(succeed(c))
	}
	f.expireKeys()
	tx = f.begin(nil)
	taken := f.putTx(tx, keyed("old"))
	require.NotEqual(t, id, taken)
	require.NoError(t, tx.Rollback())
	f.wantHeld("old", f.put(keyed("old")))
}

func txWaits(t *testing.T, f *fixture) {
	type answer struct {
		in  store.Inserted
		err error
	}
	for _, commit := range []bool{true, false} {
		key := map[bool]string{true: "committed", false: "rolled back"}[commit]
		tx := f.begin(nil)
		holder := f.putTx(tx, keyed(key))
		answers := make(chan answer, 1)
		go func() {
			m := keyed(key)
			in, err := f.Store.Insert(t.Context(), nil, &m)
			answers <- answer{in, err}
		}()
		if commit {
			require.NoError(t, tx.Commit())
			wantDuplicate(t, (<-answers).err, key, holder)
			f.wantHeld(key, holder)
		} else {
			require.NoError(t, tx.Rollback())
			a := <-answers
			require.NoError(t, a.err)
			f.wantHeld(key, a.in.ID)
		}
	}
}

func txEnded(t *testing.T, f *fixture) {
	m := filled(store.NewMessage{})
	for _, end := range []func(bun.Tx) error{bun.Tx.Commit, bun.Tx.Rollback} {
		for _, m := range []store.NewMessage{m, keyed("k")} {
			tx := f.begin(nil)
			require.NoError(t, end(tx))
			_, err := f.Store.Insert(t.Context(), tx, &m)
			require.ErrorIs(t, err, message.ErrTxDone)
			_, err = f.Store.InsertMany(t.Context(), tx, copies(2, store.NewMessage{}))
			require.ErrorIs(t, err, message.ErrTxDone)
			_, err = f.Store.Insert(t.Context(), tx.Tx, &m)
			require.ErrorIs(t, err, message.ErrTxDone)
		}
	}
	require.Zero(t, f.total())
}

func txFailed(t *testing.T, f *fixture) {
	if !f.Engine.AbortsTx {
		t.Skip("a failed statement does not end the transaction")
	}
	for _, level := range f.Engine.Isolations {
		for _, m := range []store.NewMessage{filled(store.NewMessage{}), keyed("k")} {
			tx := f.begin(&sql.TxOptions{Isolation: level})
			f.putTx(tx, store.NewMessage{})
			_, err := tx.ExecContext(t.Context(), "SELECT 1 / 0")
			require.Error(t, err)
			_, err = f.Store.Insert(t.Context(), tx, &m)
			require.ErrorIs(t, err, message.ErrTxDone)
			_, err = f.Store.InsertMany(t.Context(), tx, copies(2, store.NewMessage{}))
			require.ErrorIs(t, err, message.ErrTxDone)
			require.NoError(t, tx.Rollback())
		}
	}
	require.Zero(t, f.total())
}

func txPanic(t *testing.T, f *fixture) {
	require.Panics(t, func() {
		_ = f.DB.RunInTx(t.Context(), nil, func(_ context.Context, tx bun.Tx) error {
			f.putTx(tx, keyed("k"))
			panic("in the caller's transaction")
		})
	})
	require.Zero(t, f.total())
	f.put(keyed("k"))
}
