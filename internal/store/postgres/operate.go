package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// operateTries bounds how often an operation goes after a message that moves.
const operateTries = 5

// What moves a message m, which the statement has just deleted, to the dead
// letters; the columns of the death follow. What failed before is known from
// the attempts.
const (
	goneColumns = buryValues + `, m.last_error`

	buryColumns = `message_id, lease_token, worker_id, created_at, expires_at, timeout_ms, retry_count, max_retries,
	priority, losses, snoozes, replay_count, queue, lane, kind, payload, headers, tenant,
	correlation_id, idempotency_key, trace`
	buryValues = `m.id, m.lease_token, m.worker_id, m.created_at, m.expires_at, m.timeout_ms, m.retry_count, m.max_retries,
	m.priority, m.losses, m.snoozes, m.replay_count, m.queue, m.lane, m.kind, m.payload, m.headers, m.tenant,
	m.correlation_id, m.idempotency_key, m.trace`

	firstFailed = `(SELECT min(f.finished_at) FROM {{s}}attempts f WHERE f.message_id = m.id AND f.charged)`
	lastFailed  = `(SELECT max(f.finished_at) FROM {{s}}attempts f WHERE f.message_id = m.id AND f.charged)`
)

// headersBack are the headers of a letter's message when it goes back: its
// own, and a link to the span of the attempt that died where that is known.
const headersBack = `CASE WHEN length(d.trace_id) = 55
	THEN coalesce(d.headers, '{}') || jsonb_build_object('styx-died-in', d.trace_id)
	ELSE d.headers - 'styx-died-in' END`

// Cancel moves a pending message to the dead letters, resolved at once, and
// frees its key. Locks: the message's row by its primary key, for which it
// waits (a claim that was faster leaves nothing to cancel), then the key's.
func (s *Store) Cancel(ctx context.Context, id int64, by store.Actor) error {
	return s.operate(ctx, "cancel", message.StatusPending, id, s.text(`WITH m AS (
	DELETE FROM {{s}}messages m WHERE m.id = $1 AND m.status = 0 RETURNING `+goneColumns+`
), buried AS (
	INSERT INTO {{s}}dead_letters (`+buryColumns+`, first_failed_at, last_failed_at, dead_at, decision, error_message,
	       resolved_at, resolution, resolved_by, resolve_reason)
	SELECT `+buryValues+`, `+firstFailed+`, `+lastFailed+`, clock_timestamp(), 'cancelled', m.last_error,
	       clock_timestamp(), 'cancelled', $2::text, $3::text
	  FROM m
), freed AS (
	DELETE FROM {{s}}keys k USING m WHERE k.queue = m.queue AND k.key = m.idempotency_key AND k.message_id = m.id
), audited AS (
	INSERT INTO {{s}}audit_log (at, message_id, affected, action, actor, queue, reason, origin)
	SELECT clock_timestamp(), m.id, 1, 'cancel', $2::text, m.queue, $3::text, $4::text FROM m
)
SELECT m.queue, NULL::text, NULL::bigint FROM m`), by)
}

// Replay puts the message of the newest letter back, unless that was done
// already or another message holds its key. Locks: the letter's row, for
// which it waits, so that one of two replays finds it replayed; then the
// key's row, which is made again where it was freed (with an empty digest,
// which means unknown: no enqueue is a mismatch with it). Indexes:
// dead_letters_message, keys_pkey.
//
// It comes back through messages_due, with its losses, so that what killed
// its worker runs alone again. An expiry that has passed is dropped: whoever
// replays wants it to run.
func (s *Store) Replay(ctx context.Context, id int64, by store.Actor) error {
	return s.operate(ctx, "replay", message.StatusDead, id, s.text(`WITH d AS MATERIALIZED (
	SELECT d.letter_id, d.message_id, d.lease_token, d.created_at, d.expires_at, d.timeout_ms, d.max_retries,
	       d.priority, d.losses, d.replay_count, d.queue, d.lane, d.kind, d.payload, d.tenant,
	       d.correlation_id, d.idempotency_key, d.trace, `+headersBack+` AS headers
	  FROM {{s}}dead_letters d
	 WHERE d.message_id = $1 AND d.resolution IS DISTINCT FROM 'replayed'
	 ORDER BY d.letter_id DESC LIMIT 1 FOR UPDATE
), held AS (
	INSERT INTO {{s}}keys AS k (message_id, expires_at, window_ms, queue, key, digest)
	SELECT d.message_id, 'infinity', $5::bigint, d.queue, d.idempotency_key, '' FROM d WHERE d.idempotency_key IS NOT NULL
	ON CONFLICT (queue, key) DO UPDATE
	   SET message_id = CASE WHEN k.expires_at <= clock_timestamp() THEN excluded.message_id ELSE k.message_id END,
	       digest = CASE WHEN k.expires_at <= clock_timestamp() AND k.message_id <> excluded.message_id THEN '' ELSE k.digest END,
	       expires_at = CASE WHEN k.expires_at <= clock_timestamp() OR k.message_id = excluded.message_id THEN 'infinity' ELSE k.expires_at END
	RETURNING k.message_id
), free AS MATERIALIZED (
	SELECT d.letter_id FROM d WHERE d.idempotency_key IS NULL OR EXISTS (SELECT FROM held WHERE held.message_id = d.message_id)
), back AS (
	INSERT INTO {{s}}messages (id, lease_token, created_at, updated_at, due_at, expires_at, timeout_ms, max_retries,
	       priority, losses, replay_count, queue, lane, kind, payload, headers, tenant, correlation_id, idempotency_key, trace)
	SELECT d.message_id, d.lease_token, d.created_at, clock_timestamp(), clock_timestamp(),
	       CASE WHEN d.expires_at > clock_timestamp() THEN d.expires_at END, d.timeout_ms, d.max_retries,
	       d.priority, d.losses, least(d.replay_count, 32766) + 1, d.queue, d.lane, d.kind, d.payload, d.headers, d.tenant,
	       d.correlation_id, d.idempotency_key, d.trace
	  FROM d JOIN free ON free.letter_id = d.letter_id
), resolved AS (
	UPDATE {{s}}dead_letters l
	   SET resolved_at = clock_timestamp(), resolution = 'replayed', resolved_by = $2::text, resolve_reason = $3::text
	  FROM free WHERE l.letter_id = free.letter_id
), audited AS (
	INSERT INTO {{s}}audit_log (at, message_id, affected, action, actor, queue, reason, origin)
	SELECT clock_timestamp(), d.message_id, 1, 'replay', $2::text, d.queue, $3::text, $4::text FROM d JOIN free ON free.letter_id = d.letter_id
)
SELECT d.queue, d.idempotency_key,
       CASE WHEN NOT EXISTS (SELECT FROM free) THEN (SELECT held.message_id FROM held) END
  FROM d`), by, message.DefaultIdempotencyWindow.Milliseconds())
}

// Resolve closes the waiting letter of a message and frees its key. Locks: the
// letter's row by dead_letters_waiting, then the key's.
func (s *Store) Resolve(ctx context.Context, id int64, by store.Actor) error {
	return s.operate(ctx, "resolve", "", id, s.text(`WITH d AS (
	UPDATE {{s}}dead_letters d
	   SET resolved_at = clock_timestamp(), resolution = 'resolved', resolved_by = $2::text, resolve_reason = $3::text
	 WHERE d.message_id = $1 AND d.resolved_at IS NULL
	RETURNING d.message_id, d.queue, d.idempotency_key
), freed AS (
	DELETE FROM {{s}}keys k USING d WHERE k.queue = d.queue AND k.key = d.idempotency_key AND k.message_id = d.message_id
), audited AS (
	INSERT INTO {{s}}audit_log (at, message_id, affected, action, actor, queue, reason, origin)
	SELECT clock_timestamp(), d.message_id, 1, 'resolve', $2::text, d.queue, $3::text, $4::text FROM d
)
SELECT d.queue, NULL::text, NULL::bigint FROM d`), by)
}

// operate runs a statement that changes one message, given as $1 beside the
// actor, the reason and the origin, and returns its queue and, where a key was in the way,
// the key and its holder. When it returns nothing, the message is in another
// state, or nowhere. One that has come back to the state meanwhile is tried
// again.
func (s *Store) operate(ctx context.Context, operation string, from message.Status, id int64, statement string, by store.Actor, more ...any) error {
	args := append([]any{id, by.Name, nullable(by.Reason), nullable(by.Origin)}, more...)
	for try := 1; ; try++ {
		var (
			queue  string
			key    sql.NullString
			holder sql.NullInt64
		)
		err := s.sql.QueryRowContext(ctx, statement, args...).Scan(&queue, &key, &holder)
		switch {
		case err == nil && holder.Valid:
			return &message.DuplicateError{Queue: queue, Key: key.String, ID: holder.Int64}
		case err == nil && operation == "replay":
			s.remotes.Look(queue)
			s.notifier.committed(ctx, queue)
			return nil
		case err == nil:
			return nil
		case !errors.Is(err, sql.ErrNoRows):
			return fmt.Errorf("%s message %d: %w", operation, id, mapError(err))
		}
		m, err := s.Get(ctx, id)
		if err != nil {
			return err
		}
		if m.Status != from || try == operateTries {
			return &message.StateError{ID: id, Operation: operation, Current: m.Status}
		}
	}
}

// nullable keeps an empty text as NULL.
func nullable(text string) sql.NullString {
	return sql.NullString{String: text, Valid: text != ""}
}
