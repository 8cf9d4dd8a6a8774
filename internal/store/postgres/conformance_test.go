package postgres_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	client "github.com/styxmq/styx/client/postgres"
	"github.com/styxmq/styx/internal/store"
	"github.com/styxmq/styx/internal/store/postgres"
	"github.com/styxmq/styx/internal/store/storetest"
	"github.com/styxmq/styx/internal/testdb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	t.Parallel()
	conform(t, "")
}

// What goes past database/sql where it can goes through it as well.
func TestConformanceThroughDatabaseSQL(t *testing.T) {
	t.Parallel()
	conform(t, "&default_query_exec_mode=simple_protocol", "text", "trace")
}

func conform(t *testing.T, setting string, only ...string) {
	t.Helper()
	storetest.Run(t, func(t *testing.T) storetest.Opened {
		t.Helper()
		db := testdb.Postgres(t)
		pool := db.DB
		if setting != "" {
			var err error
			pool, err = client.Open(t.Context(), db.URL+setting)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, pool.Close()) })
		}
		s, err := postgres.New(pool, db.Schema)
		require.NoError(t, err)
		return storetest.Opened{
			Store: s, DB: pool, Prefix: `"` + db.Schema + `".`, Engine: storetest.PostgreSQL,
			Reopen: func(t *testing.T) store.Store {
				t.Helper()
				again, err := client.Open(t.Context(), db.URL+"&timezone=Asia/Kathmandu")
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, again.Close()) })
				s, err := postgres.New(again, db.Schema)
				require.NoError(t, err)
				return s
			},
		}
	}, only...)
}
