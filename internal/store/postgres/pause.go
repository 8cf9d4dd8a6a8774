package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/styxmq/styx/internal/store"
)

// inForce is the condition on a row of queues that it is paused now.
const inForce = `paused_at IS NOT NULL AND (paused_until IS NULL OR paused_until > now())`

// paused reports whether the queue is paused, as of a second ago at most.
func (s *Store) paused(ctx context.Context, queue string) (bool, error) {
	return s.pauses.Paused(ctx, queue, func(ctx context.Context) ([]string, error) {
		rows, err := s.sql.QueryContext(ctx, s.text(`SELECT queue FROM {{s}}queues WHERE `+inForce))
		if err != nil {
			return nil, mapError(err)
		}
		queues, err := texts(rows)
		return queues, mapError(err)
	})
}

// Pause writes the queue's row and an audit row, in one statement.
func (s *Store) Pause(ctx context.Context, r store.PauseRequest, by store.Actor) error {
	var until sql.NullString
	if !r.Until.IsZero() {
		until = sql.NullString{String: timeArg(r.Until), Valid: true}
	}
	_, err := s.sql.ExecContext(ctx, s.text(`WITH paused AS (
	INSERT INTO {{s}}queues AS q (queue, paused_at, paused_until, paused_by, pause_origin, pause_reason)
	VALUES ($1, clock_timestamp(), CASE WHEN $3::bigint > 0 THEN clock_timestamp() + $3::bigint * interval '1 ms'
	        ELSE $2::text::timestamptz END, $4, $5, $6)
	ON CONFLICT (queue) DO UPDATE
	   SET paused_at = CASE WHEN q.paused_at IS NOT NULL AND (q.paused_until IS NULL OR q.paused_until > now())
	                   THEN q.paused_at ELSE excluded.paused_at END,
	       paused_until = excluded.paused_until, paused_by = excluded.paused_by,
	       pause_origin = excluded.pause_origin, pause_reason = excluded.pause_reason
	RETURNING q.queue
)
INSERT INTO {{s}}audit_log (at, affected, action, actor, queue, reason, origin)
SELECT clock_timestamp(), 1, 'pause', $4::text, p.queue, $6::text, $5::text FROM paused p`),
		r.Queue, until, r.For.Milliseconds(), by.Name, nullable(by.Origin), nullable(by.Reason))
	s.pauses.Forget()
	if err != nil {
		return fmt.Errorf("pause queue %q: %w", r.Queue, mapError(err))
	}
	return nil
}

// Resume ends the pause and writes an audit row, in one statement, unless the
// queue is not paused. It wakes the workers.
func (s *Store) Resume(ctx context.Context, queue string, by store.Actor) (bool, error) {
	var was bool
	err := s.sql.QueryRowContext(ctx, s.text(`WITH resumed AS (
	UPDATE {{s}}queues SET paused_at = NULL, paused_until = NULL, paused_by = NULL, pause_origin = NULL, pause_reason = NULL
	 WHERE queue = $1 AND `+inForce+` RETURNING queue
), audited AS (
	INSERT INTO {{s}}audit_log (at, affected, action, actor, queue, reason, origin)
	SELECT clock_timestamp(), 1, 'resume', $2::text, r.queue, $3::text, $4::text FROM resumed r
)
SELECT EXISTS (SELECT FROM resumed)`), queue, by.Name, nullable(by.Reason), nullable(by.Origin)).Scan(&was)
	s.pauses.Forget()
	if err != nil {
		return false, fmt.Errorf("resume queue %q: %w", queue, mapError(err))
	}
	if was {
		s.notifier.committed(ctx, queue)
	}
	return was, nil
}

// Pauses reads the pauses in force.
func (s *Store) Pauses(ctx context.Context) ([]store.Pause, error) {
	rows, err := s.sql.QueryContext(ctx, s.text(`SELECT queue, paused_at, paused_until, coalesce(paused_by, ''), coalesce(pause_reason, '')
	  FROM {{s}}queues WHERE `+inForce+` ORDER BY queue COLLATE "C"`))
	if err != nil {
		return nil, fmt.Errorf("list pauses: %w", mapError(err))
	}
	defer func() { _ = rows.Close() }()
	var all []store.Pause
	for rows.Next() {
		var (
			p     store.Pause
			until sql.NullTime
		)
		if err := rows.Scan(&p.Queue, &p.Since, &until, &p.Actor, &p.Reason); err != nil {
			return nil, fmt.Errorf("list pauses: %w", mapError(err))
		}
		p.Since, p.Until = p.Since.UTC(), timeOf(until)
		all = append(all, p)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list pauses: %w", mapError(err))
	}
	return all, nil
}

// Ticked writes the row of reapers, once a second however many of them there
// are. The commit need not wait for the disk.
func (s *Store) Ticked(ctx context.Context) error {
	var at sql.NullString
	err := s.sql.QueryRowContext(ctx, s.text(`WITH soon AS MATERIALIZED (
	SELECT set_config('synchronous_commit', 'off', true) AS done
)
INSERT INTO {{s}}reaper AS r (one, ticked_at) SELECT true, clock_timestamp() FROM soon
ON CONFLICT (one) DO UPDATE SET ticked_at = excluded.ticked_at
 WHERE r.ticked_at < excluded.ticked_at - interval '900 ms' RETURNING r.ticked_at::text`)).Scan(&at)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("record a tick: %w", mapError(err))
	}
	return nil
}
