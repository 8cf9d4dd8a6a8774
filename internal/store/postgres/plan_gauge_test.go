package postgres_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/internal/store"
	"github.com/styxmq/styx/internal/store/postgres"
)

// planNode is a part of what EXPLAIN (ANALYZE, FORMAT JSON) tells.
type planNode struct {
	Type     string `json:"Node Type"`
	Relation string `json:"Relation Name"`
	// Rows are those of one loop, a mean.
	Rows    float64    `json:"Actual Rows"`
	Loops   float64    `json:"Actual Loops"`
	Removed float64    `json:"Rows Removed by Filter"`
	Recheck float64    `json:"Rows Removed by Index Recheck"`
	Plans   []planNode `json:"Plans"`
}

// read adds up the rows that were read from each table, and lists the tables
// that were scanned as a whole.
func (n planNode) read(rows map[string]float64, whole map[string]bool) {
	if n.Relation != "" {
		rows[n.Relation] += (n.Rows + n.Removed + n.Recheck) * n.Loops
		if strings.Contains(n.Type, "Seq Scan") || strings.Contains(n.Type, "Bitmap") {
			whole[n.Relation] = true
		}
	}
	for _, p := range n.Plans {
		p.read(rows, whole)
	}
}

// What Gauge reads of tables that are large is bounded, whatever the
// statistics say and whether a plan knows its arguments or not.
func TestGaugeReadsLittleOfLargeTables(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, table := range []string{"messages", "dead_letters", "claims", "workers"} {
		f.exec(t, `ALTER TABLE {{s}}`+table+` SET (autovacuum_enabled = off)`)
		f.exec(t, `ALTER TABLE {{s}}`+table+` SET UNLOGGED`) // faster to fill
	}
	f.exec(t, `ANALYZE {{s}}messages, {{s}}dead_letters, {{s}}claims, {{s}}workers`)
	require.NoError(t, f.EnsurePartition(t.Context()))

	// Ready, due for a retry, suspect, not due, and held by workers of which
	// some are late.
	f.exec(t, `INSERT INTO {{s}}messages (queue, kind, payload, max_retries, status, worker_id, deadline, due_at, retry_count, losses)
		SELECT 'q' || i % 2, 'work', 'x', 5, (i % 100 = 0)::int, (i % 100 = 0)::int, CASE WHEN i % 100 = 0 THEN now() - interval '1 h' ELSE '-infinity' END,
		       CASE WHEN i % 8 > 3 THEN now() + (i % 1000 - 500) * interval '1 s' END, i % 5, (i % 40 > 36)::int FROM generate_series(1, 100000) i`)
	f.exec(t, `INSERT INTO {{s}}claims SELECT worker_id, min(id), min(deadline), array_agg(id) FROM {{s}}messages WHERE status = 1 GROUP BY worker_id, id / 1000`)
	f.exec(t, `INSERT INTO {{s}}archive (id, lease_token, worker_id, created_at, finished_at, retry_count, max_retries, priority, losses, snoozes, replay_count, queue, kind)
		SELECT -i, 1, 1, now(), now(), i % 5, 5, 0, 0, 0, 0, 'q' || i % 2, 'work' FROM generate_series(1, 50000) i`)
	f.exec(t, `INSERT INTO {{s}}dead_letters (message_id, lease_token, worker_id, created_at, dead_at, resolved_at, timeout_ms, retry_count, max_retries,
		       priority, losses, snoozes, replay_count, queue, kind, payload, decision, fingerprint)
		SELECT -i, 1, 1, now(), now() - (50000 - i) * interval '1 s', CASE WHEN i % 5 = 0 THEN now() END, 0, 1 + i % 5, 5,
		       0, 0, 0, 0, 'q' || i % 2, 'work', 'x', 'exhausted', CASE WHEN i % 2 = 0 THEN 'often' ELSE 'print ' || i END FROM generate_series(1, 50000) i`)

	// A queue of which there is little, behind everything else.
	f.exec(t, `INSERT INTO {{s}}messages (queue, kind, payload, max_retries) VALUES ('rare', 'work', 'x', 5)`)
	f.exec(t, `INSERT INTO {{s}}dead_letters (message_id, lease_token, worker_id, created_at, dead_at, timeout_ms, retry_count, max_retries,
		       priority, losses, snoozes, replay_count, queue, kind, payload, decision, fingerprint)
		VALUES (1, 1, 1, now(), now(), 0, 1, 1, 0, 0, 0, 0, 'rare', 'work', 'x', 'exhausted', 'rare')`)

	const queues = 3
	bounds := map[string]map[string]float64{
		// Up to the cap of what is ready, due and not due in each queue, and what is suspect, past
		// what is claimed; and each claimed id.
		"stats":   {"messages": 4*2*store.StatsCap + 2*100_000/100, "dead_letters": queues * (store.StatsCap + 10)},
		"overdue": {"messages": postgres.GaugeClaims * 10},
		// The oldest twentieth and the newest.
		"percentiles": {"messages": queues * store.GaugeSample, "dead_letters": queues * (store.GaugeSample + store.StatsCap/20 + 1)},
		"first seen":  {"dead_letters": postgres.GaugeFingerprints + store.GaugeFingerprints + 10},
	}
	check := func(state, mode string) {
		tx, err := f.db.DB.DB.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		defer func() { require.NoError(t, tx.Rollback()) }()
		exec := func(q string) {
			_, err := tx.ExecContext(t.Context(), q)
			require.NoError(t, err, q)
		}
		exec(postgres.CalmSettings)
		exec(`SET LOCAL plan_cache_mode = ` + mode)
		for name, statement := range f.GaugeStatements(`('{q0,q1,rare}', '{501,501,1}')`) {
			exec(`PREPARE gauge AS ` + statement[0])
			var text string
			require.NoError(t, tx.QueryRowContext(t.Context(), `EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) EXECUTE gauge`+statement[1]).Scan(&text))
			exec(`DEALLOCATE gauge`)
			var plans []struct{ Plan planNode }
			require.NoError(t, json.Unmarshal([]byte(text), &plans))
			rows, whole := map[string]float64{}, map[string]bool{}
			plans[0].Plan.read(rows, whole)
			what := name + ", " + state + ", " + mode + ":\n" + text
			delete(whole, "workers") // there is no index, and a row for each incarnation
			delete(whole, "claims")  // what is in flight
			require.Empty(t, whole, what)
			delete(rows, "workers")
			delete(rows, "claims")
			for table, n := range rows {
				require.Positive(t, n, "%s reads nothing of %s, %s", name, table, what)
				require.LessOrEqual(t, n, bounds[name][table], "%s reads too much of %s, %s", name, table, what)
			}
			require.Len(t, rows, len(bounds[name]), what)
		}
	}
	for _, mode := range []string{"force_generic_plan", "force_custom_plan"} {
		check("analysed when empty", mode)
	}
	f.exec(t, `ANALYZE {{s}}messages, {{s}}dead_letters, {{s}}claims, {{s}}workers`)
	for _, mode := range []string{"force_generic_plan", "force_custom_plan"} {
		check("analysed", mode)
	}
	g, err := f.Gauge(t.Context())
	require.NoError(t, err)
	require.Len(t, g.Queues, queues)
	require.Len(t, g.Fingerprints, store.GaugeFingerprints)
}
