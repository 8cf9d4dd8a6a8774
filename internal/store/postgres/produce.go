package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// notifySoon is the delay up to which an idle worker is told of a postponed
// message at once; later ones it finds by polling in time.
const notifySoon = 2 * time.Second

// The columns that every insert gives, and their values from $1 on.
const (
	insertColumns = `queue, kind, payload, priority, max_retries, timeout_ms, headers, tenant, correlation_id, trace`
	insertValues  = `$1::text, $2::text, $3::text, $4::smallint, $5::integer, $6::bigint, $7::text::jsonb, nullif($8::text, ''), nullif($9::text, ''), $10::text::bytea`
	// The time of a postponed message: $11 milliseconds of delay or $12 a
	// time that the caller chose, never before now.
	dueValue    = `CASE WHEN $11::bigint > 0 THEN clock_timestamp() + $11::bigint * interval '1 ms' WHEN $12::text IS NOT NULL THEN greatest($12::text::timestamptz, clock_timestamp()) END`
	expireValue = `CASE WHEN $13::bigint > 0 THEN coalesce(` + dueValue + `, clock_timestamp()) + $13::bigint * interval '1 ms' END`
)

func insertArgs(m *store.NewMessage) ([]any, error) {
	headers, err := headersArg(m.Headers)
	if err != nil {
		return nil, err
	}
	return []any{
		m.Queue, m.Kind, m.Payload, m.Priority, m.MaxRetries, millis(m.Timeout), headers, m.Tenant, m.CorrelationID,
		traceText(traceOf(m.Headers)),
	}, nil
}

// millis rounds a duration up to milliseconds, so that a short one does not
// become none.
func millis(d time.Duration) int64 {
	if d < 0 {
		return -1
	}
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

func laterArgs(m *store.NewMessage) []any {
	var at sql.NullString
	if m.Delay <= 0 && !m.RunAt.IsZero() {
		at = sql.NullString{String: timeArg(m.RunAt), Valid: true}
	}
	return []any{millis(max(0, m.Delay)), at, millis(max(0, m.ExpiresIn))}
}

// Insert stores one message with one plain INSERT, which it may share with
// others that come at the same time (see groups). Locks: none but on the new
// row, and on the key when there is one.
func (s *Store) Insert(ctx context.Context, c bun.IConn, m *store.NewMessage) (store.Inserted, error) {
	on := conn(s.sql)
	if c != nil {
		on = bare(c)
	}
	var (
		out store.Inserted
		xid string
		err error
	)
	switch {
	case m.IdempotencyKey == "" && c == nil:
		out, err = s.insertSingle(ctx, m)
	case m.IdempotencyKey == "":
		out, xid, err = s.insert(ctx, on, m, true)
	case c == nil:
		out, xid, err = s.insertKeyed(ctx, on, m)
	default:
		err = guarded(ctx, on, func() error {
			out, xid, err = s.insertKeyed(ctx, on, m)
			return err
		})
		if sqlState(err) == "40001" {
			// At REPEATABLE READ and above the holder of the key can be
			// invisible to this snapshot.
			err = &message.DuplicateError{Queue: m.Queue, Key: m.IdempotencyKey}
		}
	}
	if err != nil {
		return store.Inserted{}, mapError(err)
	}
	s.tell(ctx, c != nil, xid, m)
	return out, nil
}

// tell wakes idle workers, now or when the caller's transaction commits.
func (s *Store) tell(ctx context.Context, inside bool, xid string, ms ...*store.NewMessage) {
	var queues []string
	seen := ""
	for i, m := range ms {
		if m.Delay > notifySoon || i > 0 && m.Queue == seen {
			continue
		}
		seen = m.Queue
		queues = append(queues, m.Queue)
	}
	switch {
	case len(queues) == 0:
	case inside:
		s.notifier.inside(ctx, xid, queues...)
	default:
		s.notifier.committed(ctx, queues...)
	}
}

// xidColumn is what an insert returns of its transaction: only one of the
// caller's needs to be watched.
func xidColumn(inside bool) string {
	if inside {
		return "pg_current_xact_id()::text"
	}
	return "''"
}

func (s *Store) insert(ctx context.Context, on conn, m *store.NewMessage, inside bool) (out store.Inserted, xid string, err error) {
	args, err := insertArgs(m)
	if err != nil {
		return out, "", err
	}
	later := m.Postponed() || m.ExpiresIn > 0
	text := s.hot.get(fmt.Sprintf("insert %t %t", later, inside), func() string {
		columns, values := insertColumns, insertValues
		if later {
			columns += ", due_at, expires_at"
			values += ", " + dueValue + ", " + expireValue
		}
		return `INSERT INTO {{s}}messages (id, ` + columns + `) VALUES (` + drawnID(s.prefix) + `, ` + values + `) RETURNING id, created_at, due_at, ` + xidColumn(inside)
	})
	if later {
		args = append(args, laterArgs(m)...)
	}
	var due sql.NullTime
	err = on.QueryRowContext(ctx, text, args...).Scan(&out.ID, &out.CreatedAt, &due, &xid)
	out.CreatedAt, out.RetryAfter = out.CreatedAt.UTC(), timeOf(due)
	return out, xid, err
}

// insertKeyed decides by the key's row whether the message is stored, in one
// statement. It takes the lock of the key's row and waits for an uncommitted
// holder. DO UPDATE, since DO NOTHING would return no row after that wait.
func (s *Store) insertKeyed(ctx context.Context, on conn, m *store.NewMessage) (out store.Inserted, xid string, err error) {
	args, err := insertArgs(m)
	if err != nil {
		return out, "", err
	}
	text := s.hot.get("insert keyed", func() string {
		return `WITH n AS MATERIALIZED (SELECT ` + drawnID(s.prefix) + ` AS id),
k AS (
	INSERT INTO {{s}}keys AS k (queue, key, message_id, digest, window_ms, expires_at)
	SELECT $1::text, $14::text, n.id, $15::text, $16::bigint, 'infinity' FROM n
	` + takeOver + `
	RETURNING message_id, digest
), i AS (
	INSERT INTO {{s}}messages (id, ` + insertColumns + `, idempotency_key, due_at, expires_at)
	SELECT n.id, ` + insertValues + `, $14::text, ` + dueValue + `, ` + expireValue + ` FROM n, k WHERE k.message_id = n.id
	RETURNING id, created_at, due_at
)
SELECT k.message_id, k.digest, i.id, i.created_at, i.due_at, pg_current_xact_id()::text FROM k LEFT JOIN i ON true`
	})
	args = append(append(args, laterArgs(m)...), m.IdempotencyKey, m.Digest, m.KeyWindow.Milliseconds())
	var (
		holder  int64
		digest  string
		id      sql.NullInt64
		created sql.NullTime
		due     sql.NullTime
	)
	if err := on.QueryRowContext(ctx, text, args...).Scan(&holder, &digest, &id, &created, &due, &xid); err != nil {
		return out, "", err
	}
	if !id.Valid {
		return out, "", &message.DuplicateError{Queue: m.Queue, Key: m.IdempotencyKey, ID: holder, Mismatch: digest != "" && digest != m.Digest}
	}
	return store.Inserted{ID: id.Int64, CreatedAt: timeOf(created), RetryAfter: timeOf(due)}, xid, nil
}

// takeOver gives a key whose window is over to the new message and leaves one
// that is held as it is.
const takeOver = `ON CONFLICT (queue, key) DO UPDATE SET
		message_id = CASE WHEN k.expires_at <= statement_timestamp() THEN excluded.message_id ELSE k.message_id END,
		digest     = CASE WHEN k.expires_at <= statement_timestamp() THEN excluded.digest     ELSE k.digest     END,
		window_ms  = CASE WHEN k.expires_at <= statement_timestamp() THEN excluded.window_ms  ELSE k.window_ms  END,
		expires_at = CASE WHEN k.expires_at <= statement_timestamp() THEN excluded.expires_at ELSE k.expires_at END`

// drawnID draws an id after the transaction has got its own: a claim's floor
// may pass ids of which no running transaction tells.
func drawnID(prefix string) string {
	return `CASE WHEN pg_current_xact_id() IS NOT NULL THEN nextval('` + seqLiteral(prefix) + `') END`
}

// seqLiteral names the id sequence inside a string literal; checkSchema has
// kept quotes out of the schema's name.
func seqLiteral(prefix string) string { return prefix + "message_id" }

func timeOf(t sql.NullTime) time.Time {
	if !t.Valid {
		return time.Time{}
	}
	return t.Time.UTC()
}
