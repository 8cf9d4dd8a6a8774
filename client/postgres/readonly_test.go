package postgres_test

import (
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"

	"github.com/styxmq/styx/client/postgres"
	"github.com/styxmq/styx/internal/testdb"
)

// After a failover the connections to the old primary may live on, where every
// write is refused.
// Reported as jobrunr/jobrunr#1264, vgarvardt/gue#202 and graphile/worker#449.
func TestConnectionsThatRefuseWritesLeaveThePool(t *testing.T) {
	t.Parallel()
	base, admin := testdb.Database(t), testdb.Admin(t)
	_, err := base.ExecContext(t.Context(), "CREATE TABLE public.notes (id bigint)")
	require.NoError(t, err)
	var name string
	require.NoError(t, base.QueryRowContext(t.Context(), "SELECT current_database()").Scan(&name))
	set := func(value string) {
		_, err := admin.NewRaw("ALTER DATABASE ? SET default_transaction_read_only = "+value, bun.Ident(name)).Exec(t.Context())
		require.NoError(t, err)
	}
	for title, write := range map[string]func(db *bun.DB) error{
		"alone": func(db *bun.DB) error {
			_, err := db.ExecContext(t.Context(), "INSERT INTO public.notes VALUES (1)")
			return err
		},
		"in a transaction": func(db *bun.DB) error {
			tx, err := db.BeginTx(t.Context(), nil)
			require.NoError(t, err)
			defer func() { _ = tx.Rollback() }()
			if _, err := tx.ExecContext(t.Context(), "INSERT INTO public.notes VALUES (1)"); err != nil {
				return err
			}
			return tx.Commit()
		},
	} {
		t.Run(title, func(t *testing.T) {
			const conns = 5
			set("on")
			db, err := postgres.Open(t.Context(), base.URL)
			require.NoError(t, err)
			defer func() { require.NoError(t, db.Close()) }()
			var held []*sql.Conn
			for range conns {
				conn, err := db.DB.Conn(t.Context())
				require.NoError(t, err)
				held = append(held, conn)
			}
			for _, conn := range held {
				require.NoError(t, conn.Close())
			}
			require.Equal(t, conns, db.Stats().OpenConnections)
			require.Error(t, write(db))
			set("off") // for connections from now on
			for range conns - 1 {
				require.Error(t, write(db))
			}
			require.NoError(t, write(db))
		})
	}
}

// An application's own read-only transaction is no reason.
func TestReadOnlyTransactionsKeepTheirConnection(t *testing.T) {
	t.Parallel()
	db := testdb.Postgres(t)
	db.SetMaxOpenConns(1)
	pid := func() (pid int) {
		require.NoError(t, db.QueryRowContext(t.Context(), "SELECT pg_backend_pid()").Scan(&pid))
		return pid
	}
	before := pid()
	tx, err := db.BeginTx(t.Context(), &sql.TxOptions{ReadOnly: true})
	require.NoError(t, err)
	_, err = tx.NewRaw("CREATE TABLE public.?(id bigint)", bun.Ident(db.Schema)).Exec(t.Context())
	require.Error(t, err)
	require.NoError(t, tx.Rollback())
	require.Equal(t, before, pid())
}
