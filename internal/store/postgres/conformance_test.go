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
	storetest.Run(t, func(t *testing.T) storetest.Opened {
		t.Helper()
		db := testdb.Postgres(t)
		s, err := postgres.New(db.DB, db.Schema)
		require.NoError(t, err)
		return storetest.Opened{
			Store: s, DB: db.DB, Prefix: `"` + db.Schema + `".`, Engine: storetest.PostgreSQL,
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
	})
}
