package testdb_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"

	"github.com/styxmq/styx/client/postgres"
	"github.com/styxmq/styx/internal/testdb"
)

func TestPostgresNeedsTheSchemaName(t *testing.T) {
	t.Parallel()
	db := testdb.Postgres(t)
	_, err := db.NewRaw("CREATE TABLE lost (id bigint)").Exec(t.Context())
	var pgErr *pgconn.PgError
	require.ErrorAs(t, err, &pgErr)
	require.Equal(t, "42501", pgErr.Code) // pg_catalog is all that it sees

	_, err = db.NewRaw("CREATE SCHEMA ?", bun.Ident(db.Schema)).Exec(t.Context())
	require.NoError(t, err)
	_, err = db.NewRaw("CREATE TABLE ?.kept (id bigint)", bun.Ident(db.Schema)).Exec(t.Context())
	require.NoError(t, err)
	_, err = db.NewRaw("SELECT * FROM kept").Exec(t.Context())
	require.ErrorAs(t, err, &pgErr)
	require.Equal(t, "42P01", pgErr.Code)
}

func TestPostgresDropsTheSchema(t *testing.T) {
	t.Parallel()
	var schema string
	t.Run("use", func(t *testing.T) {
		db := testdb.Postgres(t)
		schema = db.Schema
		_, err := db.NewRaw("CREATE SCHEMA ?", bun.Ident(schema)).Exec(t.Context())
		require.NoError(t, err)
		_, err = db.NewRaw("CREATE TABLE ?.kept (id bigint)", bun.Ident(schema)).Exec(t.Context())
		require.NoError(t, err)
		require.NoError(t, db.Close()) // a test may do so itself
	})
	var left int
	err := testdb.Postgres(t).NewRaw("SELECT count(*) FROM pg_namespace WHERE nspname = ?", schema).Scan(t.Context(), &left)
	require.NoError(t, err)
	require.Zero(t, left)
}

func TestEachRunsBothEngines(t *testing.T) {
	t.Parallel()
	seen := make(chan string, 2)
	t.Run("each", func(t *testing.T) {
		testdb.Each(t, func(t *testing.T, db testdb.DB) {
			t.Helper()
			require.NoError(t, db.PingContext(t.Context()))
			seen <- db.Dialect().Name().String()
		})
	})
	close(seen)
	var names []string
	for name := range seen {
		names = append(names, name)
	}
	require.Contains(t, names, "sqlite")
	if testdb.URL() != "" {
		require.Contains(t, names, "pg")
	}
}

func TestURLOpensTheSameDatabase(t *testing.T) {
	t.Parallel()
	db := testdb.Postgres(t)
	_, err := db.NewRaw("CREATE SCHEMA ?", bun.Ident(db.Schema)).Exec(t.Context())
	require.NoError(t, err)
	again, err := postgres.Open(t.Context(), db.URL)
	require.NoError(t, err)
	defer func() { require.NoError(t, again.Close()) }()
	_, err = again.NewRaw("CREATE TABLE ?.kept (id bigint)", bun.Ident(db.Schema)).Exec(t.Context())
	require.NoError(t, err)
}
