package postgres

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
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
	if c.remote {
		own, other = c.own, c.spec.Lease.Milliseconds()
	} else if out, err := c.claimNative(ctx, src, lane, limit, number, other, own); !errors.Is(err, store.ErrNoNative) {
		return out, mapError(err)
	}
	rows, err := c.s.sql.QueryContext(ctx, c.s.hot.claimBy(src, limit, c.kinds.Valid, c.remote),
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
	var place string
	var rest sql.NullString
	dest := []any{&place, &m.ID, &m.LeaseToken, &m.Kind, &m.Payload, &m.CreatedAt, &m.MaxRetries, &rest}
	if c.remote {
		dest = append(dest, &m.Deadline, &m.UpdatedAt)
	}
	if err := rows.Scan(dest...); err != nil {
		return err
	}
	m.Queue, m.Status, m.WorkerID = c.spec.Queue, message.StatusProcessing, c.spec.WorkerID
	m.CreatedAt, m.Place = m.CreatedAt.UTC(), parsePlace(place)
	if rest.Valid {
		if err := parseRest(rest.String, m); err != nil {
			return fmt.Errorf("read claimed message %d: %w", m.ID, err)
		}
	}
	m.Attempt = m.RetryCount + 1
	return nil
}

// claimNative is claim past database/sql.
func (c *cursor) claimNative(ctx context.Context, src source, lane, limit int, number, other, own int64) ([]store.Claimed, error) {
	from, id := timeParam(time.Time{}), Param{OID: oidInt8}
	switch src {
	case sourceReady:
		from, id = int2Param(lane+message.MinPriority), int8Param(*c.floors[lane].pos)
	case sourceDue:
		from = timeParam(*c.due.pos)
	case sourceSuspect:
	}
	kinds := Param{OID: oidTextArray}
	if c.kinds.Valid {
		kinds = textArrayParam(c.spec.Kinds, false)
	}
	out := make([]store.Claimed, 0, limit)
	_, err := c.s.native(ctx, c.s.sql, c.s.hot.nativeClaim(src, limit, c.kinds.Valid), []Param{
		textParam(c.spec.Queue), int8Param(c.spec.WorkerID), int8Param(number), int8Param(other), int8Param(own),
		kinds, from, id,
	}, func(values [][]byte) error {
		out = append(out, store.Claimed{})
		return c.decode(values, &out[len(out)-1])
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// decode reads the columns of claimedColumns in binary form.
func (c *cursor) decode(values [][]byte, m *store.Claimed) error {
	d := decoder{values: values}
	m.Place, m.ID, m.LeaseToken = d.place(), d.int64(), d.int64()
	m.Kind, m.Payload = c.kindOf(d.bytes()), string(d.bytes())
	m.CreatedAt, m.MaxRetries = d.time(), d.int32()
	m.Queue, m.Status, m.WorkerID = c.spec.Queue, message.StatusProcessing, c.spec.WorkerID
	if rest := d.bytes(); rest != nil && d.err == nil {
		d.err = parseRest(string(rest), m)
	}
	if d.err != nil {
		return fmt.Errorf("read claimed message %d: %w", m.ID, d.err)
	}
	m.Attempt = m.RetryCount + 1
	return nil
}

// kindOf keeps one copy of each name.
func (c *cursor) kindOf(name []byte) string {
	if string(name) == c.lastKind {
		return c.lastKind
	}
	i, ok := slices.BinarySearchFunc(c.spec.Kinds, name, func(kind string, name []byte) int {
		return strings.Compare(kind, string(name))
	})
	if ok {
		c.lastKind = c.spec.Kinds[i]
	} else {
		c.lastKind = string(name)
	}
	return c.lastKind
}

// parsePlace reads the text of a tid, (block,offset); 0 when it is none.
func parsePlace(text string) uint64 {
	block, offset, ok := strings.Cut(strings.Trim(text, "()"), ",")
	if !ok {
		return 0
	}
	b, errB := strconv.ParseUint(block, 10, 32)
	o, errO := strconv.ParseUint(offset, 10, 16)
	if errB != nil || errO != nil {
		return 0
	}
	return b<<16 | o
}

// placeArray writes a tid[] literal.
func placeArray(places []uint64) string {
	b := make([]byte, 0, 2+16*len(places))
	b = append(b, '{')
	for _, p := range places {
		if p == 0 {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = strconv.AppendUint(append(b, '"', '('), p>>16, 10)
		b = strconv.AppendUint(append(b, ','), p&0xffff, 10)
		b = append(b, ')', '"')
	}
	return string(append(b, '}'))
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
		m.Headers, err = parseHeaders(part[11])
	}
	return err
}

// parseHeaders reads headers as the server writes jsonb. Most have nothing but
// a trace context, which needs no parser.
func parseHeaders(text string) (headers map[string]string, err error) {
	if rest, ok := strings.CutPrefix(text, `{"`+traceparent+`": "`); ok {
		if v, ok := strings.CutSuffix(rest, `"}`); ok && !strings.ContainsAny(v, `"\`) {
			return map[string]string{traceparent: v}, nil
		}
	}
	err = json.Unmarshal([]byte(text), &headers)
	return headers, err
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
