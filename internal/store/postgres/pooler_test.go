package postgres_test

import (
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"

	client "github.com/styxmq/styx/client/postgres"
	"github.com/styxmq/styx/internal/store"
	"github.com/styxmq/styx/internal/store/postgres"
	"github.com/styxmq/styx/internal/store/storetest"
	"github.com/styxmq/styx/internal/testdb"
	"github.com/styxmq/styx/internal/testdb/server"
)

// The parts of the protocol that have the most to do with connections and
// transactions hold behind PgBouncer in transaction mode.
func TestConformanceBehindPgBouncer(t *testing.T) {
	t.Parallel()
	pooler, err := server.StartPooler(t.Context(), testdb.Postgres(t).URL, 40)
	if errors.Is(err, server.ErrNoPooler) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, pooler.Stop()) })
	open := func(t *testing.T) *bun.DB {
		t.Helper()
		db, err := client.Open(t.Context(), pooler.URL()+"&default_query_exec_mode=cache_describe")
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		return db
	}
	storetest.Run(t, func(t *testing.T) storetest.Opened {
		t.Helper()
		schema, db := testdb.Postgres(t).Schema, open(t)
		s, err := postgres.New(db, schema)
		require.NoError(t, err)
		return storetest.Opened{
			Store: s, DB: db, Prefix: `"` + schema + `".`, Engine: storetest.PostgreSQL,
			Reopen: func(t *testing.T) store.Store {
				t.Helper()
				s, err := postgres.New(open(t), schema)
				require.NoError(t, err)
				return s
			},
		}
	}, "key", "transaction")
}
