package server_test

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/internal/testdb/server"
)

func needBinaries(t *testing.T) {
	t.Helper()
	_, err := server.FindBinaries(t.Context())
	if errors.Is(err, server.ErrNoBinaries) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	require.NoError(t, err)
}

func query(t *testing.T, url, sql string) string {
	t.Helper()
	conn, err := pgconn.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(t.Context())) }()
	results, err := conn.Exec(t.Context(), sql).ReadAll()
	require.NoError(t, err)
	return string(results[0].Rows[0][0])
}

func TestServerLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	needBinaries(t)
	srv, err := server.Start(t.Context(), server.Config{Settings: []string{"work_mem=9MB"}})
	require.NoError(t, err)
	defer func() { require.NoError(t, srv.Stop()) }()

	require.DirExists(t, srv.Dir())
	require.Equal(t, "9MB", query(t, srv.URL(), "SHOW work_mem"))
	require.Equal(t, "300", query(t, srv.URL(), "SHOW max_connections"))
	require.Equal(t, "on", query(t, srv.URL(), "SHOW fsync"))

	require.NoError(t, srv.Stop())
	require.NoDirExists(t, srv.Dir())
	_, err = pgconn.Connect(t.Context(), srv.URL())
	require.Error(t, err)
	require.NoError(t, srv.Stop())
}

func TestServerIsKept(t *testing.T) {
	t.Parallel()
	needBinaries(t)
	srv, err := server.Start(t.Context(), server.Config{Keep: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(srv.Dir())) })
	require.NoError(t, srv.Stop())
	require.DirExists(t, srv.Dir())
	require.NoFileExists(t, srv.Dir()+"/data/postmaster.pid")
}

func TestStartReportsTheServersWords(t *testing.T) {
	t.Parallel()
	needBinaries(t)
	_, err := server.Start(t.Context(), server.Config{Settings: []string{"no_such_setting=1"}})
	require.ErrorContains(t, err, "no_such_setting")
}

func TestStartEndsWithItsContext(t *testing.T) {
	t.Parallel()
	needBinaries(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := server.Start(ctx, server.Config{})
	require.ErrorIs(t, err, context.Canceled)
}

func TestStartWithoutBinaries(t *testing.T) {
	t.Parallel()
	_, err := server.Start(t.Context(), server.Config{BinDir: t.TempDir()})
	require.ErrorContains(t, err, "initdb")
}
