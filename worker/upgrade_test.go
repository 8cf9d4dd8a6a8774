package worker_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
	"github.com/styxmq/styx/worker"
)

// A migration that adds columns disturbs nobody who works meanwhile: no
// statement asks for all columns, so that no prepared plan changes its result.
// Reported as bensheldon/good_job#269 and riverqueue/river#238.
func TestColumnsAreAddedUnderWorkers(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		w, log := r.worker(worker.Config{RetryPolicy: soon})
		var ran atomic.Int64
		worker.Handle(w, func(_ context.Context, m *worker.Message[job]) error {
			switch ran.Add(1); {
			case m.Payload.N%3 == 0 && m.Attempt == 1:
				return errBroken
			case m.Payload.N == 25:
				return worker.Permanent(errBroken)
			}
			return nil
		}, nil)
		r.start(w)
		work := func() {
			before := r.counted(message.StatusSucceeded)
			ids := r.jobs(30, &client.EnqueueOptions{Queue: "default"})
			r.wait(message.StatusDead, ids[25])
			require.NoError(t, r.client.DeadLetters().Resolve(t.Context(), ids[25], nil))
			until(t, "the others are done", func() bool { return r.counted(message.StatusSucceeded) == before+29 })
			r.get(ids[0])
			r.attempts(ids[0])
			page, err := r.client.List(t.Context(), client.ListOptions{Limit: 100})
			require.NoError(t, err)
			require.NotEmpty(t, page.Messages)
			_, err = r.client.Stats(t.Context())
			require.NoError(t, err)
			r.reap()
		}
		work() // prepares every statement
		lines := len(log.lines(t))
		for i, table := range r.tables() {
			_, err := r.db.ExecContext(t.Context(), fmt.Sprintf("ALTER TABLE %s ADD COLUMN added_%d integer", table, i))
			require.NoError(t, err)
		}
		work()
		work()
		require.Len(t, log.lines(t), 3*lines, "one line for each failure, and no other")
	})
}

// newer is the store of the version after this one.
type newer struct{ store.Store }

func (n newer) SchemaVersion(ctx context.Context) (current, known int, err error) {
	current, known, err = n.Store.SchemaVersion(ctx)
	return current, known + 1, err
}

// An upgrade under load: a worker from before a migration goes on after it,
// beside one that knows it, until it is stopped; nothing is lost, nothing runs
// twice, no statement that was prepared before fails. An old worker that
// starts now says why it does not.
func TestWorkersOfTwoVersions(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		var ran [2]tally
		begin := func(i int, st store.Store) (*running, *journal) {
			j := &journal{}
			w, err := worker.NewOn(st, worker.Config{
				Concurrency: 4, RetryPolicy: soon, PollInterval: 50 * time.Millisecond, Logger: slog.New(slog.NewJSONHandler(j, nil)),
			})
			require.NoError(t, err)
			worker.Handle(w, func(_ context.Context, m *worker.Message[job]) error {
				if m.Payload.N%5 == 0 && m.Attempt == 1 {
					return errBroken
				}
				ran[i].add(m.ID)
				return nil
			}, nil)
			return r.start(w), j
		}
		var ids []int64
		ranAfter := func(i int, id int64) bool {
			ran[i].mu.Lock()
			defer ran[i].mu.Unlock()
			for done := range ran[i].ran {
				if done > id {
					return true
				}
			}
			return false
		}
		load := func(what string, enough func() bool) {
			until(t, what, func() bool {
				ids = append(ids, r.jobs(10, nil)...)
				ids = append(ids, r.enqueue(job{N: 1}, nil))
				return enough()
			})
		}
		before, log := begin(0, r.store)
		load("the old one is at work", func() bool { return ranAfter(0, 0) })

		last := ids[len(ids)-1]
		for _, text := range []string{
			"ALTER TABLE {{s}}messages ADD COLUMN remark text",
			"ALTER TABLE {{s}}archive ADD COLUMN remark text",
			"CREATE TABLE {{s}}remarks (id bigint NOT NULL PRIMARY KEY)",
			"INSERT INTO {{s}}migrations (version, name) SELECT max(version) + 1, 'test' FROM {{s}}migrations",
		} {
			_, err := r.db.ExecContext(t.Context(), r.text(text))
			require.NoError(t, err, text)
			load("the old one goes on", func() bool { return ranAfter(0, last) })
		}
		last = ids[len(ids)-1]
		after, newLog := begin(1, newer{r.store})
		load("both are at work", func() bool { return ranAfter(0, last) && ranAfter(1, last) })

		refused, _ := r.worker(worker.Config{})
		worker.Handle(refused, ran[0].handle, nil)
		require.ErrorIs(t, refused.Run(t.Context()), message.ErrSchemaNewer)

		require.NoError(t, before.stop())
		r.wait(message.StatusSucceeded, ids...)
		require.NoError(t, after.stop())
		for _, id := range ids {
			require.Equal(t, 1, ran[0].of(id)+ran[1].of(id), "message %d", id)
		}
		for _, line := range append(log.lines(t), newLog.lines(t)...) {
			require.Equal(t, errBroken.Error(), line["error"], "%v", line)
		}
	})
}

// tables are the names of the tables that hold anything, as SQL.
func (r *rig) tables() (names []string) {
	r.t.Helper()
	query := "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'styx%'"
	if r.db.Schema != "" {
		query = `SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
			WHERE n.nspname = '` + r.db.Schema + `' AND c.relkind IN ('r', 'p') AND NOT c.relispartition`
	}
	require.NoError(r.t, r.db.NewRaw(query).Scan(r.t.Context(), &names))
	require.NotEmpty(r.t, names)
	return names
}
