package sqlite

import (
	"database/sql"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	client "github.com/styxmq/styx/client/sqlite"
	"github.com/styxmq/styx/internal/store"
)

func TestStoresOfOnePoolShare(t *testing.T) {
	t.Parallel()
	db, err := client.Open(t.Context(), t.TempDir()+"/styx.db")
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	one, err := New(db)
	require.NoError(t, err)
	two, err := New(db)
	require.NoError(t, err)
	require.Same(t, one.common, two.common)
	_, err = New(nil)
	require.Error(t, err)
}

// Neither a store nor a database is kept by having been used.
func TestUnusedStoresAreForgotten(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/styx.db"
	use := func() weak.Pointer[sql.DB] {
		db, err := client.Open(t.Context(), path)
		require.NoError(t, err)
		s, err := New(db)
		require.NoError(t, err)
		_, err = s.Migrate(t.Context())
		require.NoError(t, err)
		m := store.NewMessage{Queue: "q", Kind: "k", MaxRetries: 1}
		for range 2 * cacheAfter {
			_, err = s.Insert(t.Context(), nil, &m)
			require.NoError(t, err)
		}
		require.NotEmpty(t, s.common.cache.kept)
		require.NoError(t, db.Close())
		return weak.Make(db.DB)
	}
	key := use()
	const patience = 20 * time.Second
	require.Eventually(t, func() bool {
		runtime.GC()
		commons.mu.Lock()
		defer commons.mu.Unlock()
		_, kept := commons.all[key]
		return !kept && key.Value() == nil
	}, patience, 10*time.Millisecond)
}
