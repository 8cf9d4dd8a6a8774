package client_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
	"github.com/styxmq/styx/internal/testdb"
)

// enqueued is what the function enqueue answers.
type enqueued struct {
	ID                  int64
	Duplicate, Mismatch bool
}

// enqueueSQL calls the function with the arguments as they stand in SQL.
func enqueueSQL(t *testing.T, b *rig, db bun.IConn, arguments string, values ...any) (out enqueued, err error) {
	t.Helper()
	query := fmt.Sprintf(`SELECT id, duplicate, mismatch FROM %q.enqueue(%s)`, b.db.Schema, arguments)
	err = db.QueryRowContext(t.Context(), query, values...).Scan(&out.ID, &out.Duplicate, &out.Mismatch)
	return out, err
}

func TestSQLEnqueueStoresEveryOption(t *testing.T) {
	t.Parallel()
	b := newRig(t, testdb.Postgres(t))
	plain, err := enqueueSQL(t, b, b.db.DB.DB, `'mail', 'welcome', '{"n": 9007199254740993}'`)
	require.NoError(t, err)
	require.False(t, plain.Duplicate)
	m, err := b.Get(t.Context(), plain.ID)
	require.NoError(t, err)
	require.Equal(t, message.Message{
		ID: plain.ID, Queue: "mail", Kind: "welcome", Payload: `{"n": 9007199254740993}`, Status: message.StatusPending,
		Attempt: 1, MaxRetries: message.DefaultMaxRetries, CreatedAt: m.CreatedAt, UpdatedAt: m.CreatedAt,
	}, *m)

	full, err := enqueueSQL(t, b, b.db.DB.DB, `'mail', 'welcome', 'text', delay => '1 hour', priority => -3, max_retries => 7,
		timeout => '90 s', idempotency_key => 'k1', tenant => 'acme', correlation_id => 'c1',
		headers => '{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}', expires_in => '2 hours'`)
	require.NoError(t, err)
	m, err = b.Get(t.Context(), full.ID)
	require.NoError(t, err)
	require.Equal(t, -3, m.Priority)
	require.Equal(t, 7, m.MaxRetries)
	require.Equal(t, 90*time.Second, m.Timeout)
	require.Equal(t, "k1", m.IdempotencyKey)
	require.Equal(t, "acme", m.Tenant)
	require.Equal(t, "c1", m.CorrelationID)
	require.Equal(t, map[string]string{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}, m.Headers)
	require.WithinDuration(t, m.CreatedAt.Add(time.Hour), m.RetryAfter, time.Minute)
	require.WithinDuration(t, m.RetryAfter.Add(2*time.Hour), m.ExpiresAt, time.Minute)

	endless, err := enqueueSQL(t, b, b.db.DB.DB, `'mail', 'welcome', 'x', timeout => '-1 s', run_at => '-infinity'`)
	require.NoError(t, err)
	m, err = b.Get(t.Context(), endless.ID)
	require.NoError(t, err)
	require.Equal(t, time.Duration(-1), m.Timeout)
	require.Zero(t, m.RetryAfter, "a past time is at once")
	require.Equal(t, []int64{plain.ID, endless.ID}, idsOf(b.claim(t, "mail", 10)))
}

func TestSQLEnqueueIsPartOfItsTransaction(t *testing.T) {
	t.Parallel()
	b := newRig(t, testdb.Postgres(t))
	tx, err := b.db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	gone, err := enqueueSQL(t, b, tx, `'q', 'k', 'x'`)
	require.NoError(t, err)
	require.NoError(t, tx.Rollback())
	_, err = b.Get(t.Context(), gone.ID)
	require.ErrorIs(t, err, message.ErrNotFound)
}

func TestSQLEnqueueSharesKeysWithTheClient(t *testing.T) {
	t.Parallel()
	b := newRig(t, testdb.Postgres(t))
	first, err := enqueueSQL(t, b, b.db.DB.DB, `'q', 'k', 'x', idempotency_key => 'one'`)
	require.NoError(t, err)

	var held *message.DuplicateError
	_, err = b.EnqueueRaw(t.Context(), "k", "x", &client.EnqueueOptions{Queue: "q", IdempotencyKey: "one"})
	require.ErrorAs(t, err, &held)
	require.Equal(t, first.ID, held.ID)
	require.False(t, held.Mismatch)

	again, err := enqueueSQL(t, b, b.db.DB.DB, `'q', 'k', 'x', idempotency_key => 'one'`)
	require.NoError(t, err)
	require.Equal(t, enqueued{ID: first.ID, Duplicate: true}, again)

	m, err := b.EnqueueRaw(t.Context(), "k", "ü", &client.EnqueueOptions{Queue: "q", IdempotencyKey: "two"})
	require.NoError(t, err)
	again, err = enqueueSQL(t, b, b.db.DB.DB, `'q', 'k', 'ü', idempotency_key => 'two'`)
	require.NoError(t, err)
	require.Equal(t, enqueued{ID: m.ID, Duplicate: true}, again)
	again, err = enqueueSQL(t, b, b.db.DB.DB, `'q', 'k', 'other', idempotency_key => 'two'`)
	require.NoError(t, err)
	require.Equal(t, enqueued{ID: m.ID, Duplicate: true, Mismatch: true}, again)

	b.settle(t, store.Succeed, b.claim(t, "q", 2)...)
	again, err = enqueueSQL(t, b, b.db.DB.DB, `'q', 'k', 'x', idempotency_key => 'one'`)
	require.NoError(t, err)
	require.Equal(t, enqueued{ID: first.ID, Duplicate: true}, again, "the window counts from the success")

	brief, err := enqueueSQL(t, b, b.db.DB.DB, `'q', 'k', 'x', idempotency_key => 'three', idempotency_window => '0'`)
	require.NoError(t, err)
	b.settle(t, store.Succeed, b.claim(t, "q", 1)...)
	next, err := enqueueSQL(t, b, b.db.DB.DB, `'q', 'k', 'x', idempotency_key => 'three'`)
	require.NoError(t, err)
	require.NotEqual(t, brief.ID, next.ID)
	require.False(t, next.Duplicate)
}

func TestSQLEnqueueRefusesWhatTheClientRefuses(t *testing.T) {
	t.Parallel()
	b := newRig(t, testdb.Postgres(t))
	for arguments, field := range map[string]string{
		`'', 'k', 'x'`:                                                          "queue",
		`NULL, 'k', 'x'`:                                                        "queue",
		`E'a\x01', 'k', 'x'`:                                                    "queue",
		`E'a\u0085', 'k', 'x'`:                                                  "queue",
		`repeat('ü', 65), 'k', 'x'`:                                             "queue",
		`'q', '', 'x'`:                                                          "kind",
		`'q', repeat('k', 129), 'x'`:                                            "kind",
		`'q', 'k', ''`:                                                          "payload",
		`'q', 'k', NULL`:                                                        "payload",
		`'q', 'k', repeat('x', 1048577)`:                                        "payload",
		`'q', 'k', 'x', priority => 10`:                                         "priority",
		`'q', 'k', 'x', priority => -10`:                                        "priority",
		`'q', 'k', 'x', max_retries => 0`:                                       "max_retries",
		`'q', 'k', 'x', max_retries => 1001`:                                    "max_retries",
		`'q', 'k', 'x', delay => '11 years'`:                                    "delay",
		`'q', 'k', 'x', run_at => 'infinity'`:                                   "run_at",
		`'q', 'k', 'x', run_at => '200000-01-01'`:                               "run_at",
		`'q', 'k', 'x', run_at => now(), delay => '1 s'`:                        "run_at",
		`'q', 'k', 'x', timeout => '31 days'`:                                   "timeout",
		`'q', 'k', 'x', expires_in => '-1 s'`:                                   "expires_in",
		`'q', 'k', 'x', idempotency_key => repeat('k', 256)`:                    "idempotency_key",
		`'q', 'k', 'x', tenant => E'a\nb'`:                                      "tenant",
		`'q', 'k', 'x', correlation_id => repeat('c', 256)`:                     "correlation_id",
		`'q', 'k', 'x', headers => '[]'`:                                        "headers",
		`'q', 'k', 'x', headers => '{"a": 1}'`:                                  "headers",
		`'q', 'k', 'x', headers => '{"": "1"}'`:                                 "headers",
		`'q', 'k', 'x', headers => jsonb_build_object('a', repeat('x', 16385))`: "headers",
		`'q', 'k', 'x', headers => (SELECT jsonb_object_agg(i, '') FROM generate_series(1, 65) i)`: "headers",
	} {
		_, err := enqueueSQL(t, b, b.db.DB.DB, arguments)
		var pg *pgconn.PgError
		require.ErrorAs(t, err, &pg, arguments)
		require.Equal(t, "22023", pg.Code, arguments)
		require.Equal(t, field, pg.ColumnName, arguments)
		require.Contains(t, pg.Message, "styx: invalid "+field)
	}
	page, err := b.List(t.Context(), client.ListOptions{})
	require.NoError(t, err)
	require.Empty(t, page.Messages)
}

func TestSQLEnqueueWakesASleepingWorker(t *testing.T) {
	t.Parallel()
	b := newRig(t, testdb.Postgres(t))
	id, err := b.store.Register(t.Context(), store.WorkerInfo{Name: "sleeper", Queues: []string{"q"}, Lease: time.Hour})
	require.NoError(t, err)
	require.NoError(t, b.store.SetIdle(t.Context(), id, "q", true))
	ctx, cancel := context.WithCancel(t.Context())
	woken, ended := make(chan string, 100), make(chan error, 1)
	go func() { ended <- b.store.Listen(ctx, func(queue string) { woken <- queue }) }()
	require.Empty(t, <-woken, "listening begins")
	_, err = enqueueSQL(t, b, b.db.DB.DB, `'q', 'k', 'x'`)
	require.NoError(t, err)
	select {
	case queue := <-woken:
		require.Equal(t, "q", queue)
	case <-time.After(patience):
		require.Fail(t, "nobody was woken")
	}
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

func TestSQLEnqueueIsGrantedApart(t *testing.T) {
	t.Parallel()
	b := newRig(t, testdb.Postgres(t))
	role := "producer_" + strings.ToLower(b.db.Schema)
	exec := func(text string) { _, err := b.db.ExecContext(t.Context(), text); require.NoError(t, err) }
	exec(fmt.Sprintf(`CREATE ROLE %q`, role))
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		_, err := b.db.ExecContext(ctx, fmt.Sprintf(`DROP OWNED BY %q`, role))
		require.NoError(t, err)
		_, err = b.db.ExecContext(ctx, fmt.Sprintf(`DROP ROLE %q`, role))
		require.NoError(t, err)
	})
	exec(fmt.Sprintf(`GRANT USAGE ON SCHEMA %q TO %q`, b.db.Schema, role))
	as := func(do func(tx bun.Tx) error) error {
		tx, err := b.db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		_, err = tx.ExecContext(t.Context(), fmt.Sprintf(`SET LOCAL ROLE %q`, role))
		require.NoError(t, err)
		return errors.Join(do(tx), tx.Commit())
	}
	enqueue := func(tx bun.Tx) error {
		_, err := enqueueSQL(t, b, tx, `'q', 'k', 'x', idempotency_key => 'a'`)
		return err
	}
	denied := func(err error) {
		t.Helper()
		var pg *pgconn.PgError
		require.ErrorAs(t, err, &pg)
		require.Equal(t, "42501", pg.Code)
	}
	denied(as(enqueue))
	exec(fmt.Sprintf(`GRANT EXECUTE ON FUNCTION %q.enqueue TO %q`, b.db.Schema, role))
	require.NoError(t, as(enqueue))
	for _, table := range []string{"messages", "keys", "dead_letters", "archive", "audit_log"} {
		denied(as(func(tx bun.Tx) error {
			_, err := tx.ExecContext(t.Context(), fmt.Sprintf(`SELECT FROM %q.%s`, b.db.Schema, table))
			return err
		}))
	}
	require.Len(t, b.claim(t, "q", 2), 1)
}

func idsOf(claimed []store.Claimed) []int64 {
	out := make([]int64, len(claimed))
	for i, m := range claimed {
		out[i] = m.ID
	}
	return out
}
