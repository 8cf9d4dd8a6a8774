package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// letterColumns follow deadColumns.
const letterColumns = `, d.letter_id, d.decision, coalesce(d.failure_kind, ''), coalesce(d.error_class, ''),
	coalesce(d.error_message, ''), coalesce(d.stack, ''), coalesce(d.fingerprint, ''), d.first_failed_at, d.last_failed_at,
	d.dead_at, d.resolved_at, coalesce(d.resolution, ''), coalesce(d.resolved_by, ''), coalesce(d.resolve_reason, ''),
	coalesce(d.worker_version, ''), coalesce(d.trace_id, '')`

// Letters reads by letter id, newest first. Indexes: dead_letters_queue with a
// queue, dead_letters_fingerprint with a fingerprint, else dead_letters_pkey.
func (s *Store) Letters(ctx context.Context, q store.LetterQuery) ([]message.DeadLetter, error) {
	var c conditions
	if q.Resolved {
		c.terms = append(c.terms, "d.resolved_at IS NOT NULL")
	} else {
		c.terms = append(c.terms, "d.resolved_at IS NULL")
	}
	c.equal("d.queue", q.Queue)
	c.equal("d.kind", q.Kind)
	c.equal("d.tenant", q.Tenant)
	c.equal("d.error_class", q.ErrorClass)
	c.equal("d.fingerprint", q.Fingerprint)
	c.equal("d.decision", string(q.Decision))
	if q.After > 0 {
		c.add("d.letter_id < ?::bigint", q.After)
	}
	letters, err := s.letters(ctx, &c, q.Limit, q.Preview)
	if err != nil {
		return nil, fmt.Errorf("list dead letters: %w", mapError(err))
	}
	return letters, nil
}

// Letter reads the newest letter of a message by dead_letters_message.
func (s *Store) Letter(ctx context.Context, id int64) (message.DeadLetter, error) {
	var c conditions
	c.add("d.message_id = ?::bigint", id)
	letters, err := s.letters(ctx, &c, 1, 0)
	if err != nil {
		return message.DeadLetter{}, fmt.Errorf("get dead letter of message %d: %w", id, mapError(err))
	}
	if len(letters) == 0 {
		return message.DeadLetter{}, message.ErrNotFound
	}
	return letters[0], nil
}

func (s *Store) letters(ctx context.Context, c *conditions, limit, preview int) ([]message.DeadLetter, error) {
	rows, err := s.sql.QueryContext(ctx, s.text(`SELECT `+previewed(deadColumns+letterColumns, "d.payload", preview)+`
	FROM {{s}}dead_letters d WHERE `+c.String()+`
	ORDER BY d.letter_id DESC LIMIT `+strconv.Itoa(max(limit, 1))), c.args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var letters []message.DeadLetter
	for rows.Next() {
		var (
			r                     row
			l                     message.DeadLetter
			first, last, resolved sql.NullTime
			size                  int
		)
		if err := rows.Scan(r.dest(&l.LetterID, &l.Decision, &l.FailureKind, &l.ErrorClass,
			&l.ErrorMessage, &l.Stack, &l.Fingerprint, &first, &last,
			&l.DeadAt, &resolved, &l.Resolution, &l.ResolvedBy, &l.ResolveReason,
			&l.WorkerVersion, &l.TraceID, &size)...); err != nil {
			return nil, err
		}
		if l.Message, err = r.message(); err != nil {
			return nil, err
		}
		l.TraceID = store.TraceID(l.TraceID)
		l.AttemptsUsed = l.RetryCount
		l.FirstFailedAt, l.LastFailedAt = timeOf(first), timeOf(last)
		l.DeadAt, l.ResolvedAt = l.DeadAt.UTC(), timeOf(resolved)
		store.PreviewLetter(&l, preview, size)
		letters = append(letters, l)
	}
	return letters, rows.Err()
}
