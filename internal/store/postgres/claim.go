package postgres

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
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
	var rest sql.NullString
	if err := rows.Scan(&m.Place, &m.ID, &m.LeaseToken, &m.Kind, &m.Payload, &m.CreatedAt, &m.MaxRetries, &rest); err != nil {
		return err
	}
	m.Queue, m.Status, m.WorkerID = c.spec.Queue, message.StatusProcessing, c.spec.WorkerID
	m.CreatedAt = m.CreatedAt.UTC()
	if rest.Valid {
		if err := parseRest(rest.String, m); err != nil {
			return fmt.Errorf("read claimed message %d: %w", m.ID, err)
		}
	}
	m.Attempt = m.RetryCount + 1
	return nil
}

// restParts is the number of parts of the column rest.
const restParts = 13

func parseRest(text string, m *store.Claimed) (err error) {
	part := strings.SplitN(text, "\x1f", restParts)
	if len(part) != restParts {
		return fmt.Errorf("%d parts instead of %d", len(part), restParts)
	}
	var numbers [8]int64
	for i := range numbers {
		if part[i] == "" {
			continue
		}
		if numbers[i], err = strconv.ParseInt(part[i], 10, 64); err != nil {
			return err
		}
	}
	m.Priority, m.RetryCount, m.Timeout = int(numbers[0]), int(numbers[1]), timeoutOf(numbers[2])
	m.WorkerLosses, m.Snoozes, m.ReplayCount = int(numbers[3]), int(numbers[4]), int(numbers[5])
	if part[6] != "" {
		m.RetryAfter = time.UnixMicro(numbers[6]).UTC()
	}
	if part[7] != "" {
		m.ExpiresAt = time.UnixMicro(numbers[7]).UTC()
	}
	m.Tenant, m.CorrelationID, m.IdempotencyKey, m.LastError = part[8], part[9], part[10], part[12]
	if part[11] != "" {
		return json.Unmarshal([]byte(part[11]), &m.Headers)
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
