package postgres_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

var operator = store.Actor{Name: "ann", Reason: "because"}

// letter adds a dead letter of a new message and returns the message's id.
func (f fixture) letter(t *testing.T, columns, values string) int64 {
	t.Helper()
	if columns != "" {
		columns, values = ", "+columns, ", "+values
	}
	return value[int64](t, f, `INSERT INTO {{s}}dead_letters (message_id, lease_token, worker_id, created_at, dead_at, timeout_ms,
		retry_count, max_retries, priority, losses, snoozes, replay_count, queue, kind, payload, decision, error_message`+columns+`)
		VALUES (nextval('{{s}}message_id'), 9, 3, now() - interval '1 day', now() - interval '1 hour', -1,
		5, 5, 2, 1, 4, 6, 'default', 'work', 'body', 'exhausted', 'boom'`+values+`) RETURNING message_id`)
}

func (f fixture) key(t *testing.T, id int64, key, expiresAt string) {
	t.Helper()
	f.exec(t, `INSERT INTO {{s}}keys (message_id, expires_at, window_ms, queue, key, digest)
		VALUES ($1, `+expiresAt+`, 5000, 'default', $2, 'd')`, id, key)
}

func requireState(t *testing.T, err error, operation string, current message.Status) {
	t.Helper()
	var state *message.StateError
	require.ErrorAs(t, err, &state)
	require.Equal(t, current, state.Current)
	require.Equal(t, operation, state.Operation)
}

// archived adds a succeeded message.
func (f fixture) archived(t *testing.T, queue, finishedAt string) int64 {
	t.Helper()
	return value[int64](t, f, `INSERT INTO {{s}}archive (id, lease_token, worker_id, created_at, finished_at, retry_count, max_retries,
		priority, losses, snoozes, replay_count, queue, kind) VALUES (nextval('{{s}}message_id'), 1, 1, now(), `+finishedAt+`, 0, 5,
		0, 0, 0, 0, $1, 'work') RETURNING id`, queue)
}

func TestCancel(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.message(t, "idempotency_key, timeout_ms, last_error, retry_count", "'k', 1500, 'boom', 1")
	f.key(t, id, "k", "'infinity'")
	f.exec(t, `INSERT INTO {{s}}attempts (message_id, lease_token, worker_id, finished_at, number, charged, outcome)
		VALUES ($1, 1, 1, now() - interval '1 hour', 1, true, 'retried')`, id)
	require.NoError(t, f.Cancel(t.Context(), id, operator))

	letter, err := f.Letter(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, message.DecisionCancelled, letter.Decision)
	require.Equal(t, message.ResolutionCancelled, letter.Resolution)
	require.Equal(t, "ann", letter.ResolvedBy)
	require.Equal(t, "because", letter.ResolveReason)
	require.False(t, letter.ResolvedAt.IsZero())
	require.False(t, letter.FirstFailedAt.IsZero())
	require.Equal(t, "boom", letter.ErrorMessage)
	require.Equal(t, 1500*time.Millisecond, letter.Timeout)
	require.Zero(t, value[int](t, f, `SELECT count(*) FROM {{s}}keys`))
	require.Equal(t, "cancel 1 ann because default", value[string](t, f,
		`SELECT concat_ws(' ', action, affected, actor, reason, queue) FROM {{s}}audit_log WHERE message_id = $1`, id))

	requireState(t, f.Cancel(t.Context(), id, operator), "cancel", message.StatusDead)
	requireState(t, f.Cancel(t.Context(), f.held(t, 1, "'infinity'", "", ""), operator), "cancel", message.StatusProcessing)
	requireState(t, f.Cancel(t.Context(), f.archived(t, "default", "now()"), operator), "cancel", message.StatusSucceeded)
	require.ErrorIs(t, f.Cancel(t.Context(), 1<<40, operator), message.ErrNotFound)
	require.Equal(t, 1, value[int](t, f, `SELECT count(*) FROM {{s}}audit_log`))
}

func TestReplay(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.letter(t, "idempotency_key, headers, tenant, expires_at", `'k', '{"a":"b"}', 'acme', now() - interval '1 s'`)
	f.key(t, id, "k", "'infinity'")
	require.NoError(t, f.Replay(t.Context(), id, operator))

	m, err := f.Get(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, message.StatusPending, m.Status)
	require.Equal(t, []any{int64(9), 0, 1, 5, 2, 1, 0, 7, "body", "acme", "k", "", time.Duration(-1)},
		[]any{
			m.LeaseToken, m.RetryCount, m.Attempt, m.MaxRetries, m.Priority, m.WorkerLosses, m.Snoozes, m.ReplayCount, m.Payload,
			m.Tenant, m.IdempotencyKey, m.LastError, m.Timeout,
		})
	require.Equal(t, map[string]string{"a": "b"}, m.Headers)
	require.Zero(t, m.ExpiresAt, "an expiry that has passed would end it again")
	require.Zero(t, m.WorkerID)
	require.True(t, value[bool](t, f, `SELECT due_at <= clock_timestamp() AND created_at < now() - interval '23 hours' FROM {{s}}messages WHERE id = $1`, id))
	letter, err := f.Letter(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, message.ResolutionReplayed, letter.Resolution)
	require.Equal(t, "ann", letter.ResolvedBy)
	require.Equal(t, "replay 1 ann because", value[string](t, f, `SELECT concat_ws(' ', action, affected, actor, reason) FROM {{s}}audit_log`))
	require.Equal(t, "d 5000 infinity", value[string](t, f, `SELECT concat_ws(' ', digest, window_ms, expires_at) FROM {{s}}keys WHERE message_id = $1`, id))

	requireState(t, f.Replay(t.Context(), id, operator), "replay", message.StatusPending)
	requireState(t, f.Replay(t.Context(), f.held(t, 1, "'infinity'", "", ""), operator), "replay", message.StatusProcessing)
	requireState(t, f.Replay(t.Context(), f.archived(t, "default", "now()"), operator), "replay", message.StatusSucceeded)
	require.ErrorIs(t, f.Replay(t.Context(), 1<<40, operator), message.ErrNotFound)
}

func TestReplayKeys(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	taken := f.letter(t, "idempotency_key", "'taken'")
	holder := f.message(t, "idempotency_key", "'taken'")
	f.key(t, holder, "taken", "'infinity'")
	err := f.Replay(t.Context(), taken, operator)
	var duplicate *message.DuplicateError
	require.ErrorAs(t, err, &duplicate)
	require.Equal(t, message.DuplicateError{Queue: "default", Key: "taken", ID: holder}, *duplicate)
	m, err := f.Get(t.Context(), taken)
	require.NoError(t, err)
	require.Equal(t, message.StatusDead, m.Status, "it stays where it is")
	require.Equal(t, holder, value[int64](t, f, `SELECT message_id FROM {{s}}keys WHERE key = 'taken'`))
	require.Zero(t, value[int](t, f, `SELECT count(*) FROM {{s}}audit_log`))

	freed := f.letter(t, "idempotency_key, resolved_at, resolution", "'freed', now(), 'resolved'")
	require.NoError(t, f.Replay(t.Context(), freed, operator), "an operator may change their mind")
	require.Equal(t, freed, value[int64](t, f, `SELECT message_id FROM {{s}}keys WHERE key = 'freed' AND expires_at = 'infinity'`))

	over := f.letter(t, "idempotency_key", "'over'")
	f.key(t, f.archived(t, "default", "now()"), "over", "now() - interval '1 s'")
	require.NoError(t, f.Replay(t.Context(), over, operator), "the other's window is over")
	require.Equal(t, over, value[int64](t, f, `SELECT message_id FROM {{s}}keys WHERE key = 'over' AND expires_at = 'infinity'`))
}

func TestReplayTwiceAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for i := range 20 {
		id := f.letter(t, "idempotency_key", fmt.Sprintf("'k%d'", i))
		f.key(t, id, fmt.Sprintf("k%d", i), "'infinity'")
		errs := make([]error, 4)
		var wg sync.WaitGroup
		for n := range errs {
			wg.Go(func() { errs[n] = f.Replay(t.Context(), id, operator) })
		}
		wg.Wait()
		won := 0
		for _, err := range errs {
			if err == nil {
				won++
				continue
			}
			requireState(t, err, "replay", message.StatusPending)
		}
		require.Equal(t, 1, won)
		require.Equal(t, 1, value[int](t, f, `SELECT count(*) FROM {{s}}messages WHERE id = $1`, id))
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.letter(t, "idempotency_key", "'k'")
	f.key(t, id, "k", "'infinity'")
	require.NoError(t, f.Resolve(t.Context(), id, operator))
	letter, err := f.Letter(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, message.ResolutionResolved, letter.Resolution)
	require.Zero(t, value[int](t, f, `SELECT count(*) FROM {{s}}keys`))
	requireState(t, f.Resolve(t.Context(), id, operator), "resolve", message.StatusDead)
	requireState(t, f.Resolve(t.Context(), f.message(t, "", ""), operator), "resolve", message.StatusPending)
	require.ErrorIs(t, f.Resolve(t.Context(), 1<<40, operator), message.ErrNotFound)
}

func (f fixture) attempt(t *testing.T, id int64, finishedAt string) {
	t.Helper()
	f.exec(t, `INSERT INTO {{s}}attempts (message_id, lease_token, worker_id, finished_at, number, charged, outcome)
		VALUES ($1, (SELECT count(*) FROM {{s}}attempts), 1, `+finishedAt+`, 1, true, 'retried')`, id)
}

func TestPurge(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	old := f.letter(t, "idempotency_key", "'old'")
	young := f.letter(t, "", "")
	f.exec(t, `UPDATE {{s}}dead_letters SET dead_at = now() WHERE message_id = $1`, young)
	resolved := f.letter(t, "resolved_at, resolution", "now(), 'resolved'")
	replayed := f.letter(t, "idempotency_key", "'live'")
	f.key(t, old, "old", "'infinity'")
	f.key(t, replayed, "live", "'infinity'")
	require.NoError(t, f.Replay(t.Context(), replayed, operator))
	for _, id := range []int64{old, young, resolved, replayed} {
		f.attempt(t, id, "now()")
	}
	f.exec(t, `DELETE FROM {{s}}audit_log`)

	n, err := f.Purge(t.Context(), store.PurgeQuery{OlderThan: 30 * time.Minute, Queue: "other", Limit: 10}, operator)
	require.NoError(t, err)
	require.Zero(t, n)
	require.Zero(t, value[int](t, f, `SELECT count(*) FROM {{s}}audit_log`))

	n, err = f.Purge(t.Context(), store.PurgeQuery{OlderThan: 30 * time.Minute, Queue: "default", Limit: 10}, operator)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	_, err = f.Get(t.Context(), old)
	require.ErrorIs(t, err, message.ErrNotFound)
	require.Equal(t, "live", value[string](t, f, `SELECT string_agg(key, ' ') FROM {{s}}keys`))
	require.Zero(t, value[int](t, f, `SELECT count(*) FROM {{s}}attempts WHERE message_id = $1`, old))
	require.Equal(t, "purge 1 ann because default", value[string](t, f,
		`SELECT concat_ws(' ', action, affected, actor, reason, queue) FROM {{s}}audit_log`))

	n, err = f.Purge(t.Context(), store.PurgeQuery{Resolved: true, Limit: 10}, operator)
	require.NoError(t, err)
	require.Equal(t, 2, n, "the resolved one and the replayed one")
	m, err := f.Get(t.Context(), replayed)
	require.NoError(t, err)
	require.Equal(t, message.StatusPending, m.Status)
	require.Equal(t, 1, value[int](t, f, `SELECT count(*) FROM {{s}}attempts WHERE message_id = $1`, replayed))
	require.Equal(t, 1, value[int](t, f, `SELECT count(*) FROM {{s}}keys WHERE message_id = $1`, replayed))
	require.Zero(t, value[int](t, f, `SELECT count(*) FROM {{s}}attempts WHERE message_id = $1`, resolved))

	n, err = f.Purge(t.Context(), store.PurgeQuery{ID: young, Limit: 10}, operator)
	require.NoError(t, err)
	require.Equal(t, 1, n)

	for range 5 {
		f.letter(t, "", "")
	}
	n, err = f.Purge(t.Context(), store.PurgeQuery{Limit: 3}, operator)
	require.NoError(t, err)
	require.Equal(t, 3, n)
}

// A purge of everything against replays of the same letters: whatever comes
// first, a message that was put back keeps its key and its attempts.
func TestPurgeBesideReplays(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for round := range 20 {
		key := fmt.Sprintf("k%d", round)
		id := f.letter(t, "idempotency_key", "'"+key+"'")
		f.key(t, id, key, "'infinity'")
		f.attempt(t, id, "now()")
		var wg sync.WaitGroup
		var replay, purge error
		wg.Go(func() { replay = f.Replay(t.Context(), id, operator) })
		wg.Go(func() { _, purge = f.Purge(t.Context(), store.PurgeQuery{ID: id, Limit: 10}, operator) })
		wg.Wait()
		require.NoError(t, purge)
		rest := value[int](t, f, `SELECT (SELECT count(*) FROM {{s}}keys WHERE message_id = $1) + (SELECT count(*) FROM {{s}}attempts WHERE message_id = $1)`, id)
		if replay == nil {
			require.Equal(t, 2, rest)
			continue
		}
		if !errors.Is(replay, message.ErrNotFound) {
			t.Fatalf("replay: %v", replay)
		}
		require.Zero(t, rest)
	}
}
