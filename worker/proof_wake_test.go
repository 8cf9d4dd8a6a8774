package worker_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/testdb"
	"github.com/styxmq/styx/worker"
)

// listener is a worker that only a wake-up can lead to a message.
func (r *rig) listener() chan int64 {
	r.t.Helper()
	seen := make(chan int64, 100)
	w, _ := r.worker(worker.Config{PollInterval: 10 * time.Minute})
	worker.Handle(w, func(_ context.Context, m *worker.Message[job]) error {
		seen <- m.ID
		return nil
	}, nil)
	r.start(w)
	first := r.enqueue(job{}, nil)
	require.Equal(r.t, first, receive(r.t, seen))
	return seen
}

// Two messages shortly after each other, then silence: the second comes just
// when the worker has found nothing more after the first.
func TestProofPairsWakeTheWorker(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		seen := r.listener()
		for i := range 200 {
			first := r.enqueue(job{}, nil)
			<-time.After(time.Duration(i%7) * time.Millisecond)
			second := r.enqueue(job{}, nil)
			require.ElementsMatch(t, []int64{first, second}, []int64{receive(t, seen), receive(t, seen)}, i)
		}
	})
}

// A message of a transaction is seen from its commit on, and not when it was
// enqueued.
// Reported as que-rb/que#409.
func TestProofTransactionsWakeTheWorker(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		seen := r.listener()
		for i := range 50 {
			var id int64
			err := r.db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
				m, err := r.client.EnqueueTx(ctx, tx, job{}, nil)
				if err != nil {
					return err
				}
				id = m.ID
				<-time.After(time.Duration(i%3) * 10 * time.Millisecond)
				return nil
			})
			require.NoError(t, err)
			require.Equal(t, id, receive(t, seen), i)
		}
	})
}

// Ids do not commit in their order. PostgreSQL only: SQLite has one writer,
// and no second one can get a higher id meanwhile.
// Reported as ThreeDotsLabs/watermill#311.
func TestProofLowerIDCommitsLate(t *testing.T) {
	r := onPostgres(t)
	w, _ := r.worker(worker.Config{})
	worker.Handle(w, func(context.Context, *worker.Message[job]) error { return nil }, nil)
	r.start(w)
	for range 3 {
		tx, err := r.db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		late, err := r.client.EnqueueTx(t.Context(), tx, job{}, nil)
		require.NoError(t, err)
		others := r.jobs(500, nil)
		require.Less(t, late.ID, others[0])
		r.wait(message.StatusSucceeded, others...)
		require.NoError(t, tx.Commit())
		var committed time.Time
		require.NoError(t, r.db.QueryRowContext(t.Context(), "SELECT clock_timestamp()").Scan(&committed))
		m := r.wait(message.StatusSucceeded, late.ID)
		require.Less(t, m.UpdatedAt.Sub(committed), time.Second+slack)
	}
}

// Client, worker and database each in another time zone see the same times.
// Reported as raystack/entropy#91 and fluxcd/flux#430.
func TestProofTimeZones(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		if r.db.Schema != "" {
			separator := " "
			if strings.Contains(r.db.URL, "://") {
				separator = "&"
			}
			r.db.URL += separator + "TimeZone=Pacific/Apia"
			db := r.open()
			var shown string
			require.NoError(t, db.QueryRowContext(t.Context(), "SHOW TimeZone").Scan(&shown))
			require.Equal(t, "Pacific/Apia", shown)
			r.db = testdb.DB{DB: db, Schema: r.db.Schema, URL: r.db.URL}
		}
		at := time.Now().Add(10 * time.Second).Truncate(time.Second) // time enough for a process to begin
		enqueue := r.spawn("enqueue", "TZ=Asia/Tokyo", atVariable+"="+strconv.FormatInt(at.Unix(), 10))
		var ids []int64
		for _, line := range enqueue.rest() {
			id, err := strconv.ParseInt(line, 10, 64)
			require.NoError(t, err)
			ids = append(ids, id)
		}
		require.NoError(t, enqueue.wait())
		require.Len(t, ids, 6)
		require.True(t, r.get(ids[1]).RetryAfter.Equal(at))
		r.reaper()
		w := r.spawn("work", "TZ=America/New_York")

		r.wait(message.StatusSucceeded, ids[0], ids[1], ids[2], ids[5])
		require.False(t, r.get(ids[1]).UpdatedAt.Before(at), "before its time")
		delayed := r.get(ids[2])
		require.GreaterOrEqual(t, delayed.UpdatedAt.Sub(delayed.CreatedAt), 2*time.Second)
		hour := r.get(ids[3])
		require.Equal(t, message.StatusPending, hour.Status)
		require.Equal(t, time.Hour, hour.RetryAfter.Sub(hour.CreatedAt).Round(time.Second))
		require.Equal(t, 2*time.Hour, hour.ExpiresAt.Sub(hour.CreatedAt).Round(time.Second))
		r.wait(message.StatusDead, ids[4])
		l := r.letter(ids[4])
		for _, moment := range []time.Time{l.CreatedAt, l.FirstFailedAt, l.LastFailedAt, l.DeadAt} {
			require.WithinDuration(t, at, moment, 10*time.Minute)
			require.Equal(t, time.UTC, moment.Location())
		}
		require.Equal(t, 2, l.AttemptsUsed)
		w.cmd.Process.Kill() //nolint:errcheck // the test's end would do it
	})
}
