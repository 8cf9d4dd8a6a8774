package postgres

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// abandonGrace is how long after its timeout a handler's outcome still
// counts; the deadline leaves room for it.
const abandonGrace = 5 * time.Second

func (c *cursor) claim(ctx context.Context, src source, lane, limit int, number int64) ([]store.Claimed, error) {
	var from, id any
	switch src {
	case sourceReady:
		from, id = int64(lane+message.MinPriority), *c.floors[lane].pos
	case sourceDue:
		from = timeArg(*c.due.pos)
	default:
		from = timeArg(time.Time{})
	}
	own := (c.spec.Lease + abandonGrace).Milliseconds()
	other := int64(-1)
	if c.spec.Timeout >= 0 {
		other = c.spec.Timeout.Milliseconds() + own
	}
	rows, err := c.s.sql.QueryContext(ctx, c.s.hot.claim(src, limit, c.kinds.Valid),
		c.spec.Queue, c.spec.WorkerID, number, other, own, c.kinds, from, id)
	if err != nil {
		return nil, mapError(err)
	}
	defer func() { _ = rows.Close() }()
	out := make([]store.Claimed, 0, limit)
	for rows.Next() {
		out = append(out, store.Claimed{})
		if err := c.scan(rows, &out[len(out)-1]); err != nil {
			return nil, mapError(err)
		}
	}
	return out, mapError(rows.Err())
}

// scan reads the columns of claimedColumns.
func (c *cursor) scan(rows *sql.Rows, m *store.Claimed) error {
	var (
		due, expires                   sql.NullTime
		timeout                        int64
		headers                        sql.Null[[]byte]
		tenant, correlation, key, last sql.NullString
	)
	if err := rows.Scan(&m.Place, &m.ID, &m.LeaseToken, &m.Kind, &m.Payload, &m.Priority, &m.RetryCount,
		&m.MaxRetries, &timeout, &m.WorkerLosses, &m.Snoozes, &m.ReplayCount, &m.CreatedAt, &due, &expires,
		&headers, &tenant, &correlation, &key, &last); err != nil {
		return err
	}
	m.Queue, m.Status, m.WorkerID = c.spec.Queue, message.StatusProcessing, c.spec.WorkerID
	m.Attempt = m.RetryCount + 1
	m.Timeout = timeoutOf(timeout)
	m.CreatedAt = m.CreatedAt.UTC()
	m.RetryAfter, m.ExpiresAt = due.Time.UTC(), expires.Time.UTC()
	if !due.Valid {
		m.RetryAfter = time.Time{}
	}
	if !expires.Valid {
		m.ExpiresAt = time.Time{}
	}
	m.Tenant, m.CorrelationID, m.IdempotencyKey, m.LastError = tenant.String, correlation.String, key.String, last.String
	if headers.Valid {
		return json.Unmarshal(headers.V, &m.Headers)
	}
	return nil
}

// timeoutOf turns the column timeout_ms into a duration: negative is -1.
func timeoutOf(ms int64) time.Duration {
	if ms < 0 {
		return -1
	}
	return time.Duration(ms) * time.Millisecond
}

// timeArg binds a time that came from the database, as text so that every
// driver sends all its digits.
func timeArg(t time.Time) string {
	return t.UTC().Format("2006-01-02 15:04:05.999999+00")
}
