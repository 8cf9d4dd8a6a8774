package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/styxmq/styx/internal/store"
)

// Audit reads entries, the newest first, by the primary key,
// styx_audit_log_message or styx_audit_log_queue.
func (s *Store) Audit(ctx context.Context, q store.AuditQuery) ([]store.AuditEntry, error) {
	var c conditions
	c.equal("queue", q.Queue)
	if q.MessageID != 0 {
		c.add("message_id = ?", q.MessageID)
	}
	if q.After != 0 {
		c.add("id < ?", q.After)
	}
	rows, err := s.sql.QueryContext(ctx, `SELECT id, at, action, actor, coalesce(origin, ''), coalesce(reason, ''),
	coalesce(queue, ''), coalesce(message_id, 0), affected
	FROM styx_audit_log WHERE `+c.String()+` ORDER BY id DESC LIMIT ?`, append(c.args, max(q.Limit, 1))...)
	if err != nil {
		return nil, fmt.Errorf("read the audit log: %w", s.mapError(ctx, err))
	}
	all, err := readAudit(rows)
	if err != nil {
		return nil, fmt.Errorf("read the audit log: %w", s.mapError(ctx, err))
	}
	return all, nil
}

func readAudit(rows *sql.Rows) ([]store.AuditEntry, error) {
	defer func() { _ = rows.Close() }()
	var all []store.AuditEntry
	for rows.Next() {
		var (
			e  store.AuditEntry
			at sql.NullInt64
		)
		if err := rows.Scan(&e.ID, &at, &e.Action, &e.Actor, &e.Origin, &e.Reason, &e.Queue, &e.MessageID, &e.Affected); err != nil {
			return nil, err
		}
		e.At = timeOf(at)
		all = append(all, e)
	}
	return all, rows.Err()
}
