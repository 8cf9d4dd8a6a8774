package worker_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/worker"
)

// Every number that the database gives may need more than 32 bits, in every
// statement, those of a stop and of a replay among them.
// Reported as graphile/worker#617, graphile/worker#619 and
// e621ng/e621ng#1538.
func TestNumbersBeyond32Bits(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		const beyond = 3_000_000_000
		if r.db.Schema == "" {
			_, err := r.db.ExecContext(t.Context(), "DELETE FROM sqlite_sequence")
			require.NoError(t, err)
			r.exec("INSERT INTO sqlite_sequence SELECT name, ? FROM sqlite_master WHERE type = 'table' AND sql LIKE '%AUTOINCREMENT%'", int64(beyond))
		} else {
			r.exec("SELECT setval(format('%I.%I', schemaname, sequencename), ?) FROM pg_sequences WHERE schemaname = ?", int64(beyond), r.db.Schema)
		}
		began := make(chan int64, 10)
		start := func() *running {
			w, _ := r.worker(worker.Config{RetryPolicy: soon, Grace: 500 * time.Millisecond})
			worker.Handle(w, func(ctx context.Context, m *worker.Message[job]) error {
				began <- m.ID
				switch {
				case m.ReplayCount == 0:
					return errBroken
				case len(r.attempts(m.ID)) == 2:
					if err := m.Extend(ctx, time.Minute); err != nil {
						return err
					}
					<-ctx.Done()
					return ctx.Err()
				}
				return nil
			}, nil)
			return r.start(w)
		}
		run := start()
		var ids []int64
		for range 3 {
			ids = append(ids, r.enqueue(job{}, &client.EnqueueOptions{MaxRetries: 2, IdempotencyKey: literal(int64(len(ids)))}))
		}
		require.Greater(t, ids[0], int64(beyond))
		r.wait(message.StatusDead, ids...)
		for range 6 {
			receive(t, began)
		}
		l := r.letter(ids[0])
		require.Greater(t, l.LetterID, int64(beyond))
		require.Greater(t, r.attempts(ids[0])[0].WorkerID, int64(beyond))
		page, err := r.client.DeadLetters().List(t.Context(), client.DeadLetterOptions{Limit: 2})
		require.NoError(t, err)
		page, err = r.client.DeadLetters().List(t.Context(), client.DeadLetterOptions{Limit: 2, Cursor: page.Next})
		require.NoError(t, err)
		require.Len(t, page.DeadLetters, 1)
		require.NoError(t, r.client.DeadLetters().Resolve(t.Context(), ids[1], nil))
		n, err := r.client.DeadLetters().Purge(t.Context(), client.PurgeOptions{MessageID: ids[2]})
		require.NoError(t, err)
		require.Equal(t, 1, n)

		require.NoError(t, r.client.DeadLetters().Replay(t.Context(), ids[0], nil))
		require.Equal(t, ids[0], receive(t, began))
		require.NoError(t, run.stop())
		require.Equal(t, message.StatusPending, r.get(ids[0]).Status)
		require.Len(t, r.attempts(ids[0]), 3)
		start()
		r.wait(message.StatusSucceeded, ids[0])
		list, err := r.client.List(t.Context(), client.ListOptions{Limit: 1})
		require.NoError(t, err)
		require.Equal(t, ids[0], list.Messages[0].ID)
		list, err = r.client.List(t.Context(), client.ListOptions{Limit: 1, Cursor: list.Next})
		require.NoError(t, err)
		require.Equal(t, ids[1], list.Messages[0].ID)
	})
}
