package postgres_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/internal/store"
)

// turn is a cursor of a worker, and a session that has the worker's turn.
func turn(t *testing.T, f fixture) (c store.Cursor, hold, release func()) {
	t.Helper()
	worker, err := f.Register(t.Context(), store.WorkerInfo{Name: "w", Queues: []string{"q"}, Lease: time.Hour})
	require.NoError(t, err)
	c = f.Cursor(store.CursorSpec{WorkerID: worker, Queue: "q", Timeout: time.Minute, Lease: time.Hour})
	conn, err := f.db.Conn(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	return c, func() {
			_, err := conn.ExecContext(t.Context(), `SELECT pg_advisory_lock(?)`, f.ClaimLock(worker, "q", 1))
			require.NoError(t, err)
		}, func() {
			_, err := conn.ExecContext(t.Context(), `SELECT pg_advisory_unlock(?)`, f.ClaimLock(worker, "q", 1))
			require.NoError(t, err)
		}
}

func filling(t *testing.T, f fixture) {
	t.Helper()
	_, err := f.InsertMany(t.Context(), nil, []store.NewMessage{
		{Queue: "q", Kind: "k", Payload: "1", MaxRetries: 5},
		{Queue: "q", Kind: "k", Payload: "2", MaxRetries: 5},
		{Queue: "q", Kind: "k", Payload: "3", MaxRetries: 5},
	})
	require.NoError(t, err)
}

type claimed struct {
	batch store.Batch
	err   error
}

func claiming(t *testing.T, c store.Cursor, number int64) <-chan claimed {
	t.Helper()
	out := make(chan claimed, 1)
	go func() {
		b, err := c.Claim(t.Context(), store.ClaimRequest{Number: number, Limit: 1})
		out <- claimed{b, err}
	}()
	return out
}

// Claims wait for their turn.
func TestClaimsTakeTurns(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	c, hold, release := turn(t, f)
	filling(t, f)
	hold()
	out := claiming(t, c, 1)
	require.Eventually(t, func() bool {
		return len(out) > 0 || value[int](t, f, `SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'advisory'
	AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`) > 0
	}, time.Minute, 5*time.Millisecond)
	ended := len(out) > 0
	release()
	got := <-out
	require.True(t, !ended || f.WaitedInVain(), "it has not waited at all")
	require.NoError(t, got.err)
	require.Len(t, got.batch.Messages, 1)
}

// Somebody who keeps the turn, such as one whose network has gone away in the
// middle of an answer, holds up the others for a moment and no longer.
func TestClaimsWithoutATurn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	c, hold, release := turn(t, f)
	filling(t, f)
	hold()
	for number := int64(1); number <= 3; number++ {
		got := <-claiming(t, c, number)
		require.NoError(t, got.err)
		require.Len(t, got.batch.Messages, 1)
	}
	require.True(t, f.WaitedInVain())
	release()
	require.Equal(t, 3, value[int](t, f, `SELECT count(*) FROM {{s}}messages WHERE status = 1`))
}

// Where the turn is taken all the time, but by somebody who gets on, a claim
// does without messages for now.
func TestClaimsLetOthersGoFirst(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	worker, err := f.Register(t.Context(), store.WorkerInfo{Name: "w", Queues: []string{"q"}, Lease: time.Hour})
	require.NoError(t, err)
	c := f.Cursor(store.CursorSpec{WorkerID: worker, Queue: "q", Timeout: time.Minute, Lease: time.Hour})
	conn, err := f.db.Conn(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	filling(t, f)
	_, err = conn.ExecContext(t.Context(), `SELECT pg_advisory_lock(?)`, f.ClaimLock(worker, "q", 1))
	require.NoError(t, err)

	out := claiming(t, c, 1)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for len(out) == 0 {
		_, err := conn.ExecContext(t.Context(), `SELECT 1`)
		require.NoError(t, err)
		<-tick.C
	}
	got := <-out
	require.NoError(t, got.err)
	if f.WaitedInVain() {
		return // this machine stood still for so long that it looked stuck
	}
	require.Empty(t, got.batch.Messages)
	require.True(t, got.batch.Again)

	_, err = conn.ExecContext(t.Context(), `SELECT pg_advisory_unlock(?)`, f.ClaimLock(worker, "q", 1))
	require.NoError(t, err)
	got = <-claiming(t, c, 2)
	require.NoError(t, got.err)
	require.Len(t, got.batch.Messages, 1)
}
