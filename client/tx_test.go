package client_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
)

// Reported as rails/solid_queue#409.
func TestMessageSharesTheFateOfItsTransaction(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *rig) {
		for title, begin := range conns(t, b.db.DB) {
			tx, _, rollback := begin()
			m, err := b.EnqueueTx(t.Context(), tx, order{1}, nil)
			require.NoError(t, err, title)
			many, err := b.EnqueueManyTx(t.Context(), tx, []client.Item{{Payload: order{2}}, {Payload: order{3}}})
			require.NoError(t, err, title)
			raw, err := b.EnqueueRawTx(t.Context(), tx, "raw", "x", nil)
			require.NoError(t, err, title)
			require.NoError(t, rollback())
			for _, id := range append(ids(many), m.ID, raw.ID) {
				_, err = b.Get(t.Context(), id)
				require.ErrorIs(t, err, message.ErrNotFound, title)
			}

			tx, commit, _ := begin()
			m, err = b.EnqueueTx(t.Context(), tx, order{1}, nil)
			require.NoError(t, err, title)
			_, err = b.Get(t.Context(), m.ID)
			require.ErrorIs(t, err, message.ErrNotFound, "%s: not before the commit", title)
			require.NoError(t, commit())
			stored, err := b.Get(t.Context(), m.ID)
			require.NoError(t, err, title)
			requireSame(t, *m, *stored)
		}
	})
}

// Reported as rails/rails#26045.
func TestSavepointsAndPanics(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *rig) {
		outer, err := b.db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		kept, err := b.EnqueueTx(t.Context(), outer, order{1}, nil)
		require.NoError(t, err)
		inner, err := outer.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		_, err = b.EnqueueTx(t.Context(), inner, order{2}, &client.EnqueueOptions{IdempotencyKey: "k"})
		require.NoError(t, err)
		require.NoError(t, inner.Rollback())
		again, err := b.EnqueueTx(t.Context(), outer, order{3}, &client.EnqueueOptions{IdempotencyKey: "k"})
		require.NoError(t, err, "the key went with its savepoint")
		require.NoError(t, outer.Commit())
		require.ElementsMatch(t, []int64{kept.ID, again.ID}, ids(b.all(t, client.ListOptions{})))

		require.Panics(t, func() {
			_ = b.db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
				_, err := b.EnqueueTx(ctx, tx, order{4}, nil)
				require.NoError(t, err)
				panic("boom")
			})
		})
		require.Len(t, b.all(t, client.ListOptions{}), 2)
	})
}

// Reported as hibiken/asynq#629 and kestra-io/kestra#10326.
func TestDuplicateLeavesTheTransactionUsable(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *rig) {
		opts := &client.EnqueueOptions{IdempotencyKey: "k"}
		holder, err := b.Enqueue(t.Context(), order{1}, opts)
		require.NoError(t, err)
		for title, begin := range conns(t, b.db.DB) {
			tx, commit, _ := begin()
			first, err := b.EnqueueTx(t.Context(), tx, order{2}, nil)
			require.NoError(t, err, title)

			var duplicate *message.DuplicateError
			_, err = b.EnqueueTx(t.Context(), tx, order{1}, opts)
			require.ErrorAs(t, err, &duplicate, title)
			require.Equal(t, holder.ID, duplicate.ID)
			_, err = b.EnqueueManyTx(t.Context(), tx, []client.Item{{Payload: order{8}}, {Payload: order{1}, Options: opts}})
			require.ErrorAs(t, err, &duplicate, title)
			require.Equal(t, holder.ID, duplicate.ID)
			require.Equal(t, 1, duplicate.Index)
			_, err = b.EnqueueRawTx(t.Context(), tx, "raw", "\x00", nil)
			requireField(t, err, "payload")

			second, err := b.EnqueueTx(t.Context(), tx, order{3}, nil)
			require.NoError(t, err, title)
			require.NoError(t, commit(), title)
			found := ids(b.all(t, client.ListOptions{}))
			require.Contains(t, found, first.ID)
			require.Contains(t, found, second.ID)
		}
		require.Len(t, b.all(t, client.ListOptions{}), 1+2*len(conns(t, b.db.DB)), "nothing of a refused batch")
	})
}

// Reported as rails/solid_queue#409.
func TestDeadTransactionsAreTold(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *rig) {
		calls := map[string]func(tx bun.IConn) error{
			"plain": func(tx bun.IConn) error { _, err := b.EnqueueTx(t.Context(), tx, order{}, nil); return err },
			"keyed": func(tx bun.IConn) error {
				_, err := b.EnqueueTx(t.Context(), tx, order{}, &client.EnqueueOptions{IdempotencyKey: "k"})
				return err
			},
			"many": func(tx bun.IConn) error {
				_, err := b.EnqueueManyTx(t.Context(), tx, []client.Item{{Payload: order{}}})
				return err
			},
		}
		for title, call := range calls {
			committed, err := b.db.BeginTx(t.Context(), nil)
			require.NoError(t, err)
			require.NoError(t, committed.Commit())
			require.ErrorIs(t, call(committed), message.ErrTxDone, title)
			require.ErrorIs(t, call(committed), sql.ErrTxDone, "%s: the cause is kept", title)

			if b.db.Dialect().Name() != dialect.PG {
				continue // a failed statement does not end a transaction there
			}
			failed, err := b.db.BeginTx(t.Context(), nil)
			require.NoError(t, err)
			_, err = failed.ExecContext(t.Context(), "SELECT no_such_column")
			require.Error(t, err)
			require.ErrorIs(t, call(failed), message.ErrTxDone, title)
			require.NoError(t, failed.Rollback())
		}
		require.Empty(t, b.all(t, client.ListOptions{}))
	})
}

func requireField(t *testing.T, err error, field string) {
	t.Helper()
	invalid, ok := errors.AsType[*message.ValidationError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, field, invalid.Field)
}

// An enqueue that is not told of the transaction around it has no part in it:
// it stays when that is rolled back. Where there is one writer only, or no
// other connection, it waits for as long as its context permits.
// Reported as rails/solid_queue#409.
func TestEnqueueBesideATransaction(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *rig) {
		beside := func(limit time.Duration) (*message.Message, error) {
			tx, err := b.db.BeginTx(t.Context(), nil)
			require.NoError(t, err)
			defer func() { require.NoError(t, tx.Rollback()) }()
			_, err = b.EnqueueTx(t.Context(), tx, order{1}, nil)
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			return b.Enqueue(ctx, order{2}, nil)
		}
		var want []int64
		if b.db.Dialect().Name() == dialect.PG {
			m, err := beside(patience)
			require.NoError(t, err)
			want = append(want, m.ID)
		} else {
			_, err := beside(100 * time.Millisecond)
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		b.db.SetMaxOpenConns(1)
		_, err := beside(100 * time.Millisecond)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		m, err := b.Enqueue(t.Context(), order{3}, nil)
		require.NoError(t, err)
		require.Equal(t, append(want, m.ID), ids(b.all(t, client.ListOptions{})))
	})
}
