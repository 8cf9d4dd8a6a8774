package worker_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
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

// tables are the names of the tables that hold anything, as SQL.
func (r *rig) tables() (names []string) {
	r.t.Helper()
	query := "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'styx%'"
	if r.db.Schema != "" {
		query = `SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
			WHERE n.nspname = '` + r.db.Schema + `' AND c.relkind IN ('r', 'p') AND NOT c.relispartition`
	}
	rows, err := r.db.QueryContext(r.t.Context(), query)
	require.NoError(r.t, err)
	require.NoError(r.t, r.db.ScanRows(r.t.Context(), rows, &names))
	require.NotEmpty(r.t, names)
	return names
}
