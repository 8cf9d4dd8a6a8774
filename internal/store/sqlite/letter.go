package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// letterColumns follow deadColumns.
const letterColumns = `, m.letter_id, m.decision, coalesce(m.failure_kind, ''), coalesce(m.error_class, ''),
	coalesce(m.error_message, ''), coalesce(m.stack, ''), coalesce(m.fingerprint, ''), m.first_failed_at, m.last_failed_at,
	m.dead_at, m.resolved_at, coalesce(m.resolution, ''), coalesce(m.resolved_by, ''), coalesce(m.resolve_reason, ''),
	coalesce(m.worker_version, ''), coalesce(m.trace_id, '')`

// Letters reads by letter id, newest first. Indexes: styx_dead_letters_queue
// with a queue, styx_dead_letters_fingerprint with a fingerprint, else the
// primary key.
func (s *Store) Letters(ctx context.Context, q store.LetterQuery) ([]message.DeadLetter, error) {
	var c conditions
	if q.Resolved {
		c.add("m.resolved_at IS NOT NULL")
	} else {
		c.add("m.resolved_at IS NULL")
	}
	c.equal("m.queue", q.Queue)
	c.equal("m.kind", q.Kind)
	c.equal("c.tenant", q.Tenant)
	c.equal("m.error_class", q.ErrorClass)
	c.equal("m.fingerprint", q.Fingerprint)
	c.equal("m.decision", string(q.Decision))
	if q.After > 0 {
		c.add("m.letter_id < ?", q.After)
	}
	letters, err := s.letters(ctx, &c, q.Limit, q.Preview)
	if err != nil {
		return nil, fmt.Errorf("list dead letters: %w", s.mapError(ctx, err))
	}
	return letters, nil
}

// Letter reads the newest letter of a message by styx_dead_letters_message.
func (s *Store) Letter(ctx context.Context, id int64) (message.DeadLetter, error) {
	var c conditions
	c.add("m.message_id = ?", id)
	letters, err := s.letters(ctx, &c, 1, 0)
	if err != nil {
		return message.DeadLetter{}, fmt.Errorf("get dead letter of message %d: %w", id, s.mapError(ctx, err))
	}
	if len(letters) == 0 {
		return message.DeadLetter{}, message.ErrNotFound
	}
	return letters[0], nil
}

func (s *Store) letters(ctx context.Context, c *conditions, limit, preview int) ([]message.DeadLetter, error) {
	rows, err := s.sql.QueryContext(ctx, `SELECT `+previewed(deadColumns+letterColumns, preview)+` FROM `+deadTables+` WHERE `+c.String()+`
	ORDER BY m.letter_id DESC LIMIT ?`, append(c.args, max(limit, 1))...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var letters []message.DeadLetter
	for rows.Next() {
		var (
			r                           row
			l                           message.DeadLetter
			first, last, dead, resolved sql.NullInt64
			size                        int
		)
		if err := rows.Scan(r.dest(&l.LetterID, &l.Decision, &l.FailureKind, &l.ErrorClass,
			&l.ErrorMessage, &l.Stack, &l.Fingerprint, &first, &last,
			&dead, &resolved, &l.Resolution, &l.ResolvedBy, &l.ResolveReason,
			&l.WorkerVersion, &l.TraceID, &size)...); err != nil {
			return nil, err
		}
		if l.Message, err = r.message(); err != nil {
			return nil, err
		}
		l.TraceID = store.TraceID(l.TraceID)
		l.AttemptsUsed = l.RetryCount
		l.FirstFailedAt, l.LastFailedAt = timeOf(first), timeOf(last)
		l.DeadAt, l.ResolvedAt = timeOf(dead), timeOf(resolved)
		store.PreviewLetter(&l, preview, size)
		letters = append(letters, l)
	}
	return letters, rows.Err()
}
