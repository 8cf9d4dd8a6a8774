package postgres_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/internal/store"
	"github.com/styxmq/styx/internal/store/postgres"
	"github.com/styxmq/styx/internal/testdb"
)

// What stands beside the messages that are claimed: archived ones, dead ones,
// ones that are not due, and older ones of a queue and of a kind that nobody
// works.
var ballast = []string{
	`INSERT INTO {{s}}.archive (id, lease_token, worker_id, created_at, finished_at, retry_count, max_retries, priority,
		losses, snoozes, replay_count, queue, kind, payload)
	 SELECT nextval('{{s}}.message_id'), 1, 1, now(), now(), 0, 5, 0, 0, 0, 0, 'q', 'a', repeat('x', 100)
	   FROM generate_series(1, 500000)`,
	`INSERT INTO {{s}}.dead_letters (message_id, lease_token, worker_id, created_at, dead_at, timeout_ms, retry_count,
		max_retries, priority, losses, snoozes, replay_count, queue, kind, payload, decision)
	 SELECT nextval('{{s}}.message_id'), 1, 1, now(), now(), 0, 5, 5, 0, 0, 0, 0, 'q', 'a', repeat('x', 100), 'exhausted'
	   FROM generate_series(1, 50000)`,
	`INSERT INTO {{s}}.messages (queue, kind, payload, max_retries, due_at)
	 SELECT 'q', 'a', repeat('x', 100), 5, now() + interval '1 day' FROM generate_series(1, 200000)`,
	`INSERT INTO {{s}}.messages (queue, kind, payload, max_retries)
	 SELECT 'nobody', 'a', repeat('x', 100), 5 FROM generate_series(1, 100000)`,
	`INSERT INTO {{s}}.messages (queue, kind, payload, max_retries)
	 SELECT 'q', 'nobody', repeat('x', 100), 5 FROM generate_series(1, 100000)`,
}

// BenchmarkClaimBesideBallast times claims of 1,000 in an empty table and in a
// full one, in turn, and reports the medians and their ratio.
func BenchmarkClaimBesideBallast(b *testing.B) {
	empty, full := newClaimer(b), newClaimer(b)
	for _, q := range ballast {
		_, err := full.db.ExecContext(b.Context(), strings.ReplaceAll(q, "{{s}}", full.db.Schema))
		require.NoError(b, err)
	}
	var a, c []time.Duration
	for b.Loop() {
		a = append(a, empty.claim(b))
		c = append(c, full.claim(b))
	}
	slices.Sort(a)
	slices.Sort(c)
	without, with := a[len(a)/2], c[len(c)/2]
	b.ReportMetric(without.Seconds()*1e3, "empty-ms")
	b.ReportMetric(with.Seconds()*1e3, "full-ms")
	b.ReportMetric(with.Seconds()/without.Seconds(), "full/empty")
}

type claimer struct {
	db     testdb.DB
	st     *postgres.Store
	worker int64
	cursor store.Cursor
	number int64
}

func newClaimer(b *testing.B) *claimer {
	b.Helper()
	db := testdb.Postgres(b)
	st, err := postgres.New(db.DB, db.Schema)
	require.NoError(b, err)
	_, err = st.Migrate(b.Context())
	require.NoError(b, err)
	id, err := st.Register(b.Context(), store.WorkerInfo{Name: "bench", Lease: time.Hour})
	require.NoError(b, err)
	return &claimer{db: db, st: st, worker: id, cursor: st.Cursor(store.CursorSpec{
		WorkerID: id, Queue: "q", Kinds: []string{"a"}, Timeout: time.Minute, Lease: time.Minute,
	})}
}

// claim enqueues 1,000, claims them and settles them; the time is the claims'.
func (c *claimer) claim(b *testing.B) (took time.Duration) {
	b.Helper()
	const n = 1000
	ms := make([]store.NewMessage, n)
	for i := range ms {
		ms[i] = store.NewMessage{Queue: "q", Kind: "a", Payload: fmt.Sprintf("%0100d", i), MaxRetries: 5}
	}
	_, err := c.st.InsertMany(b.Context(), nil, ms)
	require.NoError(b, err)
	var done []store.Settlement
	for len(done) < n {
		c.number++
		begin := time.Now()
		batch, err := c.cursor.Claim(b.Context(), store.ClaimRequest{Number: c.number, Limit: n})
		took += time.Since(begin)
		require.NoError(b, err)
		for _, m := range batch.Messages {
			done = append(done, store.Settlement{ID: m.ID, Token: m.LeaseToken, Place: m.Place, Verb: store.Succeed})
		}
		if !batch.Again {
			c.cursor.Wake()
		}
	}
	_, err = c.st.Settle(b.Context(), c.worker, done, []int64{c.number})
	require.NoError(b, err)
	return took
}
