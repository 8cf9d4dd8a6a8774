package client_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/client/postgres"
	"github.com/styxmq/styx/client/sqlite"
)

// off runs the body with a clock that differs from the database's.
func off(t *testing.T, by time.Duration, body func(t *testing.T)) {
	t.Helper()
	now := time.Now()
	synctest.Test(t, func(t *testing.T) {
		<-time.After(time.Until(now.Add(by))) // the bubble's clock begins long ago
		require.WithinDuration(t, now.Add(by), time.Now(), time.Second)
		body(t)
	})
}

// The database's clock counts, and not that of the program that enqueues.
// Reported as fastclaw-ai/fastclaw#86, raystack/entropy#91 and
// wildanniam/koderea#102.
func TestTheDatabasesClockCounts(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *rig) {
		for _, by := range []time.Duration{-10 * time.Minute, 10 * time.Minute} {
			at := time.Now().Add(time.Hour).Truncate(time.Millisecond)
			var plain, delayed, timed, expiring *message.Message
			off(t, by, func(t *testing.T) {
				var (
					db  *bun.DB
					err error
				)
				if b.db.Schema == "" {
					db, err = sqlite.Open(t.Context(), b.db.URL)
				} else {
					db, err = postgres.Open(t.Context(), b.db.URL)
				}
				require.NoError(t, err)
				c, err := client.New(db, quiet(b.db))
				require.NoError(t, err)
				enqueue := func(opts client.EnqueueOptions) *message.Message {
					m, err := c.Enqueue(t.Context(), order{}, &opts)
					require.NoError(t, err)
					return m
				}
				plain = enqueue(client.EnqueueOptions{})
				delayed = enqueue(client.EnqueueOptions{Delay: 5 * time.Minute})
				timed = enqueue(client.EnqueueOptions{RunAt: at})
				expiring = enqueue(client.EnqueueOptions{ExpiresIn: 5 * time.Minute})
				<-time.After(time.Minute) // whoever wakes workers comes to an end
				require.NoError(t, db.Close())
			})
			claimed := b.claim(t, message.DefaultQueue, 10)
			require.Len(t, claimed, 2, "at once, and nothing else")
			require.Equal(t, plain.ID, claimed[0].ID)
			require.Equal(t, expiring.ID, claimed[1].ID)
			require.WithinDuration(t, time.Now(), plain.CreatedAt, time.Minute)
			require.Equal(t, 5*time.Minute, delayed.RetryAfter.Sub(delayed.CreatedAt).Round(time.Second))
			require.True(t, timed.RetryAfter.Equal(at))
			require.Equal(t, 5*time.Minute, expiring.ExpiresAt.Sub(expiring.CreatedAt).Round(time.Second))
		}
	})
}
