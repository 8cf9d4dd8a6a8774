package postgres_test

import (
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

const (
	alive = "clock_timestamp()"
	stale = "clock_timestamp() - interval '1 minute'"
)

// held adds a processing message and returns its id.
func (f fixture) held(t *testing.T, worker int64, deadline, columns, values string) int64 {
	t.Helper()
	if columns != "" {
		columns, values = ", "+columns, ", "+values
	}
	return f.message(t, "status, lease_token, worker_id, deadline"+columns,
		fmt.Sprintf("1, 7, %d, %s%s", worker, deadline, values))
}

// claim adds a claims row.
func (f fixture) claim(t *testing.T, worker, number int64, deadline string, ids ...int64) {
	t.Helper()
	f.exec(t, `INSERT INTO {{s}}claims (worker_id, number, deadline, ids) VALUES ($1, $2, `+deadline+`, $3::bigint[])`,
		worker, number, array(ids))
}

func array(ids []int64) string {
	parts := make([]string, len(ids))
	for i, id := range ids {
		parts[i] = fmt.Sprint(id)
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func TestBuryWorkers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	living, late := f.worker(t, alive, "NULL"), f.worker(t, stale, "NULL")
	old := f.worker(t, stale, "now() - interval '2 days'")
	holder := f.worker(t, stale, "now() - interval '2 days'")
	locked := f.worker(t, stale, "NULL")
	f.claim(t, holder, 1, "'infinity'", 1)
	f.exec(t, `INSERT INTO {{s}}listeners VALUES ('default', $1), ('default', $2), ('default', $3)`, living, late, old)
	tx := f.begin(t, sql.LevelReadCommitted)
	_, err := tx.ExecContext(t.Context(), f.text(`SELECT FROM {{s}}workers WHERE id = $1 FOR UPDATE`), locked)
	require.NoError(t, err)

	dead, err := f.BuryWorkers(t.Context())
	require.NoError(t, err)
	require.Equal(t, []int64{late}, dead)
	require.Equal(t, array([]int64{living, late, holder, locked}), value[string](t, f, `SELECT array_agg(id ORDER BY id)::text FROM {{s}}workers`))
	require.Equal(t, array([]int64{living}), value[string](t, f, `SELECT array_agg(worker_id)::text FROM {{s}}listeners`))

	require.NoError(t, tx.Rollback())
	dead, err = f.BuryWorkers(t.Context())
	require.NoError(t, err)
	require.Equal(t, []int64{locked}, dead)
}

func TestRescue(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	living, lost := f.worker(t, alive, "NULL"), f.worker(t, stale, stale)
	const unknown = 999

	first := f.held(t, lost, "'infinity'", "idempotency_key, tenant, correlation_id", "'k', 'acme', 'c-1'")
	second := f.held(t, lost, "'infinity'", "losses, retry_count", "1, 2")
	last := f.held(t, lost, "'infinity'", "losses, retry_count, headers", `1, 4, '{"a":"b"}'`)
	overdue := f.held(t, living, stale, "", "")
	running := f.held(t, living, "now() + interval '1 hour'", "", "")
	forever := f.held(t, living, "'infinity'", "", "")
	reclaimed := f.held(t, living, "'infinity'", "", "")
	pending := f.message(t, "", "")
	ghost := f.held(t, unknown, "'infinity'", "", "")
	f.claim(t, lost, 1, "'infinity'", first, second, last, reclaimed, pending)
	f.claim(t, lost, 2, "'infinity'", first)
	f.claim(t, living, 1, stale, overdue, running)
	f.claim(t, living, 2, stale, forever, 12345)
	f.claim(t, living, 3, stale, 12346)
	f.claim(t, living, 4, "'infinity'", reclaimed)
	f.claim(t, unknown, 1, "'infinity'", ghost)

	rescued, err := f.Rescue(t.Context(), 100)
	require.NoError(t, err)
	byID := map[int64]store.Rescued{}
	for _, r := range rescued {
		byID[r.ID] = r
	}
	require.Len(t, rescued, 5, "no message is returned twice")
	require.Len(t, byID, 5)

	r := byID[first]
	require.Equal(t, message.DecisionWorkerLost, r.Decision)
	require.False(t, r.Dead)
	require.Equal(t, message.StatusPending, r.Status)
	require.Equal(t, []any{"default", "work", 1, 1, 5, int64(7), lost, "acme", "c-1", "k", 1},
		[]any{r.Queue, r.Kind, r.Attempt, r.RetryCount, r.MaxRetries, r.LeaseToken, r.WorkerID, r.Tenant, r.CorrelationID, r.IdempotencyKey, r.WorkerLosses})
	require.Equal(t, fmt.Sprintf("worker %d was lost: no beat within its lease", lost), r.LastError)
	m, err := f.Get(t.Context(), first)
	require.NoError(t, err)
	require.Equal(t, r.RetryAfter, m.RetryAfter)
	require.Equal(t, r.LastError, m.LastError)
	require.Equal(t, int64(7), m.LeaseToken, "the token is never used again")
	require.Zero(t, m.WorkerID)
	require.True(t, value[bool](t, f, `SELECT due_at <= clock_timestamp() FROM {{s}}messages WHERE id = $1`, first), "the first loss waits for nothing")
	require.True(t, value[bool](t, f, `SELECT due_at - updated_at BETWEEN interval '6 s' AND interval '10 s' FROM {{s}}messages WHERE id = $1`, second), "8 s ± 25 %")
	require.True(t, value[bool](t, f, `SELECT due_at - updated_at BETWEEN interval '1.5 s' AND interval '2.5 s' FROM {{s}}messages WHERE id = $1`, overdue), "2 s ± 25 %")

	r = byID[overdue]
	require.Equal(t, message.DecisionTimedOut, r.Decision)
	require.Zero(t, r.WorkerLosses)
	require.Equal(t, message.DecisionWorkerLost, byID[ghost].Decision, "a worker that nobody knows is lost")

	r = byID[last]
	require.True(t, r.Dead)
	letter, err := f.Letter(t.Context(), last)
	require.NoError(t, err)
	require.Equal(t, message.DecisionWorkerLost, letter.Decision)
	require.Equal(t, message.FailureUnknown, letter.FailureKind)
	require.Equal(t, "styx.WorkerLost", letter.ErrorClass)
	require.Equal(t, r.LastError, letter.ErrorMessage)
	require.Equal(t, 5, letter.AttemptsUsed)
	require.Equal(t, `{"n":1}`, letter.Payload)
	require.Equal(t, map[string]string{"a": "b"}, letter.Headers)
	require.Equal(t, "v1.2", letter.WorkerVersion)
	require.NotEmpty(t, letter.Fingerprint)
	require.Equal(t, letter.DeadAt, letter.FirstFailedAt)

	for id, want := range map[int64]message.Attempt{
		first:   {Number: 1, Outcome: message.OutcomeRetried, FailureKind: message.FailureUnknown, Reason: "worker_lost", WorkerID: lost},
		second:  {Number: 3, Outcome: message.OutcomeRetried, FailureKind: message.FailureUnknown, Reason: "worker_lost", WorkerID: lost},
		last:    {Number: 5, Outcome: message.OutcomeDead, FailureKind: message.FailureUnknown, Reason: "worker_lost", WorkerID: lost},
		overdue: {Number: 1, Outcome: message.OutcomeRetried, FailureKind: message.FailureTransient, Reason: "timed_out", WorkerID: living},
	} {
		attempts, err := f.Attempts(t.Context(), id, 10)
		require.NoError(t, err)
		require.Len(t, attempts, 1)
		a := attempts[0]
		require.True(t, a.Charged)
		require.Equal(t, int64(7), a.LeaseToken)
		require.Equal(t, want, message.Attempt{Number: a.Number, Outcome: a.Outcome, FailureKind: a.FailureKind, Reason: a.Reason, WorkerID: a.WorkerID})
	}

	for _, id := range []int64{running, forever, reclaimed} {
		m, err := f.Get(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, message.StatusProcessing, m.Status)
		require.Zero(t, m.RetryCount)
	}
	require.Equal(t, fmt.Sprintf("%d.1 %d.2 %d.4", living, living, living),
		value[string](t, f, `SELECT string_agg(worker_id || '.' || number, ' ' ORDER BY worker_id, number) FROM {{s}}claims`),
		"claims rows with nothing left are gone")
	require.True(t, value[bool](t, f, `SELECT c.deadline = m.deadline FROM {{s}}claims c, {{s}}messages m
		WHERE c.worker_id = $1 AND c.number = 1 AND m.id = $2`, living, running), "armed again")
	require.True(t, value[bool](t, f, `SELECT deadline = 'infinity' FROM {{s}}claims WHERE worker_id = $1 AND number = 2`, living))

	rescued, err = f.Rescue(t.Context(), 100)
	require.NoError(t, err)
	require.Empty(t, rescued)
}

func TestRescuePassesLockedRows(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	lost := f.worker(t, stale, stale)
	ids := make([]int64, 10)
	for i := range ids {
		ids[i] = f.held(t, lost, "'infinity'", "", "")
	}
	f.claim(t, lost, 1, "'infinity'", ids...)
	tx := f.begin(t, sql.LevelReadCommitted)
	_, err := tx.ExecContext(t.Context(), f.text(`SELECT FROM {{s}}messages WHERE id = $1 FOR UPDATE`), ids[0])
	require.NoError(t, err)

	var got []int64
	for range 3 {
		rescued, err := f.Rescue(t.Context(), 4)
		require.NoError(t, err)
		for _, r := range rescued {
			got = append(got, r.ID)
		}
	}
	require.ElementsMatch(t, ids[1:], got)
	require.Equal(t, 1, value[int](t, f, `SELECT count(*) FROM {{s}}claims`), "the claims row stays for the locked one")

	require.NoError(t, tx.Rollback())
	rescued, err := f.Rescue(t.Context(), 4)
	require.NoError(t, err)
	require.Len(t, rescued, 1)
	require.Zero(t, value[int](t, f, `SELECT count(*) FROM {{s}}claims`))
}

// A row that a settle, a release or an extension changes while the rescue's
// snapshot is already taken must be judged by its newest version.
func TestRescueChecksTheNewestVersion(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	living, lost := f.worker(t, alive, "NULL"), f.worker(t, stale, stale)
	ids := make([]int64, 200)
	for i := range ids {
		ids[i] = f.held(t, lost, "'infinity'", "", "")
	}
	f.claim(t, lost, 1, "'infinity'", ids...)
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		taken = map[int64]bool{}
	)
	// Somebody else takes rows over to a living worker, one by one, while
	// rescues run.
	wg.Go(func() {
		for _, id := range ids {
			result, err := f.db.DB.DB.ExecContext(t.Context(), f.text(`UPDATE {{s}}messages SET worker_id = $1, lease_token = 8
				WHERE id = $2 AND status = 1 AND lease_token = 7`), living, id)
			if err != nil {
				t.Errorf("take over: %v", err)
				return
			}
			if n, _ := result.RowsAffected(); n == 1 {
				mu.Lock()
				taken[id] = true
				mu.Unlock()
			}
		}
	})
	rescued := map[int64]bool{}
	for range 100 {
		some, err := f.Rescue(t.Context(), 2)
		require.NoError(t, err)
		for _, r := range some {
			require.False(t, rescued[r.ID])
			rescued[r.ID] = true
		}
	}
	wg.Wait()
	for id := range taken {
		require.False(t, rescued[id], "message %d was moved although it is alive", id)
	}
	require.Equal(t, len(taken), value[int](t, f, `SELECT count(*) FROM {{s}}messages WHERE worker_id = $1 AND status = 1`, living))
	require.Equal(t, len(rescued), value[int](t, f, `SELECT count(*) FROM {{s}}messages WHERE status = 0 AND retry_count = 1`))
	require.Equal(t, len(ids), len(taken)+len(rescued))
}

func TestRescueEightAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	living, lost := f.worker(t, alive, "NULL"), f.worker(t, stale, stale)
	insert := func(worker int64, n int, deadline string) {
		f.exec(t, fmt.Sprintf(`WITH made AS (
			INSERT INTO {{s}}messages (queue, kind, payload, max_retries, status, lease_token, worker_id, deadline, retry_count)
			SELECT 'default', 'work', 'x', 3, 1, 7, %d, %s, CASE WHEN i %% 10 = 0 THEN 2 ELSE 0 END FROM generate_series(1, %d) i RETURNING id)
			INSERT INTO {{s}}claims SELECT %[1]d, %[4]d + min(id), %[2]s, array_agg(id) FROM made GROUP BY id / 100`, worker, deadline, n, worker*1000))
	}
	insert(lost, 500, "'infinity'")
	insert(living, 500, stale)
	insert(living, 500, "'infinity'")
	before := value[string](t, f, `SELECT md5(string_agg(m::text, ',' ORDER BY id)) FROM {{s}}messages m WHERE deadline = 'infinity' AND worker_id = `+fmt.Sprint(living))

	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		seen = map[int64]int{}
	)
	for range 8 {
		wg.Go(func() {
			for {
				rescued, err := f.Rescue(t.Context(), 50)
				if err != nil {
					t.Errorf("rescue: %v", err)
					return
				}
				mu.Lock()
				for _, r := range rescued {
					seen[r.ID]++
				}
				mu.Unlock()
				if len(rescued) == 0 {
					return
				}
			}
		})
	}
	wg.Wait()
	require.Eventually(t, func() bool { // what was locked when a rescue looked is left for the next
		rescued, err := f.Rescue(t.Context(), 1000)
		for _, r := range rescued {
			seen[r.ID]++
		}
		return err == nil && len(rescued) == 0
	}, 10*time.Second, time.Millisecond)
	require.Len(t, seen, 1000)
	for id, times := range seen {
		require.Equal(t, 1, times, "message %d", id)
	}
	require.Equal(t, before, value[string](t, f, `SELECT md5(string_agg(m::text, ',' ORDER BY id)) FROM {{s}}messages m WHERE deadline = 'infinity' AND worker_id = `+fmt.Sprint(living)))
	require.Equal(t, 900, value[int](t, f, `SELECT count(*) FROM {{s}}messages WHERE status = 0 AND retry_count = 1`))
	require.Equal(t, 100, value[int](t, f, `SELECT count(*) FROM {{s}}dead_letters`))
	require.Equal(t, 1000, value[int](t, f, `SELECT count(*) FROM {{s}}attempts`))
	require.Equal(t, 500, value[int](t, f, `SELECT sum(cardinality(ids)) FROM {{s}}claims`))
}

func TestSweep(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	living, lost := f.worker(t, alive, "NULL"), f.worker(t, stale, stale)
	var lostIDs []int64
	for range 5 {
		f.held(t, living, "'infinity'", "", "")
		f.message(t, "", "")
		lostIDs = append(lostIDs, f.held(t, lost, "'infinity'", "", ""), f.held(t, 0, "'infinity'", "", ""),
			f.held(t, living, stale, "", ""), f.held(t, living, "'-infinity'", "", ""))
	}
	var got []int64
	var after int64
	rounds := 0
	for {
		rescued, next, err := f.Sweep(t.Context(), after, 7)
		require.NoError(t, err)
		for _, r := range rescued {
			got = append(got, r.ID)
		}
		rounds++
		if next == 0 {
			break
		}
		require.Greater(t, next, after)
		after = next
	}
	require.Equal(t, lostIDs, got)
	require.Equal(t, 5, rounds, "30 rows by 7")
	require.Equal(t, 5, value[int](t, f, `SELECT count(*) FROM {{s}}messages WHERE status = 1`))
}

func TestExpire(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	gone := f.message(t, "expires_at, retry_count, last_error, idempotency_key", "now() - interval '1 s', 2, 'boom', 'k'")
	f.exec(t, `INSERT INTO {{s}}keys VALUES ($1, 'infinity', 1000, 'default', 'k', '')`, gone)
	other := f.message(t, "expires_at", "now() - interval '2 s'")
	locked := f.message(t, "expires_at", "now() - interval '3 s'")
	f.message(t, "expires_at", "now() + interval '1 hour'")
	f.message(t, "", "")
	f.held(t, 1, "'infinity'", "expires_at", "now() - interval '1 s'")
	tx := f.begin(t, sql.LevelReadCommitted)
	_, err := tx.ExecContext(t.Context(), f.text(`SELECT FROM {{s}}messages WHERE id = $1 FOR UPDATE`), locked)
	require.NoError(t, err)

	expired, err := f.Expire(t.Context(), 1)
	require.NoError(t, err)
	require.Len(t, expired, 1)
	require.Equal(t, other, expired[0].ID, "the earliest first")
	expired, err = f.Expire(t.Context(), 10)
	require.NoError(t, err)
	require.Len(t, expired, 1)
	r := expired[0]
	require.Equal(t, gone, r.ID)
	require.Equal(t, message.DecisionExpired, r.Decision)
	require.True(t, r.Dead)
	require.Equal(t, "boom", r.LastError)

	letter, err := f.Letter(t.Context(), gone)
	require.NoError(t, err)
	require.Equal(t, message.DecisionExpired, letter.Decision)
	require.Equal(t, 2, letter.AttemptsUsed)
	require.Zero(t, letter.ResolvedAt)
	attempts, err := f.Attempts(t.Context(), gone, 10)
	require.NoError(t, err)
	require.Empty(t, attempts)
	require.Equal(t, 1, value[int](t, f, `SELECT count(*) FROM {{s}}keys`), "a dead message keeps its key")

	require.NoError(t, tx.Rollback())
	expired, err = f.Expire(t.Context(), 10)
	require.NoError(t, err)
	require.Len(t, expired, 1)
}
