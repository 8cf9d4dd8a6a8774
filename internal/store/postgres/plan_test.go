package postgres_test

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/internal/store/postgres"
	"github.com/styxmq/styx/internal/testdb"
)

// The states of the table and its statistics in which each hot statement must
// keep its plan. {{m}} is the messages table.
var planStates = []struct {
	name  string
	steps []string
}{
	{"new", []string{fill(1000, "NULL")}},
	{"analysed empty, then filled", []string{`ANALYZE {{m}}`, fill(30_000, "NULL")}},
	{"vacuumed empty, then filled", []string{`VACUUM ANALYZE {{m}}`, fill(30_000, "NULL")}},
	{"analysed full", []string{fill(30_000, "NULL"), `ANALYZE {{m}}`}},
	{"analysed full, then drained", []string{fill(30_000, "NULL"), `ANALYZE {{m}}`, `DELETE FROM {{m}}`, fill(10, "NULL")}},
	{"drained and vacuumed", []string{fill(30_000, "NULL"), `DELETE FROM {{m}}`, `VACUUM ANALYZE {{m}}`, fill(10, "NULL")}},
	{"mostly not due", []string{fill(30_000, "now() + interval '1 day'"), fill(100, "NULL"), `ANALYZE {{m}}`}},
	{"all due", []string{fill(30_000, "now() - id * interval '1 ms'"), `ANALYZE {{m}}`}},
	{"mostly processing", []string{fill(30_000, "NULL"), `UPDATE {{m}} SET status = 1 WHERE id % 100 > 0`, `ANALYZE {{m}}`}},
	{"another queue and kind", []string{
		strings.ReplaceAll(fill(20_000, "NULL"), "'q'", "'other'"), strings.ReplaceAll(fill(20_000, "NULL"), "'a'", "'foreign'"),
		fill(100, "NULL"), `ANALYZE {{m}}`,
	}},
}

func fill(n int, due string) string {
	return fmt.Sprintf(`INSERT INTO {{m}} (id, queue, kind, payload, max_retries, due_at)
	SELECT id, 'q', 'a', repeat('x', 100), 5, %s
	  FROM (SELECT nextval(pg_get_serial_sequence('{{m}}', 'id')) AS id FROM generate_series(1, %d)) AS n`, due, n)
}

func TestHotStatementsKeepTheirPlansInEveryStateOfTheStatistics(t *testing.T) {
	t.Parallel()
	for _, state := range planStates {
		t.Run(state.name, func(t *testing.T) {
			t.Parallel()
			db := testdb.Postgres(t)
			st, err := postgres.New(db.DB, db.Schema)
			require.NoError(t, err)
			_, err = st.Migrate(t.Context())
			require.NoError(t, err)
			conn, err := db.DB.DB.Conn(t.Context())
			require.NoError(t, err)
			defer func() { require.NoError(t, conn.Close()) }()
			exec := func(q string) {
				q = strings.ReplaceAll(q, "{{m}}", db.Schema+".messages")
				_, err := conn.ExecContext(t.Context(), q)
				require.NoError(t, err, q)
			}
			exec(`ALTER TABLE {{m}} SET (autovacuum_enabled = off)`)
			for _, step := range state.steps {
				exec(step)
			}
			for i, hot := range postgres.HotStatements(db.Schema) {
				exec(fmt.Sprintf("PREPARE p%d AS %s", i, hot.Text))
				for _, mode := range []string{"force_generic_plan", "force_custom_plan"} {
					exec("SET plan_cache_mode = " + mode)
					plan := explain(t, conn, fmt.Sprintf("EXPLAIN EXECUTE p%d(%s)", i, hot.Args))
					what := hot.Name + ", " + mode + ":\n" + plan
					require.NotContains(t, plan, "Seq Scan on messages", what)
					require.NotContains(t, plan, "JIT", what)
					for _, index := range hot.Index {
						require.Contains(t, plan, index, what)
					}
				}
			}
		})
	}
}

func explain(t *testing.T, conn *sql.Conn, query string) string {
	t.Helper()
	rows, err := conn.QueryContext(t.Context(), query)
	require.NoError(t, err, query)
	defer func() { require.NoError(t, rows.Close()) }()
	var plan strings.Builder
	for rows.Next() {
		var line string
		require.NoError(t, rows.Scan(&line))
		plan.WriteString(line + "\n")
	}
	require.NoError(t, rows.Err())
	return plan.String()
}
