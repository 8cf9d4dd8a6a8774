package postgres_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// A row that another transaction has locked for a moment, as a claim does with
// rows that it then does not take, does not cost its holder the outcome.
func TestFailureOfALockedRow(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	w := f.worker(t, alive, "NULL")
	ids := []int64{f.held(t, w, "'infinity'", "", ""), f.held(t, w, "'infinity'", "", ""), f.held(t, w, "'infinity'", "", "")}
	f.exec(t, `UPDATE {{s}}messages SET lease_token = 8 WHERE id = $1`, ids[2])
	tx := f.begin(t, sql.LevelReadCommitted)
	_, err := tx.ExecContext(t.Context(), f.text(`SELECT FROM {{s}}messages WHERE id = $1 FOR UPDATE`), ids[1])
	require.NoError(t, err)
	released := make(chan error, 1)
	time.AfterFunc(20*time.Millisecond, func() { released <- tx.Rollback() })

	batch := make([]store.Settlement, len(ids))
	for i, id := range ids {
		batch[i] = store.Settlement{ID: id, Token: 7, Verb: store.Retry, Failure: &store.Failure{Class: "x"}}
	}
	batch[1].Verb, batch[1].Reason = store.Release, "shutdown"
	results, err := f.Settle(t.Context(), w, batch, nil)
	require.NoError(t, err)
	require.NoError(t, <-released)
	require.NoError(t, results[0])
	require.NoError(t, results[1])
	require.ErrorIs(t, results[2], message.ErrLeaseLost)
	require.Equal(t, array(ids[:2]), value[string](t, f, `SELECT array_agg(id ORDER BY id)::text FROM {{s}}messages WHERE status = 0`))
	require.Equal(t, 2, value[int](t, f, `SELECT count(*) FROM {{s}}attempts WHERE lease_token = 7`))
}

// What stays locked is left to whoever has it.
func TestFailureOfARowThatStaysLocked(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	w := f.worker(t, alive, "NULL")
	id := f.held(t, w, "'infinity'", "", "")
	tx := f.begin(t, sql.LevelReadCommitted)
	_, err := tx.ExecContext(t.Context(), f.text(`DELETE FROM {{s}}messages WHERE id = $1`), id)
	require.NoError(t, err)
	results, err := f.Settle(t.Context(), w, []store.Settlement{{ID: id, Token: 7, Verb: store.Retry}}, nil)
	require.NoError(t, err)
	require.ErrorIs(t, results[0], message.ErrLeaseLost)
	require.NoError(t, tx.Commit())
}
