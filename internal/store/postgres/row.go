package postgres

import (
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// The columns of a message wherever it stands, in the order of row.dest. A
// time that is infinite or without meaning in its state is NULL.
const (
	hotColumns = `m.id, CASE m.status WHEN 0 THEN 'pending' ELSE 'processing' END AS status,
	m.lease_token, m.worker_id, m.created_at, coalesce(m.updated_at, m.created_at) AS updated_at,
	CASE WHEN m.status = 0 THEN m.due_at END AS retry_after, m.expires_at,
	CASE WHEN m.status = 1 AND isfinite(m.deadline) THEN m.deadline END AS deadline, m.timeout_ms,
	m.retry_count, m.max_retries, m.priority, m.losses, m.snoozes, m.replay_count, m.queue, m.kind, m.payload,
	m.headers::text AS headers, m.trace, m.tenant, m.correlation_id, m.idempotency_key, m.last_error`

	archiveColumns = `a.id, 'succeeded' AS status,
	a.lease_token, a.worker_id, a.created_at, a.finished_at AS updated_at,
	NULL::timestamptz AS retry_after, NULL::timestamptz AS expires_at,
	NULL::timestamptz AS deadline, 0::bigint AS timeout_ms,
	a.retry_count, a.max_retries, a.priority, a.losses, a.snoozes, a.replay_count, a.queue, a.kind, coalesce(a.payload, '') AS payload,
	a.headers::text AS headers, a.trace, a.tenant, a.correlation_id, a.idempotency_key, a.last_error`

	deadColumns = `d.message_id AS id, 'dead' AS status,
	d.lease_token, d.worker_id, d.created_at, coalesce(d.resolved_at, d.dead_at) AS updated_at,
	NULL::timestamptz AS retry_after, d.expires_at,
	NULL::timestamptz AS deadline, d.timeout_ms,
	d.retry_count, d.max_retries, d.priority, d.losses, d.snoozes, d.replay_count, d.queue, d.kind, d.payload,
	d.headers::text AS headers, d.trace, d.tenant, d.correlation_id, d.idempotency_key, d.error_message AS last_error`
)

// previewed adds the size of the payload to the columns, and unless n is 0
// takes of long texts only what a preview of n bytes needs. The server reads
// no more of a value than that, nor anything to tell its size.
func previewed(columns, payload string, n int) string {
	if n <= 0 {
		return columns + ", 0"
	}
	characters := ", " + strconv.Itoa(store.PreviewRead(n)) + ")"
	return strings.NewReplacer(
		"m.payload", "left(m.payload"+characters, "a.payload", "left(a.payload"+characters, "d.payload", "left(d.payload"+characters,
		"m.last_error", "left(m.last_error"+characters, "a.last_error", "left(a.last_error"+characters,
		"d.error_message", "left(d.error_message"+characters, "d.stack", "left(d.stack"+characters,
	).Replace(columns) + ", coalesce(octet_length(" + payload + "), 0)"
}

// row reads the columns above.
type row struct {
	m                              message.Message
	timeout                        int64
	created, updated               time.Time
	retryAfter, expires, deadline  sql.NullTime
	headers, trace                 []byte
	tenant, correlation, key, last sql.NullString
}

func (r *row) dest(more ...any) []any {
	return append([]any{
		&r.m.ID, &r.m.Status, &r.m.LeaseToken, &r.m.WorkerID, &r.created, &r.updated, &r.retryAfter, &r.expires,
		&r.deadline, &r.timeout, &r.m.RetryCount, &r.m.MaxRetries, &r.m.Priority, &r.m.WorkerLosses,
		&r.m.Snoozes, &r.m.ReplayCount, &r.m.Queue, &r.m.Kind, &r.m.Payload, &r.headers, &r.trace, &r.tenant,
		&r.correlation, &r.key, &r.last,
	}, more...)
}

// message returns what was read.
func (r *row) message() (message.Message, error) {
	m := r.m
	m.Attempt = m.RetryCount + 1
	m.Timeout = timeoutOf(r.timeout)
	m.CreatedAt, m.UpdatedAt = r.created.UTC(), r.updated.UTC()
	m.RetryAfter, m.ExpiresAt, m.Deadline = timeOf(r.retryAfter), timeOf(r.expires), timeOf(r.deadline)
	m.Tenant, m.CorrelationID, m.IdempotencyKey, m.LastError = r.tenant.String, r.correlation.String, r.key.String, r.last.String
	var err error
	if m.Headers, err = new(traces).headers(r.headers, r.trace); err != nil {
		return m, fmt.Errorf("decode headers of message %d: %w", m.ID, err)
	}
	return m, nil
}
