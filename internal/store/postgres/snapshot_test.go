package postgres_test

import (
	"database/sql"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/client/postgres"
	"github.com/styxmq/styx/internal/store"
	queue "github.com/styxmq/styx/internal/store/postgres"
)

// While someone holds a snapshot, no dead row can be removed. A claim must not
// walk over those that its like have left, however many there are, retries
// included, and a beat must not leave dead entries in indexes. Here with 3,000
// messages, in full (STYX_TEST_FULL=1) with 300,000.
// Reported as riverqueue/river#59, NikolayS/PgQue#80 and
// timgit/pg-boss#885.
func TestClaimsStayCheapUnderAHeldSnapshot(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	rounds := 30
	if os.Getenv("STYX_TEST_FULL") == "1" {
		rounds = 3000
	}
	reader := f.begin(t, sql.LevelRepeatableRead)
	var none int
	require.NoError(t, reader.QueryRowContext(t.Context(), f.text("SELECT count(*) FROM {{s}}messages")).Scan(&none))

	db, err := postgres.Open(t.Context(), f.db.URL)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	db.SetMaxOpenConns(1) // which tells what it has read
	st, err := queue.New(db, f.db.Schema)
	require.NoError(t, err)
	worker, err := st.Register(t.Context(), store.WorkerInfo{Name: "w", Lease: time.Hour})
	require.NoError(t, err)
	cursor := st.Cursor(store.CursorSpec{WorkerID: worker, Queue: "q", Timeout: time.Minute, Lease: time.Minute})
	read := func() (n int64) {
		_, err := db.ExecContext(t.Context(), "SELECT pg_stat_force_next_flush()")
		require.NoError(t, err)
		require.NoError(t, db.QueryRowContext(t.Context(), `SELECT sum(idx_tup_read) FROM pg_stat_user_indexes
			WHERE schemaname = ? AND relname = 'messages'`, f.db.Schema).Scan(&n))
		return n
	}
	number := int64(0)
	round := func() (cost int64) {
		ms := make([]store.NewMessage, 100)
		for i := range ms {
			ms[i] = store.NewMessage{Queue: "q", Kind: "k", Payload: "{}", MaxRetries: 5}
		}
		_, err := st.InsertMany(t.Context(), nil, ms)
		require.NoError(t, err)
		done := 0
		before := read()
		for done < len(ms) {
			number++
			batch, err := cursor.Claim(t.Context(), store.ClaimRequest{Number: number, Limit: 50})
			require.NoError(t, err)
			var outcomes []store.Settlement
			for _, m := range batch.Messages {
				s := store.Settlement{ID: m.ID, Token: m.LeaseToken, Place: m.Place, Verb: store.Succeed}
				if m.Attempt == 1 && m.ID%5 == 0 {
					s.Verb = store.Retry
					s.Failure = &store.Failure{Kind: message.FailureTransient, Decision: message.DecisionExhausted}
				} else {
					done++
				}
				outcomes = append(outcomes, s)
			}
			_, err = st.Settle(t.Context(), worker, outcomes, []int64{number})
			require.NoError(t, err)
			if len(batch.Messages) == 0 {
				cursor.Wake()
			}
		}
		return read() - before
	}
	first := round()
	for range rounds {
		round()
	}
	// What was postponed in the last seconds is looked at again, all else not.
	require.Eventually(t, func() bool { return round() <= 6*first }, time.Minute, 2*time.Second)

	pulse, err := f.Pulse(t.Context())
	require.NoError(t, err)
	for range 100 {
		_, err := pulse.Beat(t.Context(), store.Beat{WorkerID: worker})
		require.NoError(t, err)
	}
	require.NoError(t, pulse.Close())
	require.NoError(t, reader.Rollback())
	f.db.SetMaxIdleConns(0) // a connection that ends tells what it has done
	require.Eventually(t, func() bool {
		updates := value[int](t, f, "SELECT n_tup_upd FROM pg_stat_user_tables WHERE schemaname = $1 AND relname = 'workers'", f.db.Schema)
		hot := value[int](t, f, "SELECT n_tup_hot_upd FROM pg_stat_user_tables WHERE schemaname = $1 AND relname = 'workers'", f.db.Schema)
		if updates < 100 {
			return false
		}
		require.GreaterOrEqual(t, hot, 90, "of %d", updates)
		return true
	}, 30*time.Second, 100*time.Millisecond)
}
