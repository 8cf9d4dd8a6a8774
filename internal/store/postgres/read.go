package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// Get looks in all three places in one statement, so that a message which
// moves meanwhile is found once. Indexes: messages_pkey, archive_id,
// dead_letters_message.
func (s *Store) Get(ctx context.Context, id int64) (message.Message, error) {
	var r row
	err := s.sql.QueryRowContext(ctx, s.text(`SELECT `+hotColumns+` FROM {{s}}messages m WHERE m.id = $1
	UNION ALL SELECT `+archiveColumns+` FROM {{s}}archive a WHERE a.id = $1
	UNION ALL SELECT `+deadColumns+` FROM {{s}}dead_letters d
	 WHERE d.message_id = $1 AND d.resolution IS DISTINCT FROM 'replayed'
	LIMIT 1`), id).Scan(r.dest()...)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return message.Message{}, message.ErrNotFound
	case err != nil:
		return message.Message{}, fmt.Errorf("get message %d: %w", id, mapError(err))
	}
	return r.message()
}

// Attempts reads the newest rows by the index of (message_id, lease_token).
func (s *Store) Attempts(ctx context.Context, id int64, limit int) ([]message.Attempt, error) {
	rows, err := s.sql.QueryContext(ctx, s.text(`SELECT id, message_id, number, lease_token, outcome, charged,
	coalesce(failure_kind, ''), coalesce(error_class, ''), coalesce(error_message, ''), coalesce(stack, ''),
	worker_id, coalesce(reason, ''), started_at, finished_at, retry_after, coalesce(trace_id, '')
	FROM {{s}}attempts WHERE message_id = $1 ORDER BY lease_token DESC LIMIT $2`), id, limit)
	if err != nil {
		return nil, fmt.Errorf("read attempts of message %d: %w", id, mapError(err))
	}
	defer func() { _ = rows.Close() }()
	var attempts []message.Attempt
	for rows.Next() {
		var (
			a              message.Attempt
			started, retry sql.NullTime
		)
		if err := rows.Scan(&a.ID, &a.MessageID, &a.Number, &a.LeaseToken, &a.Outcome, &a.Charged,
			&a.FailureKind, &a.ErrorClass, &a.ErrorMessage, &a.Stack,
			&a.WorkerID, &a.Reason, &started, &a.FinishedAt, &retry, &a.TraceID); err != nil {
			return nil, fmt.Errorf("read attempts of message %d: %w", id, mapError(err))
		}
		a.StartedAt, a.FinishedAt, a.RetryAfter = timeOf(started), a.FinishedAt.UTC(), timeOf(retry)
		a.TraceID = store.TraceID(a.TraceID)
		attempts = append(attempts, a)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read attempts of message %d: %w", id, mapError(err))
	}
	if len(attempts) == 0 {
		if _, err := s.Get(ctx, id); err != nil {
			return nil, err
		}
	}
	slices.Reverse(attempts)
	return attempts, nil
}
