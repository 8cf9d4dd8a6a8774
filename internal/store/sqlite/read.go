package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

const getText = `SELECT ` + hotColumns + ` FROM ` + hotTables + ` WHERE m.id = ?
	UNION ALL SELECT ` + archiveColumns + ` FROM ` + archiveTables + ` WHERE m.id = ?
	UNION ALL SELECT ` + deadColumns + ` FROM ` + deadTables + ` WHERE m.message_id = ? AND m.resolution IS NOT 'replayed'
	LIMIT 1`

// Get looks in all three places in one statement, so that a message which
// moves meanwhile is found once.
func (s *Store) Get(ctx context.Context, id int64) (message.Message, error) {
	var r row
	err := s.row(ctx, r.dest(), getText, id, id, id)
	switch {
	case none(err):
		return message.Message{}, message.ErrNotFound
	case err != nil:
		return message.Message{}, fmt.Errorf("get message %d: %w", id, s.mapError(ctx, err))
	}
	return r.message()
}

// Attempts reads the newest rows by the index of (message_id, lease_token).
func (s *Store) Attempts(ctx context.Context, id int64, limit int) ([]message.Attempt, error) {
	rows, err := s.sql.QueryContext(ctx, `SELECT id, message_id, number, lease_token, outcome, charged,
	coalesce(failure_kind, ''), coalesce(error_class, ''), coalesce(error_message, ''), coalesce(stack, ''),
	worker_id, coalesce(reason, ''), started_at, finished_at, retry_after, coalesce(trace_id, '')
	FROM styx_attempts WHERE message_id = ? ORDER BY lease_token DESC LIMIT ?`, id, max(limit, 1))
	if err != nil {
		return nil, fmt.Errorf("read attempts of message %d: %w", id, s.mapError(ctx, err))
	}
	attempts, err := readAttempts(rows)
	if err != nil {
		return nil, fmt.Errorf("read attempts of message %d: %w", id, s.mapError(ctx, err))
	}
	if len(attempts) == 0 {
		if _, err := s.Get(ctx, id); err != nil {
			return nil, err
		}
	}
	slices.Reverse(attempts)
	return attempts, nil
}

func readAttempts(rows *sql.Rows) ([]message.Attempt, error) {
	defer func() { _ = rows.Close() }()
	var attempts []message.Attempt
	for rows.Next() {
		var (
			a                        message.Attempt
			started, finished, retry sql.NullInt64
		)
		if err := rows.Scan(&a.ID, &a.MessageID, &a.Number, &a.LeaseToken, &a.Outcome, &a.Charged,
			&a.FailureKind, &a.ErrorClass, &a.ErrorMessage, &a.Stack,
			&a.WorkerID, &a.Reason, &started, &finished, &retry, &a.TraceID); err != nil {
			return nil, err
		}
		a.StartedAt, a.FinishedAt, a.RetryAfter = timeOf(started), timeOf(finished), timeOf(retry)
		a.TraceID = store.TraceID(a.TraceID)
		attempts = append(attempts, a)
	}
	return attempts, rows.Err()
}
