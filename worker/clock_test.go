package worker_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
	"github.com/styxmq/styx/internal/testdb"
	"github.com/styxmq/styx/worker"
)

// A worker whose clock differs from the database's by ten minutes: its leases
// neither end at once nor last for longer, and what it delays is delayed by as
// much as it says.
// Reported as fastclaw-ai/fastclaw#86 and sidekiq/sidekiq#3738.
func TestClockOfAWorker(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, outside *rig) {
		for _, off := range []time.Duration{-10 * time.Minute, 10 * time.Minute} {
			retried, done := outside.enqueue(job{Text: "fail"}, nil), outside.enqueue(job{}, nil)
			now := time.Now()
			synctest.Test(t, func(t *testing.T) {
				<-time.After(time.Until(now.Add(off))) // the bubble's clock begins long ago
				db, err := openURL(t.Context(), outside.db.Schema, outside.db.URL)
				require.NoError(t, err)
				r := newRig(t, testdb.DB{DB: db, Schema: outside.db.Schema, URL: outside.db.URL})
				w, f, _ := r.faulty(worker.Config{RetryPolicy: worker.Delays{time.Hour}})
				f.Before(func(method string) error {
					if method == "Listen" { // the clock stands while anybody waits for the network
						return store.ErrNoListen
					}
					return nil
				})
				type sight struct {
					held message.Message
					lost int
				}
				sights := make(chan sight, 2)
				worker.Handle(w, func(_ context.Context, m *worker.Message[job]) error {
					sights <- sight{r.get(m.ID), len(r.reap())}
					if m.Payload.Text != "" {
						return errBroken
					}
					return nil
				}, nil)
				ctx, cancel := context.WithCancel(t.Context())
				ran := make(chan error)
				go func() { ran <- w.Run(ctx) }()
				for range 2 {
					s := <-sights
					require.Zero(t, s.lost)
					require.Equal(t, message.StatusProcessing, s.held.Status)
					require.WithinDuration(t, now, s.held.UpdatedAt, 2*time.Minute)
					require.InDelta(t, worker.DefaultTimeout+worker.AbandonAfter+worker.DefaultLease,
						s.held.Deadline.Sub(s.held.UpdatedAt), float64(time.Minute))
				}
				r.wait(message.StatusSucceeded, done)
				cancel()
				require.NoError(t, <-ran)
				<-time.After(time.Minute) // whoever wakes workers comes to an end
				require.NoError(t, db.Close())
			})
			as := outside.attempts(retried)
			require.Len(t, as, 1)
			require.WithinDuration(t, now, as[0].FinishedAt, 2*time.Minute)
			require.Equal(t, time.Hour, as[0].RetryAfter.Sub(as[0].FinishedAt).Round(time.Minute))
		}
	})
}
