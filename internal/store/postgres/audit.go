package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"

	"github.com/styxmq/styx/internal/store"
)

// Audit reads entries, the newest first. Indexes: the primary key,
// audit_log_message or audit_log_queue, each in the order of ids.
func (s *Store) Audit(ctx context.Context, q store.AuditQuery) ([]store.AuditEntry, error) {
	var c conditions
	c.equal("queue", q.Queue)
	if q.MessageID != 0 {
		c.add("message_id = ?::bigint", q.MessageID)
	}
	if q.After != 0 {
		c.add("id < ?::bigint", q.After)
	}
	var all []store.AuditEntry
	err := s.calm(ctx, func(tx *sql.Tx) error {
		all = nil
		rows, err := tx.QueryContext(ctx, s.text(`SELECT id, at, action, actor, coalesce(origin, ''), coalesce(reason, ''),
	coalesce(queue, ''), coalesce(message_id, 0), affected
	FROM {{s}}audit_log WHERE `+c.String()+` ORDER BY id DESC LIMIT `+strconv.Itoa(max(q.Limit, 1))), c.args...)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var e store.AuditEntry
			if err := rows.Scan(&e.ID, &e.At, &e.Action, &e.Actor, &e.Origin, &e.Reason, &e.Queue, &e.MessageID, &e.Affected); err != nil {
				return err
			}
			e.At = e.At.UTC()
			all = append(all, e)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("read the audit log: %w", mapError(err))
	}
	return all, nil
}
