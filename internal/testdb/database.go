package testdb

import (
	"context"
	"crypto/rand"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"

	"github.com/styxmq/styx/client/postgres"
)

// Database returns a PostgreSQL database of the test's own, for what concerns
// a whole database, such as its default settings or all of its connections.
// Its name is that in the URL. It is dropped when the test ends, whoever is
// connected; Schema is the default one.
func Database(tb testing.TB) DB {
	tb.Helper()
	name := "styx_test_" + strings.ToLower(rand.Text()[:12])
	admin := Admin(tb)
	_, err := admin.NewRaw("CREATE DATABASE ? TEMPLATE template0", bun.Ident(name)).Exec(tb.Context())
	require.NoError(tb, err)
	address := withParam(withDatabase(tb, URL(), name), "search_path", "pg_catalog")
	db, err := postgres.Open(tb.Context(), address)
	require.NoError(tb, err)
	tb.Cleanup(func() {
		require.NoError(tb, db.Close())
		ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), cleanupTimeout)
		defer cancel()
		_, err := admin.NewRaw("DROP DATABASE ? WITH (FORCE)", bun.Ident(name)).Exec(ctx)
		require.NoError(tb, err)
	})
	return DB{DB: db, Schema: "styx", URL: address}
}

// Admin opens the database of the server's URL, in which the test must leave
// nothing behind. It is closed when the test ends.
func Admin(tb testing.TB) *bun.DB {
	tb.Helper()
	if URL() == "" {
		needServer(tb)
	}
	admin, err := postgres.Open(tb.Context(), URL())
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, admin.Close()) })
	return admin
}

var databaseKey = regexp.MustCompile(`\bdbname\s*=\s*\S+`)

// withDatabase puts the name of another database into a URL, or into keywords
// and values.
func withDatabase(tb testing.TB, address, name string) string {
	tb.Helper()
	if !strings.Contains(address, "://") {
		return databaseKey.ReplaceAllString(address, "") + " dbname=" + name
	}
	u, err := url.Parse(address)
	require.NoError(tb, err)
	u.Path = "/" + name
	return u.String()
}
