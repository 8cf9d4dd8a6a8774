package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// BuryWorkers marks workers dead whose lease is over, lets their listeners
// go, and forgets those that have been dead for a day and hold no claims.
// Locks: the workers' rows, skipping locked ones, so a beat under way is
// never waited for.
func (s *Store) BuryWorkers(ctx context.Context) ([]int64, error) {
	dead, err := s.ids(ctx, s.sql, `UPDATE {{s}}workers SET dead_at = clock_timestamp()
	 WHERE id IN (SELECT w.id FROM {{s}}workers w
	               WHERE w.dead_at IS NULL AND w.beat_at < clock_timestamp() - w.lease_ms * interval '1 ms'
	               ORDER BY w.id FOR UPDATE SKIP LOCKED)
	RETURNING id`)
	if err != nil {
		return nil, fmt.Errorf("bury workers: %w", mapError(err))
	}
	_, err = s.sql.ExecContext(ctx, s.text(`WITH deaf AS (
	DELETE FROM {{s}}listeners l USING (
		SELECT o.queue, o.worker_id FROM {{s}}listeners o
		 WHERE CASE WHEN o.lapses_at IS NULL
		       THEN NOT EXISTS (SELECT FROM {{s}}workers w WHERE w.id = o.worker_id AND w.dead_at IS NULL)
		       ELSE o.lapses_at <= clock_timestamp() END
		   FOR UPDATE SKIP LOCKED) o
	 WHERE l.queue = o.queue AND l.worker_id = o.worker_id
)
DELETE FROM {{s}}workers WHERE id IN (
	SELECT w.id FROM {{s}}workers w
	 WHERE w.dead_at < now() - interval '1 day'
	   AND NOT EXISTS (SELECT FROM {{s}}claims c WHERE c.worker_id = w.id)
	   FOR UPDATE SKIP LOCKED)`))
	if err != nil {
		return dead, fmt.Errorf("forget workers: %w", mapError(err))
	}
	return dead, nil
}

// Expire buries pending messages whose time has passed. Locks: their rows,
// skipping locked ones. Index: messages_expiry, then the primary key.
func (s *Store) Expire(ctx context.Context, limit int) ([]store.Rescued, error) {
	var expired []store.Rescued
	err := s.calm(ctx, func(tx *sql.Tx) (err error) {
		expired, err = s.rescued(ctx, tx, s.text(`WITH taken AS MATERIALIZED (
	SELECT m.id FROM {{s}}messages m WHERE m.expires_at <= now() AND m.status = 0
	 ORDER BY m.expires_at LIMIT `+strconv.Itoa(max(limit, 1))+` FOR UPDATE SKIP LOCKED
), m AS (
	DELETE FROM {{s}}messages m WHERE m.id = ANY (ARRAY(SELECT id FROM taken)) AND m.status = 0 RETURNING `+goneColumns+`
), buried AS (
	INSERT INTO {{s}}dead_letters (`+buryColumns+`, first_failed_at, last_failed_at, dead_at, decision, error_message)
	SELECT `+buryValues+`, `+firstFailed+`, `+lastFailed+`, clock_timestamp(), 'expired', m.last_error FROM m
	ON CONFLICT DO NOTHING
)
SELECT m.id, m.queue, m.kind, m.retry_count, m.retry_count + 1, m.max_retries, m.lease_token, m.worker_id, m.losses,
       m.tenant, m.correlation_id, m.idempotency_key, m.last_error, NULL::timestamptz, 'expired', true,
       NULL::bigint, m.headers::text, m.trace
  FROM m ORDER BY m.id`), nil)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("expire messages: %w", mapError(err))
	}
	return expired, nil
}

// rescued reads what a statement of the reaper has moved; touched collects the
// claims rows that named them.
func (s *Store) rescued(ctx context.Context, tx *sql.Tx, statement string, touched map[claimKey]struct{}, args ...any) ([]store.Rescued, error) {
	rows, err := tx.QueryContext(ctx, statement, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var all []store.Rescued
	var printed traces
	for rows.Next() {
		var (
			r                              store.Rescued
			tenant, correlation, key, last sql.NullString
			headers, trace                 []byte
			retryAfter                     sql.NullTime
			number                         sql.NullInt64
		)
		if err := rows.Scan(&r.ID, &r.Queue, &r.Kind, &r.RetryCount, &r.Attempt, &r.MaxRetries, &r.LeaseToken,
			&r.WorkerID, &r.WorkerLosses, &tenant, &correlation, &key, &last, &retryAfter, &r.Decision, &r.Dead,
			&number, &headers, &trace); err != nil {
			return nil, err
		}
		r.Tenant, r.CorrelationID, r.IdempotencyKey, r.LastError = tenant.String, correlation.String, key.String, last.String
		r.RetryAfter = timeOf(retryAfter)
		r.Headers, _ = printed.headers(headers, trace) // a rescue does not depend on them
		r.Status = message.StatusPending
		if r.Dead {
			r.Status = message.StatusDead
		}
		if number.Valid {
			touched[claimKey{r.WorkerID, number.Int64}] = struct{}{}
		}
		all = append(all, r)
	}
	return all, rows.Err()
}

// ids reads a column of ids.
func (s *Store) ids(ctx context.Context, on conn, statement string, args ...any) ([]int64, error) {
	rows, err := on.QueryContext(ctx, s.text(statement), args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var all []int64
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		all = append(all, id)
	}
	return all, rows.Err()
}
