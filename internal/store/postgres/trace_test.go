package postgres_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

const tracesMigration = 5

// Taking the column trace back puts what it holds among the headers, and what
// an earlier version has stored there is read as it is.
func TestMigrateKeepsTraces(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	all := []map[string]string{
		nil,
		{"mine": "x"},
		{"traceparent": "nonsense"},
		{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
		{"traceparent": "00-1af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", "mine": "x"},
	}
	worker, err := f.Register(t.Context(), store.WorkerInfo{Name: "w", Lease: time.Hour})
	require.NoError(t, err)
	want := map[int64]map[string]string{}
	for _, status := range []message.Status{message.StatusSucceeded, message.StatusDead, message.StatusProcessing, message.StatusPending} {
		for _, headers := range all {
			in, err := f.Insert(t.Context(), nil, &store.NewMessage{Queue: string(status), Kind: "k", Payload: "{}", MaxRetries: 5, Headers: headers})
			require.NoError(t, err)
			want[in.ID] = headers
		}
		if status == message.StatusPending {
			break
		}
		cursor := f.Cursor(store.CursorSpec{WorkerID: worker, Queue: string(status), Timeout: time.Hour, Lease: time.Hour})
		got, err := cursor.Claim(t.Context(), store.ClaimRequest{Number: int64(len(want)), Limit: len(all)})
		require.NoError(t, err)
		require.Len(t, got.Messages, len(all))
		var outcomes []store.Settlement
		for _, m := range got.Messages {
			s := store.Settlement{ID: m.ID, Token: m.LeaseToken, Place: m.Place, Verb: store.Succeed}
			if status == message.StatusDead {
				s.Verb, s.Failure = store.Bury, &store.Failure{Kind: message.FailurePermanent, Decision: message.DecisionPoison}
			}
			outcomes = append(outcomes, s)
		}
		if status != message.StatusProcessing {
			results, err := f.Settle(t.Context(), worker, outcomes, nil)
			require.NoError(t, err)
			require.Equal(t, make([]error, len(outcomes)), results)
		}
	}
	partition := value[string](t, f, `SELECT min(inhrelid::regclass::text) FROM pg_inherits WHERE inhparent = '{{s}}archive'::regclass`)
	f.exec(t, `ALTER TABLE {{s}}archive DETACH PARTITION `+partition)
	view := `SELECT string_agg(id || ' ' || status || coalesce(' ' || headers::text, ''), E'\n' ORDER BY id) FROM {{s}}all_messages`
	rows := value[string](t, f, view)
	require.Contains(t, rows, `succeeded {"mine": "x", "traceparent": "00-1af7`)
	check := func() {
		t.Helper()
		require.Equal(t, rows, value[string](t, f, view))
		page, err := f.List(t.Context(), store.ListQuery{Limit: 100})
		require.NoError(t, err)
		require.Len(t, page.Messages, len(want))
		for _, m := range page.Messages {
			require.Equal(t, want[m.ID], m.Headers, "%s", m.Status)
		}
	}
	check()
	for range 2 {
		_, err := f.MigrateDown(t.Context(), tracesMigration-1)
		require.NoError(t, err)
		require.Equal(t, rows, value[string](t, f, view))
		require.Equal(t, 8, value[int](t, f, `SELECT count(*) FROM (SELECT headers FROM {{s}}messages UNION ALL
			SELECT headers FROM {{s}}archive UNION ALL SELECT headers FROM {{s}}dead_letters) x WHERE headers->>'traceparent' LIKE '00-%'`))
		_, err = f.Migrate(t.Context())
		require.NoError(t, err)
		check()
	}
	require.Zero(t, value[int](t, f, `SELECT count(*) FROM {{s}}messages WHERE trace IS NOT NULL`), "nothing was written")
}

// The column holds what would be 80 bytes and more among the headers.
func TestTraceIsStoredCompactly(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, n := range []int{1, 2, 600} {
		ms := make([]store.NewMessage, n)
		for i := range ms {
			ms[i] = store.NewMessage{Queue: "q", Kind: "k", Payload: "{}", MaxRetries: 5, Headers: map[string]string{
				"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
			}}
		}
		_, err := f.InsertMany(t.Context(), nil, ms)
		require.NoError(t, err)
	}
	_, err := f.Insert(t.Context(), nil, &store.NewMessage{Queue: "q", Kind: "k", Payload: "{}", MaxRetries: 5, Headers: map[string]string{
		"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	}})
	require.NoError(t, err)
	require.Equal(t, 604, value[int](t, f, `SELECT count(*) FROM {{s}}messages WHERE headers IS NULL AND octet_length(trace) = 25`))
}

// The migration neither gives up nor is in anybody's way for long while others
// use the tables, in whatever order they take them.
func TestMigrateTracesBesideTransactions(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, err := f.MigrateDown(t.Context(), tracesMigration-1)
	require.NoError(t, err)
	for _, tables := range [][2]string{{"archive", "messages"}, {"messages", "archive"}, {"all_messages", "messages"}, {"dead_letters", "archive"}} {
		tx := f.begin(t, 0)
		use := func(table string) {
			_, err := tx.ExecContext(t.Context(), f.text(`SELECT count(*) FROM {{s}}`+table))
			require.NoError(t, err)
		}
		// Of two who wait for each other the one whose patience ends first gives in.
		_, err := tx.ExecContext(t.Context(), `SELECT set_config('deadlock_timeout', '1min', true) FROM pg_roles WHERE rolname = current_user AND rolsuper`)
		require.NoError(t, err)
		use(tables[0])
		done := make(chan error, 1)
		go func() {
			_, err := f.Migrate(t.Context())
			done <- err
		}()
		require.Eventually(t, func() bool {
			return value[bool](t, f, `SELECT EXISTS (SELECT FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
				WHERE c.relnamespace = $1::text::regnamespace AND l.mode = 'AccessExclusiveLock' AND NOT l.granted)`, `"`+f.db.Schema+`"`)
		}, time.Minute, 5*time.Millisecond)
		use(tables[1])
		require.NoError(t, tx.Commit())
		require.NoError(t, <-done)
		_, err = f.MigrateDown(t.Context(), tracesMigration-1)
		require.NoError(t, err)
	}
}
