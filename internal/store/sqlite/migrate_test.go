package sqlite_test

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/testdb"
)

// Reported as jackc/tern#19.
func TestMigrateFromTenPools(t *testing.T) {
	t.Parallel()
	const pools = 10
	db := testdb.SQLite(t)
	var wg sync.WaitGroup
	var applied [pools][]int
	var errs [pools]error
	for i := range pools {
		s := reopen(t, db)
		wg.Go(func() { applied[i], errs[i] = s.Migrate(t.Context()) })
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	_, known, err := open(t, db).SchemaVersion(t.Context())
	require.NoError(t, err)
	all := slices.Concat(applied[:]...)
	slices.Sort(all)
	require.Len(t, all, known)
	require.Len(t, slices.Compact(all), known)
}

func TestMigrateLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	s, db := migrated(t)
	up := objects(t, db.DB.DB)
	require.NotEmpty(t, up)
	for _, name := range up {
		require.True(t, strings.HasPrefix(name, "styx_") || strings.HasPrefix(name, "sqlite_"), name)
	}
	_, err := s.MigrateDown(t.Context(), 0)
	require.NoError(t, err)
	require.Equal(t, []string{"sqlite_sequence"}, objects(t, db.DB.DB), "which SQLite itself keeps")
	_, err = s.Migrate(t.Context())
	require.NoError(t, err)
	require.Equal(t, up, objects(t, db.DB.DB))
}

func objects(t *testing.T, db *sql.DB) []string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SELECT name FROM sqlite_schema ORDER BY name")
	require.NoError(t, err)
	defer func() { require.NoError(t, rows.Close()) }()
	var names []string
	for rows.Next() {
		var name string
		require.NoError(t, rows.Scan(&name))
		names = append(names, name)
	}
	require.NoError(t, rows.Err())
	return names
}

func TestNewerSchemaIsRefused(t *testing.T) {
	t.Parallel()
	s, db := migrated(t)
	_, known, err := s.SchemaVersion(t.Context())
	require.NoError(t, err)
	_, err = db.ExecContext(t.Context(), "INSERT INTO styx_migrations (version, name) VALUES (?, 'later')", known+1)
	require.NoError(t, err)
	_, err = s.Migrate(t.Context())
	require.ErrorIs(t, err, message.ErrSchemaNewer)
	_, err = s.MigrateDown(t.Context(), 0)
	require.ErrorIs(t, err, message.ErrSchemaNewer)
	current, _, err := s.SchemaVersion(t.Context())
	require.NoError(t, err)
	require.Equal(t, known+1, current)
}

// A migration that is interrupted leaves the database as it was.
// Reported as jackc/tern#19.
func TestMigrateEndsWithItsContext(t *testing.T) {
	t.Parallel()
	db := testdb.SQLite(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := open(t, db)
	_, err := s.Migrate(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, objects(t, db.DB.DB))
	_, err = s.Migrate(t.Context())
	require.NoError(t, err)
}
