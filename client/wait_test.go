package client_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/testdb"
)

// newRigs is a rig for what is refused before it reaches a database.
func newRigs(t *testing.T) *rig {
	t.Helper()
	return newRig(t, testdb.SQLite(t))
}

func requireInvalid(t *testing.T, err error, field string) {
	t.Helper()
	var invalid *message.ValidationError
	require.ErrorAs(t, err, &invalid)
	require.Equal(t, field, invalid.Field, invalid.Message)
}

// listeners counts the queues at which producers know of waiting claims.
func (b *rig) listeners(t *testing.T) int {
	t.Helper()
	var n int
	require.NoError(t, b.db.QueryRowContext(t.Context(), `SELECT count(*) FROM "`+b.db.Schema+`".listeners WHERE worker_id = -1`).Scan(&n))
	return n
}

func TestClaimWaits(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *rig) {
		const waiters, total = 8, 20
		other, err := client.New(b.db.DB, quiet(b.db))
		require.NoError(t, err)
		var (
			wg  sync.WaitGroup
			mu  sync.Mutex
			got []int64
		)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for i := range waiters {
			c := b.Client
			if i%2 == 1 {
				c = other
			}
			wg.Go(func() {
				for {
					claimed, err := c.Leases().Claim(ctx, "q", &client.ClaimOptions{Wait: client.MaxWait, Max: 2})
					if ctx.Err() != nil {
						return
					}
					if err != nil {
						t.Errorf("claim: %v", err)
						return
					}
					mu.Lock()
					got = append(got, ids(claimed)...)
					if len(got) >= total {
						cancel()
					}
					mu.Unlock()
				}
			})
		}
		if b.db.Schema != "" {
			require.Eventually(t, func() bool { return b.listeners(t) == 1 }, patience, 10*time.Millisecond, "producers are told")
		}
		var want []int64
		for range total {
			want = append(want, b.raw(t, client.EnqueueOptions{Queue: "q"}).ID)
		}
		wg.Wait()
		require.ElementsMatch(t, want, got)
		if b.db.Schema != "" {
			require.Zero(t, b.listeners(t), "the last to leave takes it back")
		}
	})
}

func TestClaimWaitEnds(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *rig) {
		began := time.Now()
		got, err := b.Leases().Claim(t.Context(), "q", &client.ClaimOptions{Wait: 300 * time.Millisecond})
		require.NoError(t, err)
		require.Empty(t, got)
		require.GreaterOrEqual(t, time.Since(began), 300*time.Millisecond)

		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		_, err = b.Leases().Claim(ctx, "q", &client.ClaimOptions{Wait: client.MaxWait})
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

// A delayed message, which nobody notifies of, is found by the polls; so is
// what another kind's crowd left.
func TestClaimWaitPolls(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *rig) {
		m := b.raw(t, client.EnqueueOptions{Queue: "q", Delay: 400 * time.Millisecond})
		got, err := b.Leases().Claim(t.Context(), "q", &client.ClaimOptions{Wait: client.MaxWait, Kinds: []string{"k", "x"}})
		require.NoError(t, err)
		require.Equal(t, []int64{m.ID}, ids(got))
	})
}
