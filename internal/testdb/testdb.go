package testdb

import (
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"

	"github.com/styxmq/styx/client/postgres"
	"github.com/styxmq/styx/client/sqlite"
)

// URLVariable is the environment variable that names the PostgreSQL server.
const URLVariable = "STYX_TEST_DATABASE_URL"

const cleanupTimeout = 30 * time.Second

// DB is a database of one test. It is closed and removed when the test ends.
type DB struct {
	*bun.DB
	// Schema is the name of the test's schema on PostgreSQL, and empty on
	// SQLite. It does not exist at first: a migration makes it, or the test.
	Schema string
	// URL opens the same database once more: for client/postgres.Open, or
	// the path for client/sqlite.Open.
	URL string
}

// URL is the address of the PostgreSQL server for tests, empty if there is
// none.
func URL() string { return os.Getenv(URLVariable) }

// Each runs the body on both engines, as the parallel subtests postgres and
// sqlite. The subtests run after the rest of the calling test.
func Each(t *testing.T, body func(t *testing.T, db DB)) {
	t.Helper()
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		body(t, Postgres(t))
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		body(t, SQLite(t))
	})
}

// Postgres returns a PostgreSQL database with a schema name that is used for
// the first time and dropped when the test ends. The search path holds only
// pg_catalog, so that a table named without its schema is an error.
func Postgres(tb testing.TB) DB {
	tb.Helper()
	base := URL()
	if base == "" {
		needServer(tb)
	}
	schema := "styx_test_" + strings.ToLower(rand.Text()[:12])
	url := withParam(base, "search_path", "pg_catalog")
	db, err := postgres.Open(tb.Context(), url)
	require.NoError(tb, err)
	tb.Cleanup(func() {
		require.NoError(tb, db.Close())
		dropSchema(tb, base, schema)
	})
	return DB{DB: db, Schema: schema, URL: url}
}

// SQLite returns an SQLite database in the test's own folder.
func SQLite(tb testing.TB) DB {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "styx.db")
	db, err := sqlite.Open(tb.Context(), path)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, db.Close()) })
	return DB{DB: db, URL: path}
}

func needServer(tb testing.TB) {
	tb.Helper()
	const text = "no PostgreSQL server: run `make test`, or set " + URLVariable
	if os.Getenv("CI") == "true" {
		tb.Fatal(text)
	}
	tb.Skip(text)
}

// dropSchema has a connection of its own, since the test may have closed or
// broken the others. Whoever still holds a lock on the schema is a leak of the
// test, which must not hang for it.
func dropSchema(tb testing.TB, url, schema string) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), cleanupTimeout)
	defer cancel()
	db, err := postgres.Open(ctx, withParam(url, "lock_timeout", "15s"))
	require.NoError(tb, err)
	defer func() { require.NoError(tb, db.Close()) }()
	_, err = db.NewRaw("DROP SCHEMA IF EXISTS ? CASCADE", bun.Ident(schema)).Exec(ctx)
	require.NoError(tb, err)
}

// withParam adds a setting of the session to a URL, or to keywords and values.
func withParam(url, name, value string) string {
	if !strings.Contains(url, "://") {
		return url + " " + name + "=" + value
	}
	if strings.Contains(url, "?") {
		return url + "&" + name + "=" + value
	}
	return url + "?" + name + "=" + value
}
