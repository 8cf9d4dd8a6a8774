package worker_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/client/postgres"
	"github.com/styxmq/styx/internal/testdb"
	"github.com/styxmq/styx/internal/testdb/server"
	"github.com/styxmq/styx/reaper"
	"github.com/styxmq/styx/worker"
)

// Behind PgBouncer in transaction mode every transaction may have another
// connection; everything works there with the two protocols that need no
// prepared statement: enqueues of all sorts, two workers, retries, dead
// letters, replays, completion in a transaction, lists, and a reaper that
// brings back what a lost worker held.
func TestPgBouncer(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"cache_describe", "exec"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			behind := testdb.Postgres(t)
			pooler, err := server.StartPooler(t.Context(), behind.URL, 6)
			if errors.Is(err, server.ErrNoPooler) && os.Getenv("CI") != "true" {
				t.Skip(err)
			}
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, pooler.Stop()) })
			address := pooler.URL() + "&default_query_exec_mode=" + mode
			db, err := postgres.Open(t.Context(), address)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, db.Close()) })
			roundTrip(t, newRig(t, testdb.DB{DB: db, Schema: behind.Schema, URL: address}))
		})
	}
}

// roundTrip lets a message go each way that there is.
func roundTrip(t *testing.T, r *rig) {
	t.Helper()
	single := r.enqueue(job{N: 1}, &client.EnqueueOptions{IdempotencyKey: "once", Headers: map[string]string{"k": "v"}})
	_, err := r.client.Enqueue(t.Context(), job{N: 1}, &client.EnqueueOptions{IdempotencyKey: "once"})
	var duplicate *message.DuplicateError
	require.ErrorAs(t, err, &duplicate)
	require.Equal(t, single, duplicate.ID)
	ids := append(r.jobs(200, &client.EnqueueOptions{MaxRetries: 3}), single)
	for _, commit := range []bool{true, false} {
		tx, err := r.db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		m, err := r.client.EnqueueTx(t.Context(), tx, job{N: 2}, nil)
		require.NoError(t, err)
		if commit {
			require.NoError(t, tx.Commit())
			ids = append(ids, m.ID)
			continue
		}
		require.NoError(t, tx.Rollback())
		_, err = r.client.Get(t.Context(), m.ID)
		require.ErrorIs(t, err, message.ErrNotFound)
	}
	delayed := r.enqueue(job{N: 3}, &client.EnqueueOptions{Delay: 500 * time.Millisecond})
	bad := r.enqueue(job{Text: "dead"}, nil)
	atomic := r.enqueue(job{Text: "tx"}, nil)

	// A worker that is lost with one message, and has no slot left to take it
	// once more when it is brought back.
	lost, log := r.worker(worker.Config{Lease: time.Hour, Queues: []worker.Queue{{Name: "lost", Concurrency: 1}}})
	held, resume := make(chan int64, 1), make(chan struct{})
	worker.Handle(lost, func(ctx context.Context, m *worker.Message[job]) error {
		held <- m.ID
		<-resume
		return nil
	}, nil)
	orphan := r.enqueue(job{}, in("lost"))
	run := r.start(lost)
	receive(t, held)
	r.exec("UPDATE {{s}}workers SET beat_at = {{long ago}}")

	rp, err := reaper.New(r.db.DB, reaper.Config{Schema: r.db.Schema, Rescue: "@every 100ms", Logger: discard()})
	require.NoError(t, err)
	reaping, stop := context.WithCancel(t.Context())
	reaped := make(chan error, 1)
	go func() { reaped <- rp.Run(reaping) }()

	var ran, mended tally
	workers := make([]*running, 2)
	for i := range workers {
		w, _ := r.worker(worker.Config{
			Lease: time.Minute, RetryPolicy: soon, PollInterval: 100 * time.Millisecond, Queues: []worker.Queue{{Name: "default"}, {Name: "lost"}},
		})
		worker.Handle(w, func(ctx context.Context, m *worker.Message[job]) error {
			ran.add(m.ID)
			switch {
			case m.Payload.Text == "dead" && m.ReplayCount == 0:
				return worker.Permanent(errBroken)
			case m.Payload.Text == "tx":
				return completeWith(ctx, r, m)
			case m.Payload.N%5 == 4 && m.Attempt == 1:
				return errBroken
			}
			mended.add(m.ID)
			return nil
		}, nil)
		workers[i] = r.start(w)
	}
	r.wait(message.StatusDead, bad)
	require.Equal(t, message.DecisionPoison, r.letter(bad).Decision)
	require.NoError(t, r.client.DeadLetters().Replay(t.Context(), bad, &client.ReplayOptions{Actor: "test"}))
	ids = append(ids, delayed, bad, orphan)
	r.wait(message.StatusSucceeded, append(ids, atomic)...)
	for _, id := range ids {
		require.Equal(t, 1, mended.of(id), "message %d", id)
	}
	require.Equal(t, 1, ran.of(atomic))
	require.Equal(t, 1, r.get(orphan).RetryCount, "a lost worker is charged")
	page, err := r.client.List(t.Context(), client.ListOptions{Limit: 1000})
	require.NoError(t, err)
	require.Len(t, page.Messages, len(ids)+1)
	_, err = r.client.Stats(t.Context())
	require.NoError(t, err)

	close(resume)
	require.NoError(t, run.stop())
	require.NotEmpty(t, log.lines(t), "the lost worker tells that it was")
	for _, w := range workers {
		require.NoError(t, w.stop())
	}
	stop()
	require.NoError(t, <-reaped)
	require.Equal(t, 1, ran.of(orphan))
}

// completeWith settles inside a transaction of the handler's own.
func completeWith(ctx context.Context, r *rig, m *worker.Message[job]) error {
	tx, err := r.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := m.CompleteTx(ctx, tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}
