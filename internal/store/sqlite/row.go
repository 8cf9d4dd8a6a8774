package sqlite

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// The columns of a message wherever it stands, in the order of row.dest; m is
// its row there and c its contents.
const (
	hotColumns = `m.id, CASE m.status WHEN 0 THEN 'pending' ELSE 'processing' END AS status,
	m.lease_token, m.worker_id, c.created_at, m.updated_at,
	CASE WHEN m.status = 0 THEN m.due_at END AS retry_after, m.expires_at,
	CASE WHEN m.status = 1 THEN m.deadline END AS deadline, m.timeout_us,
	m.retry_count, m.max_retries, m.priority, m.losses, m.snoozes, m.replay_count, m.queue, m.kind, m.last_error, ` + contentColumns

	archiveColumns = `m.id, 'succeeded' AS status,
	m.lease_token, m.worker_id, c.created_at, m.finished_at,
	NULL AS retry_after, NULL AS expires_at,
	NULL AS deadline, 0 AS timeout_us,
	m.retry_count, m.max_retries, m.priority, m.losses, m.snoozes, m.replay_count, m.queue, m.kind, m.last_error, ` + contentColumns

	deadColumns = `m.message_id AS id, 'dead' AS status,
	m.lease_token, m.worker_id, c.created_at, coalesce(m.resolved_at, m.dead_at),
	NULL AS retry_after, m.expires_at,
	NULL AS deadline, m.timeout_us,
	m.retry_count, m.max_retries, m.priority, m.losses, m.snoozes, m.replay_count, m.queue, m.kind, m.error_message, ` + contentColumns

	contentColumns = `c.headers, c.tenant, c.correlation_id, c.idempotency_key, c.payload`

	// A left join keeps the order of the tables, and shows a message whose
	// contents someone has deleted.
	hotTables     = `styx_messages m LEFT JOIN styx_contents c ON c.id = m.id`
	archiveTables = `styx_archive m LEFT JOIN styx_contents c ON c.id = m.id`
	deadTables    = `styx_dead_letters m LEFT JOIN styx_contents c ON c.id = m.message_id`
)

// row reads the columns above.
type row struct {
	m                                           message.Message
	status                                      string
	timeout                                     int64
	created, updated, due, expires, deadline    sql.NullInt64
	last, headers, tenant, correlation, key, in sql.NullString
}

func (r *row) dest(more ...any) []any {
	return append([]any{
		&r.m.ID, &r.status, &r.m.LeaseToken, &r.m.WorkerID, &r.created, &r.updated, &r.due, &r.expires,
		&r.deadline, &r.timeout, &r.m.RetryCount, &r.m.MaxRetries, &r.m.Priority, &r.m.WorkerLosses,
		&r.m.Snoozes, &r.m.ReplayCount, &r.m.Queue, &r.m.Kind, &r.last, &r.headers, &r.tenant, &r.correlation,
		&r.key, &r.in,
	}, more...)
}

// message returns what was read.
func (r *row) message() (message.Message, error) {
	m := r.m
	m.Status = message.Status(r.status)
	m.Attempt = next(m.RetryCount)
	m.Timeout = durationOf(r.timeout)
	m.CreatedAt, m.UpdatedAt = timeOf(r.created), timeOf(r.updated)
	if !r.updated.Valid {
		m.UpdatedAt = m.CreatedAt
	}
	m.RetryAfter, m.ExpiresAt, m.Deadline = timeOf(r.due), timeOf(r.expires), timeOf(r.deadline)
	m.LastError, m.Tenant, m.CorrelationID, m.IdempotencyKey = r.last.String, r.tenant.String, r.correlation.String, r.key.String
	m.Payload = r.in.String
	if r.headers.Valid {
		if err := json.Unmarshal([]byte(r.headers.String), &m.Headers); err != nil {
			return m, fmt.Errorf("decode headers of message %d: %w", m.ID, err)
		}
	}
	return m, nil
}

// next counts one more, unless the counter is full.
func next(n int) int { return max(n, n+1) }

// previewed adds the size of the payload to the columns, and unless n is 0
// takes of long texts only what a preview of n bytes needs. Of texts there are
// bytes, whatever they hold; a text of SQLite would end with its first NUL.
func previewed(columns string, n int) string {
	if n <= 0 {
		return columns + ", 0"
	}
	bytes := " AS BLOB), 1, " + strconv.Itoa(store.PreviewRead(n)) + ")"
	return strings.NewReplacer(
		"c.payload", "substr(CAST(c.payload"+bytes, "m.last_error", "substr(CAST(m.last_error"+bytes,
		"m.error_message", "substr(CAST(m.error_message"+bytes, "m.stack", "substr(CAST(m.stack"+bytes,
	).Replace(columns) + ", coalesce(length(CAST(c.payload AS BLOB)), 0)"
}

// readMessages collects rows of the columns above, previewed.
func readMessages(rows *sql.Rows, preview int) ([]message.Message, error) {
	defer func() { _ = rows.Close() }()
	var all []message.Message
	for rows.Next() {
		var r row
		var size int
		if err := rows.Scan(r.dest(&size)...); err != nil {
			return nil, err
		}
		m, err := r.message()
		if err != nil {
			return nil, err
		}
		store.Preview(&m, preview, size)
		all = append(all, m)
	}
	return all, rows.Err()
}
