package postgres_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What counts for ever needs 64 bits: ids, and the sequences that give them,
// which an insert that is refused uses up as well.
// Reported as graphile/worker#619 and airbytehq/airbyte#15908.
func TestIDsAreWide(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	require.Empty(t, value[string](t, f, `SELECT coalesce(string_agg(sequencename, ' '), '') FROM pg_sequences
		WHERE schemaname = $1 AND (data_type <> 'bigint'::regtype OR max_value < 9223372036854775807 OR cycle)`, f.db.Schema))
	require.Positive(t, value[int](t, f, `SELECT count(*) FROM pg_sequences WHERE schemaname = $1`, f.db.Schema))
	require.Empty(t, value[string](t, f, `SELECT coalesce(string_agg(table_name || '.' || column_name, ' '), '')
		FROM information_schema.columns WHERE table_schema = $1
		 AND (column_name ~ '(^|_)ids?$' OR column_name = 'lease_token' OR table_name || column_name = 'claimsnumber') AND data_type IN ('integer', 'smallint')`, f.db.Schema))
}

// Nothing that is kept names a transaction, a position in the log or a
// connection, all of which are others after a restore.
// Reported as ThreeDotsLabs/watermill#576.
func TestNothingKeptEndsWithTheCluster(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	require.Empty(t, value[string](t, f, `SELECT coalesce(string_agg(table_name || '.' || column_name, ' '), '')
		FROM information_schema.columns WHERE table_schema = $1
		 AND udt_name IN ('xid', 'xid8', 'pg_lsn', 'pg_snapshot', 'tid', 'oid', 'timestamp')`, f.db.Schema))
}
