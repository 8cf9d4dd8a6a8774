package postgres_test

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/client/postgres"
	"github.com/styxmq/styx/internal/testdb"
)

const secret = "s3cr3t-of-the-test"

// withPgx gives the test the driver's connection.
func withPgx(t *testing.T, db *bun.DB, body func(conn *pgx.Conn)) {
	t.Helper()
	conn, err := db.Conn(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	require.NoError(t, conn.Raw(func(driverConn any) error {
		body(driverConn.(*stdlib.Conn).Conn())
		return nil
	}))
}

func requireSecret(t *testing.T, err error) {
	t.Helper()
	require.Error(t, err)
	for _, format := range []string{"%v", "%+v", "%q"} {
		require.NotContains(t, fmt.Sprintf(format, err), secret)
	}
}

func TestOpenRoundTrip(t *testing.T) {
	t.Parallel()
	db := testdb.Postgres(t)

	require.Equal(t, postgres.MaxOpenConns, db.Stats().MaxOpenConnections)
	_, err := db.NewRaw("CREATE SCHEMA ?", bun.Ident(db.Schema)).Exec(t.Context())
	require.NoError(t, err)
	_, err = db.NewRaw("CREATE TABLE ?.notes (id bigint, text text)", bun.Ident(db.Schema)).Exec(t.Context())
	require.NoError(t, err)
	_, err = db.NewRaw("INSERT INTO ?.notes VALUES (?, ?)", bun.Ident(db.Schema), int64(1)<<60, "naïve ?").Exec(t.Context())
	require.NoError(t, err)

	var id int64
	var text string
	require.NoError(t, db.NewRaw("SELECT id, text FROM ?.notes", bun.Ident(db.Schema)).Scan(t.Context(), &id, &text))
	require.Equal(t, int64(1)<<60, id)
	require.Equal(t, "naïve ?", text)
}

func TestOpenOutlivesItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	db, err := postgres.Open(ctx, testdb.Postgres(t).URL)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()

	cancel()
	require.NoError(t, db.PingContext(t.Context()))
}

func TestOpenKeepsOptionsOfTheURL(t *testing.T) {
	t.Parallel()
	u, err := url.Parse(testdb.Postgres(t).URL)
	require.NoError(t, err)
	query := u.Query()
	query.Set("default_query_exec_mode", "cache_describe")
	query.Set("statement_timeout", "12345")
	query.Set("connect_timeout", "7")
	u.RawQuery = query.Encode()

	db, err := postgres.Open(t.Context(), u.String())
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()

	var timeout string
	require.NoError(t, db.NewRaw("SELECT setting FROM pg_settings WHERE name = 'statement_timeout'").Scan(t.Context(), &timeout))
	require.Equal(t, "12345", timeout)
	withPgx(t, db, func(conn *pgx.Conn) {
		require.Equal(t, pgx.QueryExecModeCacheDescribe, conn.Config().DefaultQueryExecMode)
		require.Equal(t, "7s", conn.Config().ConnectTimeout.String())
	})
}

func TestOpenSendsNoSettingsOfItsOwn(t *testing.T) {
	t.Parallel()
	db := testdb.Postgres(t)
	withPgx(t, db.DB, func(conn *pgx.Conn) {
		// search_path stands in the URL.
		require.Equal(t, map[string]string{"search_path": "pg_catalog"}, conn.Config().RuntimeParams)
		require.Equal(t, postgres.ConnectTimeout, conn.Config().ConnectTimeout)
	})
}

func TestOpenRefusesURL(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		url, code, text string
	}{
		"empty":             {"", message.CodeRequired, "empty"},
		"blank":             {" \n", message.CodeRequired, "empty"},
		"other scheme":      {"mysql://app:" + secret + "@localhost/app", message.CodeInvalid, `"mysql"`},
		"port":              {"postgres://app:" + secret + "@localhost:port/app", message.CodeInvalid, "percent-encoded"},
		"slash in password": {"postgres://app:" + secret + "/x@localhost/app", message.CodeInvalid, "percent-encoded"},
		"bad escape":        {"postgres://app:%zz" + secret + "@localhost/app", message.CodeInvalid, "percent-encoded"},
		"sslmode":           {"postgres://app:" + secret + "@localhost/app?sslmode=perhaps", message.CodeInvalid, "sslmode is invalid"},
		"option is secret":  {"postgres://app:" + secret + "@localhost/app?connect_timeout=" + secret, message.CodeInvalid, "options"},
		"secret in query":   {"postgres://localhost/app?password=" + secret + "&connect_timeout=" + secret, message.CodeInvalid, "options"},
		"exec mode":         {"postgres://app:" + secret + "@localhost/app?default_query_exec_mode=fast", message.CodeInvalid, `unknown value "fast"`},
		"port range":        {"postgres://app:" + secret + "@localhost:99999/app", message.CodeInvalid, "ports"},
		"keywords":          {"host=localhost password=" + secret + " sslmode", message.CodeInvalid, "keywords"},
		"words":             {secret, message.CodeInvalid, "keywords"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, err := postgres.Open(t.Context(), test.url)
			require.Nil(t, db)
			requireSecret(t, err)
			var invalid *message.ValidationError
			require.ErrorAs(t, err, &invalid)
			require.Equal(t, "url", invalid.Field)
			require.Equal(t, test.code, invalid.Code)
			require.Contains(t, invalid.Message, test.text)
		})
	}
}

func TestOpenHidesPasswordWhenRefused(t *testing.T) {
	t.Parallel()
	u, err := url.Parse(testdb.Postgres(t).URL)
	require.NoError(t, err)
	u.User = url.UserPassword("styx_nobody", secret)

	db, err := postgres.Open(t.Context(), u.String())
	if err == nil {
		require.NoError(t, db.Close())
		require.NotEqual(t, "true", os.Getenv("CI"), "the server of the tests asks for a password")
		t.Skip("the server trusts everyone")
	}
	requireSecret(t, err)
	var pgErr *pgconn.PgError
	require.ErrorAs(t, err, &pgErr)
}

func TestOpenHidesPasswordWhenUnreachable(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())

	_, err = postgres.Open(t.Context(), "postgres://app:"+secret+"@"+l.Addr().String()+"/app")
	requireSecret(t, err)
	var connectErr *pgconn.ConnectError
	require.ErrorAs(t, err, &connectErr)
}

func TestOpenEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := postgres.Open(ctx, testdb.Postgres(t).URL)
	require.ErrorIs(t, err, context.Canceled)
}
