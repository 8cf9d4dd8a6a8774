package postgres_test

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/internal/store"
)

// outcome is what an Insert returned.
type outcome struct {
	id  int64
	err error
}

// inserts starts n inserts, each with a context of its own, and returns how to
// end each and where its outcome arrives.
func inserts(t *testing.T, f fixture, n int) (cancel []context.CancelFunc, out []chan outcome) {
	t.Helper()
	var all sync.WaitGroup
	t.Cleanup(all.Wait)
	for i := range n {
		ctx, stop := context.WithCancel(t.Context())
		result := make(chan outcome, 1)
		cancel, out = append(cancel, stop), append(out, result)
		all.Go(func() {
			in, err := f.Insert(ctx, nil, &store.NewMessage{
				Queue: "q", Kind: "k", Payload: fmt.Sprint(i), MaxRetries: 5,
			})
			result <- outcome{in.ID, err}
		})
	}
	return cancel, out
}

// locked holds up every insert until the returned function is called.
func locked(t *testing.T, f fixture) (release func()) {
	t.Helper()
	tx := f.begin(t, sql.LevelDefault)
	_, err := tx.ExecContext(t.Context(), f.text(`LOCK TABLE {{s}}messages IN ACCESS EXCLUSIVE MODE`))
	require.NoError(t, err)
	return func() { require.NoError(t, tx.Rollback()) }
}

// blocked waits until n sessions wait for a lock on messages.
func blocked(t *testing.T, f fixture, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		return value[int](t, f, `SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = '{{s}}messages'::regclass`) >= n
	}, time.Minute, 5*time.Millisecond)
}

func TestInsertsShareAStatement(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	release := locked(t, f)
	const n = 40
	_, out := inserts(t, f, n)
	blocked(t, f, 2)
	// The others wait for company, not for a connection each.
	require.LessOrEqual(t, f.db.DB.DB.Stats().InUse, 4)
	release()
	seen := map[int64]bool{}
	for i := range n {
		o := <-out[i]
		require.NoError(t, o.err)
		require.Equal(t, fmt.Sprint(i), value[string](t, f, `SELECT payload FROM {{s}}messages WHERE id = $1`, o.id))
		seen[o.id] = true
	}
	require.Len(t, seen, n)
	require.Less(t, value[int](t, f, `SELECT count(DISTINCT xmin::text) FROM {{s}}messages`), n)
}

// Whoever goes away does not make the others suffer, whoever it was, and
// nothing is stored twice. What its own message comes to is not known when the
// group had begun.
func TestLeavingAGroup(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	release := locked(t, f)
	const n = 30
	cancel, out := inserts(t, f, n)
	blocked(t, f, 2)
	gone := map[int]bool{}
	for i := 0; i < n; i += 3 {
		cancel[i]()
		o := <-out[i]
		require.ErrorIs(t, o.err, context.Canceled)
		gone[i] = true
	}
	release()
	for i := range n {
		if !gone[i] {
			o := <-out[i]
			require.NoError(t, o.err)
			require.Equal(t, fmt.Sprint(i), value[string](t, f, `SELECT payload FROM {{s}}messages WHERE id = $1`, o.id))
		}
	}
	require.Equal(t, value[int](t, f, `SELECT count(DISTINCT payload) FROM {{s}}messages`),
		value[int](t, f, `SELECT count(*) FROM {{s}}messages`))
}

// Whoever goes away before its group has begun has stored nothing.
func TestLeavingBeforeTheGroup(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	release := locked(t, f)
	_, first := inserts(t, f, 2)
	blocked(t, f, 2)
	cancel, out := inserts(t, f, 10)
	for i := range out {
		cancel[i]()
		require.ErrorIs(t, (<-out[i]).err, context.Canceled)
	}
	release()
	for i := range first {
		require.NoError(t, (<-first[i]).err)
	}
	require.Equal(t, 2, value[int](t, f, `SELECT count(*) FROM {{s}}messages`))
}

// When nobody waits for a statement any more it ends, and the next ones go on.
func TestEverybodyLeavesAGroup(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	release := locked(t, f)
	const n = 20
	cancel, out := inserts(t, f, n)
	blocked(t, f, 2)
	// The first two end, whoever they are; a group takes the place of each.
	for i := range n {
		cancel[i]()
		require.ErrorIs(t, (<-out[i]).err, context.Canceled)
	}
	require.Eventually(t, func() bool { return f.db.DB.DB.Stats().InUse <= 1 }, time.Minute, 5*time.Millisecond)
	release()
	_, out = inserts(t, f, 5)
	for i := range out {
		require.NoError(t, (<-out[i]).err)
	}
}
