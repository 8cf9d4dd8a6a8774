package storetest

import (
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

func settleTx(t *testing.T, f *fixture) {
	ctx := t.Context()
	f.puts(5, store.NewMessage{})
	w := f.worker()
	got := w.take("q", 5)
	batch := []store.Settlement{
		succeed(got[0]), retry(got[1], time.Hour), bury(got[2]), release(got[3], time.Hour), snooze(got[4], time.Hour),
	}
	tx := f.begin(nil)
	for _, s := range batch {
		require.NoError(t, f.Store.SettleTx(ctx, tx, w.id, s))
	}
	f.wantStatus(message.StatusProcessing, claimedIDs(got)...)
	require.NoError(t, tx.Rollback())
	f.wantStatus(message.StatusProcessing, claimedIDs(got)...)
	require.Empty(t, f.attempts(got[1].ID))

	tx = f.begin(nil)
	for _, s := range batch {
		require.NoError(t, f.Store.SettleTx(ctx, tx, w.id, s))
		require.NoError(t, f.Store.SettleTx(ctx, tx, w.id, s), "a repeat")
	}
	require.NoError(t, tx.Commit())
	f.wantStatus(message.StatusSucceeded, got[0].ID)
	f.wantStatus(message.StatusPending, got[1].ID, got[3].ID, got[4].ID)
	f.wantStatus(message.StatusDead, got[2].ID)
	require.Equal(t, 1, f.get(got[1].ID).RetryCount)

	tx = f.begin(nil)
	require.NoError(t, tx.Rollback())
	require.ErrorIs(t, f.Store.SettleTx(ctx, tx, w.id, batch[0]), message.ErrTxDone)
}

func settleEffect(t *testing.T, f *fixture) {
	ctx := t.Context()
	f.define("CREATE TABLE {{s}}effects (id bigint NOT NULL)")
	id := f.put(store.NewMessage{})
	w := f.worker()
	c := w.only("q")
	complete := func(commit bool) {
		t.Helper()
		tx := f.begin(nil)
		_, err := tx.ExecContext(ctx, f.text("INSERT INTO {{s}}effects (id) VALUES (?)"), id)
		require.NoError(t, err)
		require.NoError(t, f.Store.SettleTx(ctx, tx, w.id, succeed(c)))
		if commit {
			require.NoError(t, tx.Commit())
		} else {
			require.NoError(t, tx.Rollback())
		}
	}
	complete(false)
	require.Zero(t, f.count("SELECT count(*) FROM {{s}}effects"))
	f.wantStatus(message.StatusProcessing, id)
	complete(true)
	require.Equal(t, 1, f.count("SELECT count(*) FROM {{s}}effects"))
	f.wantStatus(message.StatusSucceeded, id)
}

func settleTxRefused(t *testing.T, f *fixture) {
	ctx := t.Context()
	f.define("CREATE TABLE {{s}}effects (id bigint NOT NULL)")
	for _, level := range f.Engine.Isolations {
		f.put(store.NewMessage{})
		w := f.worker()
		c := w.only("q")
		stale := c
		stale.LeaseToken++
		tx := f.begin(&sql.TxOptions{Isolation: level})
		require.ErrorIs(t, f.Store.SettleTx(ctx, tx, w.id, succeed(stale)), message.ErrLeaseLost)
		_, err := tx.ExecContext(ctx, f.text("INSERT INTO {{s}}effects (id) VALUES (1)"))
		require.NoError(t, err)
		require.NoError(t, f.Store.SettleTx(ctx, tx, w.id, succeed(c)), level.String())
		require.NoError(t, tx.Commit())
		f.wantStatus(message.StatusSucceeded, c.ID)
	}
	require.Equal(t, len(f.Engine.Isolations), f.count("SELECT count(*) FROM {{s}}effects"))
}

// A settle may wait for a transaction that holds the row, or leave the row to
// it; then the message is still there when that rolls back.
func settleWaits(t *testing.T, f *fixture) {
	for _, verb := range []func(store.Claimed) store.Settlement{
		succeed, bury,
		func(c store.Claimed) store.Settlement { return retry(c, time.Hour) },
		func(c store.Claimed) store.Settlement { return release(c, time.Hour) },
	} {
		f.put(store.NewMessage{})
		w := f.worker()
		c := w.only("q")
		tx := f.begin(nil)
		require.NoError(t, f.Store.SettleTx(t.Context(), tx, w.id, succeed(c)))
		type answer struct {
			results []error
			err     error
		}
		answers := make(chan answer, 1)
		go func() {
			results, err := f.Store.Settle(t.Context(), w.id, []store.Settlement{verb(c)}, nil)
			answers <- answer{results, err}
		}()
		var a answer
		select {
		case a = <-answers:
			require.NoError(t, tx.Rollback())
		case <-time.After(50 * time.Millisecond): // it waits, or has not begun
			require.NoError(t, tx.Rollback())
			a = <-answers
		}
		if a.err != nil {
			w.settle(verb(c)) // unknown what was recorded: repeated
			continue
		}
		if a.results[0] == nil {
			require.NotEqual(t, message.StatusProcessing, f.get(c.ID).Status)
			continue
		}
		require.ErrorIs(t, a.results[0], message.ErrLeaseLost)
		f.wantStatus(message.StatusProcessing, c.ID)
		f.overdue(c.ID)
		require.Equal(t, []int64{c.ID}, rescuedIDs(f.rescue()))
		f.due(c.ID)
		w.settle(succeed(w.only("q")))
	}
}

func settledTells(t *testing.T, f *fixture) {
	ctx := t.Context()
	f.puts(5, store.NewMessage{})
	w := f.worker()
	got := w.take("q", 5)
	want := func(c store.Claimed, want bool) {
		t.Helper()
		settled, err := f.Store.Settled(ctx, c.ID, c.LeaseToken)
		require.NoError(t, err)
		require.Equal(t, want, settled)
	}
	for i, s := range []store.Settlement{
		succeed(got[0]), retry(got[1], 0), bury(got[2]), release(got[3], time.Hour), snooze(got[4], time.Hour),
	} {
		want(got[i], false)
		w.settle(s)
		want(got[i], true)
	}
	again := w.only("q")
	require.Equal(t, got[1].ID, again.ID)
	want(got[1], true)
	want(again, false)
}

func extendMoves(t *testing.T, f *fixture) {
	ctx := t.Context()
	id := f.put(store.NewMessage{})
	w := f.worker()
	c := w.only("q")
	at, err := f.Store.Extend(ctx, w.id, id, c.LeaseToken, 5*time.Hour)
	require.NoError(t, err)
	require.WithinDuration(t, c.CreatedAt.Add(5*time.Hour), at, time.Minute)
	require.WithinDuration(t, at, f.get(id).Deadline, 0)
	at, err = f.Store.Extend(ctx, w.id, id, c.LeaseToken, time.Minute)
	require.NoError(t, err)
	require.WithinDuration(t, at, f.get(id).Deadline, 0, "a shorter one counts too")

	_, err = f.Store.Extend(ctx, w.id, id, c.LeaseToken+1, time.Hour)
	require.ErrorIs(t, err, message.ErrLeaseLost)
	_, err = f.Store.Extend(ctx, f.worker().id, id, c.LeaseToken, time.Hour)
	require.ErrorIs(t, err, message.ErrLeaseLost)
	_, err = f.Store.Extend(ctx, w.id, id+1, c.LeaseToken, time.Hour)
	require.ErrorIs(t, err, message.ErrLeaseLost)
	require.WithinDuration(t, at, f.get(id).Deadline, 0)
	w.settle(succeed(c))
	_, err = f.Store.Extend(ctx, w.id, id, c.LeaseToken, time.Hour)
	require.ErrorIs(t, err, message.ErrLeaseLost)
}

func lostNames(t *testing.T, f *fixture) {
	ctx := t.Context()
	f.puts(6, store.NewMessage{})
	w, other := f.worker(), f.worker()
	got := w.take("q", 5)
	foreign := other.take("q", 1)[0]
	lease := func(c store.Claimed) store.Lease { return store.Lease{ID: c.ID, Token: c.LeaseToken} }
	var held []store.Lease
	for _, c := range got {
		held = append(held, lease(c))
	}
	lost, err := f.Store.Lost(ctx, w.id, held)
	require.NoError(t, err)
	require.Empty(t, lost)
	lost, err = f.Store.Lost(ctx, w.id, nil)
	require.NoError(t, err)
	require.Empty(t, lost)

	w.settle(succeed(got[0]), release(got[1], 0), bury(got[2]))
	again := w.only("q")
	require.Equal(t, got[1].ID, again.ID, "held again under another token")
	f.overdue(got[3].ID)
	require.Equal(t, []int64{got[3].ID}, rescuedIDs(f.rescue()))
	unknown := store.Lease{ID: 1 << 40, Token: 1}
	lost, err = f.Store.Lost(ctx, w.id, append(held, lease(again), lease(foreign), unknown))
	require.NoError(t, err)
	require.ElementsMatch(t, []store.Lease{held[0], held[1], held[2], held[3], lease(foreign), unknown}, lost)
}
