package postgres_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/internal/store/postgres"
)

// explain returns the plan of a statement without parameters, as it is made
// under the settings of the statements that are not hot.
func (f fixture) explain(t *testing.T, statement string) string {
	t.Helper()
	tx, err := f.db.DB.DB.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback()) }()
	_, err = tx.ExecContext(t.Context(), postgres.CalmSettings)
	require.NoError(t, err)
	rows, err := tx.QueryContext(t.Context(), "EXPLAIN (COSTS OFF) "+f.text(statement))
	require.NoError(t, err)
	defer func() { require.NoError(t, rows.Close()) }()
	var lines []string
	for rows.Next() {
		var line string
		require.NoError(t, rows.Scan(&line))
		lines = append(lines, line)
	}
	require.NoError(t, rows.Err())
	return strings.Join(lines, "\n")
}

// The reaper's statements must find messages by their primary key whatever
// the statistics say, and Stats by its indexes.
func TestColdPlans(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	fill := func() {
		f.exec(t, `INSERT INTO {{s}}messages (queue, kind, payload, max_retries, status, worker_id, due_at, losses)
			SELECT 'q' || i % 5, 'work', repeat('x', 200), 5, (i % 50 = 0)::int, (i % 50 = 0)::int * (1 + i % 7),
			       CASE WHEN i % 3 = 0 THEN now() + i % 1000 * interval '1 s' END, (i % 30 = 0)::int FROM generate_series(1, 8000) i`)
		f.exec(t, `INSERT INTO {{s}}claims SELECT worker_id, min(id), now() + id % 2 * interval '1 hour', array_agg(id)
			FROM {{s}}messages WHERE status = 1 GROUP BY worker_id, id % 2, id / 500`)
	}
	check := func(state string) {
		t.Helper()
		for _, limit := range []int{10, 1000} {
			plan := f.explain(t, f.RescueStatement(limit))
			require.NotContains(t, plan, "Seq Scan on messages", "%s, limit %d:\n%s", state, limit, plan)
			require.Equal(t, 3, strings.Count(plan, "messages_pkey"), "%s, limit %d:\n%s", state, limit, plan)
		}
		plan := f.explain(t, f.StatsStatement())
		require.NotContains(t, plan, "Seq Scan on messages", "%s:\n%s", state, plan)
	}
	f.exec(t, `ANALYZE {{s}}messages`)
	fill()
	check("analysed when empty")
	f.exec(t, `ANALYZE {{s}}messages, {{s}}claims, {{s}}workers`)
	check("analysed")
	f.exec(t, `DELETE FROM {{s}}claims`)
	f.exec(t, `ANALYZE {{s}}claims`)
	fill()
	check("analysed without claims")
	f.exec(t, `UPDATE {{s}}messages SET status = 1, worker_id = 1`)
	f.exec(t, `ANALYZE {{s}}messages`)
	check("all processing")
	f.exec(t, `UPDATE {{s}}messages SET due_at = NULL, losses = 0, status = 0, worker_id = 0`)
	f.exec(t, `ANALYZE {{s}}messages`)
	check("all ready")
}
