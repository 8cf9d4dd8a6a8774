package postgres_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/internal/store/postgres"
	"github.com/styxmq/styx/internal/testdb"
)

// fixture is a migrated schema of one test.
type fixture struct {
	*postgres.Store
	db testdb.DB
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	db := testdb.Postgres(t)
	s, err := postgres.New(db.DB, db.Schema)
	require.NoError(t, err)
	_, err = s.Migrate(t.Context())
	require.NoError(t, err)
	return fixture{Store: s, db: db}
}

// text puts the schema in for {{s}}.
func (f fixture) text(statement string) string {
	return strings.ReplaceAll(statement, "{{s}}", `"`+f.db.Schema+`".`)
}

func (f fixture) exec(t *testing.T, statement string, args ...any) {
	t.Helper()
	_, err := f.db.DB.DB.ExecContext(t.Context(), f.text(statement), args...)
	require.NoError(t, err)
}

// value reads one column of one row.
func value[T any](t *testing.T, f fixture, statement string, args ...any) (v T) {
	t.Helper()
	require.NoError(t, f.db.DB.DB.QueryRowContext(t.Context(), f.text(statement), args...).Scan(&v))
	return v
}

// begin opens a transaction that ends with the test at the latest.
func (f fixture) begin(t *testing.T, level sql.IsolationLevel) *sql.Tx {
	t.Helper()
	tx, err := f.db.DB.DB.BeginTx(context.WithoutCancel(t.Context()), &sql.TxOptions{Isolation: level})
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

// message adds a row to messages and returns its id. columns and values come
// after those that every row needs.
func (f fixture) message(t *testing.T, columns, values string) int64 {
	t.Helper()
	if columns != "" {
		columns, values = ", "+columns, ", "+values
	}
	return value[int64](t, f, `INSERT INTO {{s}}messages (queue, kind, payload, max_retries`+columns+`)
		VALUES ('default', 'work', '{"n":1}', 5`+values+`) RETURNING id`)
}

// worker registers a worker by hand; sql expressions for its last beat and
// its death.
func (f fixture) worker(t *testing.T, beatAt, deadAt string) int64 {
	t.Helper()
	return value[int64](t, f, `INSERT INTO {{s}}workers
		(started_at, beat_at, dead_at, lease_ms, pid, concurrency, name, host, version, queues, kinds)
		VALUES (clock_timestamp(), `+beatAt+`, `+deadAt+`, 15000, 1, 10, 'w', 'h', 'v1.2', '{default}', '{}') RETURNING id`)
}
