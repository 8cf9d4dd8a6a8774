package postgres_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/internal/store"
)

// look makes a cursor's next claim look back, and returns what it claims.
func look(t *testing.T, c store.Cursor, number int64, limit int) (ids []int64) {
	t.Helper()
	c.Wake()
	batch, err := c.Claim(t.Context(), store.ClaimRequest{Number: number, Limit: limit})
	require.NoError(t, err)
	for _, m := range batch.Messages {
		ids = append(ids, m.ID)
	}
	return ids
}

func (f fixture) cursor(t *testing.T) store.Cursor {
	t.Helper()
	worker, err := f.Register(t.Context(), store.WorkerInfo{Name: "w", Queues: []string{"default"}, Lease: time.Hour})
	require.NoError(t, err)
	return f.Cursor(store.CursorSpec{WorkerID: worker, Queue: "default", Timeout: time.Minute, Lease: time.Hour})
}

// late inserts a message in a transaction that is not committed.
func (f fixture) late(t *testing.T) (tx *sql.Tx, id int64) {
	t.Helper()
	tx = f.begin(t, sql.LevelDefault)
	require.NoError(t, tx.QueryRowContext(t.Context(), f.text(`INSERT INTO {{s}}messages (queue, kind, payload, max_retries)
	VALUES ('default', 'work', '{}', 5) RETURNING id`)).Scan(&id))
	return tx, id
}

func (f fixture) solid(t *testing.T) (last sql.Null[int64]) {
	t.Helper()
	return value[sql.Null[int64]](t, f, `SELECT max(last_id) FROM {{s}}claims WHERE scope < 0`)
}

// A claim tells others to go on from where it has been only as far as nothing
// can become visible any more.
func TestClaimsGoOnFromWhereNothingIsLeftBehind(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a, b := f.cursor(t), f.cursor(t)
	one, early := f.late(t)
	for range 20 {
		f.message(t, "", "")
	}
	number := int64(0)
	next := func(c store.Cursor, limit int) []int64 {
		number++
		return look(t, c, number, limit)
	}
	for range 3 {
		require.Len(t, next(a, 2), 2)
	}
	require.False(t, f.solid(t).Valid, "a transaction that may bring in something is open")
	require.Len(t, next(b, 2), 2)
	require.NoError(t, one.Commit())
	require.Equal(t, early, next(b, 1)[0])

	// Now that it has ended, claims leave nothing behind.
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(2 * time.Minute); !f.solid(t).Valid; <-tick.C {
		require.True(t, time.Now().Before(end), "no claim was solid") // other databases of this server have transactions too
		f.message(t, "", "")
		require.NotEmpty(t, next(a, 1))
	}

	// What begins after the last look and ends after the next one is not
	// passed over, even by who goes on from what another has told.
	two, hidden := f.late(t)
	for range 60 {
		f.message(t, "", "")
	}
	for range 3 {
		require.NotEmpty(t, next(a, 10))
	}
	require.Less(t, f.solid(t).V, hidden)
	require.NotEmpty(t, next(b, 1))
	require.NoError(t, two.Commit())
	require.Equal(t, []int64{hidden}, next(b, 1))
}
