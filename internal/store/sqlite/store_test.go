package sqlite_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	client "github.com/styxmq/styx/client/sqlite"
	"github.com/styxmq/styx/internal/store/sqlite"
	"github.com/styxmq/styx/internal/testdb"
)

// migrated returns a store on a database of its own with the schema in it.
func migrated(tb testing.TB) (*sqlite.Store, testdb.DB) {
	tb.Helper()
	db := testdb.SQLite(tb)
	s := open(tb, db)
	_, err := s.Migrate(tb.Context())
	require.NoError(tb, err)
	return s, db
}

func open(tb testing.TB, db testdb.DB) *sqlite.Store {
	tb.Helper()
	s, err := sqlite.New(db.DB)
	require.NoError(tb, err)
	return s
}

// reopen returns a store over a pool of its own, as another process has it.
func reopen(tb testing.TB, db testdb.DB) *sqlite.Store {
	tb.Helper()
	again, err := client.Open(tb.Context(), db.URL)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, again.Close()) })
	return open(tb, testdb.DB{DB: again, URL: db.URL})
}
