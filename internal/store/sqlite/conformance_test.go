package sqlite_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	client "github.com/styxmq/styx/client/sqlite"
	"github.com/styxmq/styx/internal/store"
	"github.com/styxmq/styx/internal/store/sqlite"
	"github.com/styxmq/styx/internal/store/storetest"
	"github.com/styxmq/styx/internal/testdb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Opened {
		t.Helper()
		db := testdb.SQLite(t)
		s, err := sqlite.New(db.DB)
		require.NoError(t, err)
		return storetest.Opened{
			Store: s, DB: db.DB, Prefix: "styx_", Engine: storetest.SQLite,
			Reopen: func(t *testing.T) store.Store {
				t.Helper()
				again, err := client.Open(t.Context(), db.URL)
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, again.Close()) })
				s, err := sqlite.New(again)
				require.NoError(t, err)
				return s
			},
		}
	})
}
