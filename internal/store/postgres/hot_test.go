package postgres_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/internal/store"
	"github.com/styxmq/styx/internal/store/postgres"
	"github.com/styxmq/styx/internal/testdb"
)

// Reported as riverqueue/river#59.
func TestEveryFirstClaimIsAHOTUpdate(t *testing.T) {
	t.Parallel()
	db := testdb.Postgres(t)
	st, err := postgres.New(db.DB, db.Schema)
	require.NoError(t, err)
	_, err = st.Migrate(t.Context())
	require.NoError(t, err)
	const total = 5000
	ms := make([]store.NewMessage, total)
	for i := range ms {
		ms[i] = store.NewMessage{Queue: "q", Kind: "a", Payload: strings.Repeat("x", 100+i%50), MaxRetries: 5}
	}
	_, err = st.InsertMany(t.Context(), nil, ms)
	require.NoError(t, err)
	worker, err := st.Register(t.Context(), store.WorkerInfo{Name: "w", Lease: time.Minute})
	require.NoError(t, err)
	cursor := st.Cursor(store.CursorSpec{WorkerID: worker, Queue: "q", Kinds: []string{"a"}, Timeout: time.Minute, Lease: time.Minute})
	claimed := 0
	for number := int64(1); claimed < total; number++ {
		batch, err := cursor.Claim(t.Context(), store.ClaimRequest{Number: number, Limit: 1000})
		require.NoError(t, err)
		require.NotEmpty(t, batch.Messages)
		claimed += len(batch.Messages)
	}

	require.Eventually(t, func() bool {
		var updates, hot int64
		err := db.QueryRowContext(t.Context(), `SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables
			WHERE schemaname = ? AND relname = 'messages'`, db.Schema).Scan(&updates, &hot)
		require.NoError(t, err)
		if updates < total {
			return false // a backend reports its counts with a delay
		}
		require.Equal(t, updates, hot)
		return true
	}, 30*time.Second, 100*time.Millisecond)
}
