package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// The largest statement of a bulk insert.
const (
	chunkRows  = 5_000
	chunkBytes = 8 << 20
)

// InsertMany stores all messages in one transaction, a few thousand for each
// statement, by COPY where that can be. Locks: none but on the new rows, and on
// the keys when there are some.
func (s *Store) InsertMany(ctx context.Context, c bun.IConn, ms []store.NewMessage) (out []store.Inserted, err error) {
	if len(ms) == 0 {
		return nil, nil
	}
	keyed := slices.ContainsFunc(ms, func(m store.NewMessage) bool { return m.IdempotencyKey != "" })
	if err := repeatedKey(ms, keyed); err != nil {
		return nil, err
	}
	var xid string
	work := func(on conn) error {
		out, xid, err = s.insertAll(ctx, on, ms, keyed, c != nil)
		return err
	}
	switch {
	case c != nil && keyed:
		on := bare(c)
		err = guarded(ctx, on, func() error { return work(on) })
		if sqlState(err) == "40001" {
			i := slices.IndexFunc(ms, func(m store.NewMessage) bool { return m.IdempotencyKey != "" })
			err = &message.DuplicateError{Queue: ms[i].Queue, Key: ms[i].IdempotencyKey, Index: i}
		}
	case c != nil:
		err = work(bare(c))
	case !keyed && len(ms) <= chunkRows && size(ms) <= chunkBytes && !s.copyable(ms):
		err = work(s.sql)
	default:
		err = s.transact(ctx, work)
	}
	if err != nil {
		return nil, mapError(err)
	}
	told := make([]*store.NewMessage, len(ms))
	for i := range ms {
		told[i] = &ms[i]
	}
	s.tell(ctx, c != nil, xid, told...)
	return out, nil
}

// transact runs f in a transaction of its own, on whose connection there is native
// access.
func (s *Store) transact(ctx context.Context, f func(on conn) error) error {
	c, err := s.sql.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	tx, err := c.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := f(ownTx{tx, c}); err != nil {
		_ = tx.Rollback()
		return err
	}
	return tx.Commit()
}

func size(ms []store.NewMessage) int {
	n := 0
	for i := range ms {
		n += len(ms[i].Payload)
	}
	return n
}

// repeatedKey refuses a batch that uses a key twice.
func repeatedKey(ms []store.NewMessage, keyed bool) error {
	if !keyed {
		return nil
	}
	type name struct{ queue, key string }
	seen := map[name]int{}
	for i := range ms {
		if ms[i].IdempotencyKey == "" {
			continue
		}
		n := name{ms[i].Queue, ms[i].IdempotencyKey}
		if first, ok := seen[n]; ok {
			return &message.DuplicateError{
				Queue: n.queue, Key: n.key, Index: i, Mismatch: ms[first].Digest != ms[i].Digest,
			}
		}
		seen[n] = i
	}
	return nil
}

func (s *Store) insertAll(ctx context.Context, on conn, ms []store.NewMessage, keyed, inside bool) (out []store.Inserted, xid string, err error) {
	var ids []int64
	if keyed {
		if ids, err = s.drawIDs(ctx, on, len(ms)); err != nil {
			return nil, "", err
		}
		if err := s.takeKeys(ctx, on, ms, ids); err != nil {
			return nil, "", err
		}
	}
	out = make([]store.Inserted, 0, len(ms))
	for len(ms) > 0 {
		n, bytes := 0, 0
		for n < len(ms) && n < chunkRows && (n == 0 || bytes < chunkBytes) {
			bytes += len(ms[n].Payload)
			n++
		}
		var part []int64
		if keyed {
			part, ids = ids[:n], ids[n:]
		}
		if out, xid, err = s.insertChunk(ctx, on, ms[:n], part, out, chunkForm{inside: inside}); err != nil {
			return nil, "", err
		}
		ms = ms[n:]
	}
	return out, xid, nil
}

// drawIDs takes ids before the rows exist, for their keys to name.
func (s *Store) drawIDs(ctx context.Context, on conn, n int) ([]int64, error) {
	rows, err := on.QueryContext(ctx, s.text(`SELECT `+drawnID(s.prefix)+` FROM generate_series(1, $1::int)`), n)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	ids := make([]int64, 0, n)
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

// takeKeys takes every key of the batch or reports the first that is held.
// The keys are sorted, so that two batches cannot wait for each other.
func (s *Store) takeKeys(ctx context.Context, on conn, ms []store.NewMessage, ids []int64) error {
	order := make([]int, 0, len(ms))
	for i := range ms {
		if ms[i].IdempotencyKey != "" {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(ms[a].Queue, ms[b].Queue), cmp.Compare(ms[a].IdempotencyKey, ms[b].IdempotencyKey))
	})
	var first *message.DuplicateError
	for part := range slices.Chunk(order, chunkRows) {
		held, err := s.takeSomeKeys(ctx, on, ms, ids, part)
		if err != nil {
			return err
		}
		if held != nil && (first == nil || held.Index < first.Index) {
			first = held
		}
	}
	if first != nil {
		return first
	}
	return nil
}

// takeSomeKeys takes the keys of the messages of part and returns the held one
// that comes first in the batch.
func (s *Store) takeSomeKeys(ctx context.Context, on conn, ms []store.NewMessage, ids []int64, part []int) (*message.DuplicateError, error) {
	queues, keys, digests := newTextArray(0, false), newTextArray(0, false), newTextArray(0, false)
	own, windows := make([]int64, len(part)), make([]int64, len(part))
	for n, i := range part {
		queues.add(ms[i].Queue)
		keys.add(ms[i].IdempotencyKey)
		digests.add(ms[i].Digest)
		own[n], windows[n] = ids[i], ms[i].KeyWindow.Milliseconds()
	}
	rows, err := on.QueryContext(ctx, s.hot.get("take keys", func() string {
		return `INSERT INTO {{s}}keys AS k (queue, key, message_id, digest, window_ms, expires_at)
	SELECT u.queue, u.key, u.id, u.digest, u.window_ms, 'infinity'
	FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::bigint[]) AS u (queue, key, id, digest, window_ms)
	` + takeOver + ` RETURNING message_id, digest`
	}), queues.String(), keys.String(), intArray(own), digests.String(), intArray(windows))
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var first *message.DuplicateError
	for n := 0; rows.Next(); n++ {
		var holder int64
		var digest string
		if err := rows.Scan(&holder, &digest); err != nil {
			return nil, err
		}
		i := part[n]
		if holder != ids[i] && (first == nil || i < first.Index) {
			first = &message.DuplicateError{
				Queue: ms[i].Queue, Key: ms[i].IdempotencyKey, ID: holder, Index: i,
				Mismatch: digest != "" && digest != ms[i].Digest,
			}
		}
	}
	return first, rows.Err()
}

// chunkForm is what a statement of insertChunk depends on besides its rows.
type chunkForm struct {
	inside bool // in a transaction of the caller's
	mixed  bool // all columns are arrays, so that any messages share one text
}

// insertChunk is one INSERT … SELECT FROM unnest. A column that is the same in
// all rows is sent once, and what comes back is one row: the ids and times as
// arrays.
func (s *Store) insertChunk(ctx context.Context, on conn, ms []store.NewMessage, ids []int64, out []store.Inserted, form chunkForm) ([]store.Inserted, string, error) {
	if own, ok := on.(ownTx); ok && s.copyable(ms) {
		if out, err := s.insertCopy(ctx, own, ms, ids, out); !errors.Is(err, store.ErrNoNative) {
			return out, "", err
		}
	}
	out, xid, err := s.insertNative(ctx, on, ms, ids, out, form)
	if !errors.Is(err, store.ErrNoNative) {
		return out, xid, err
	}
	cols := newColumns(ms, ids, columnForm{mixed: form.mixed})
	text := s.insertManyText(cols, form.inside)
	var (
		stored  string
		due     sql.NullString
		created time.Time
	)
	if err := on.QueryRowContext(ctx, text, cols.args...).Scan(&stored, &due, &created, &xid); err != nil {
		return nil, "", err
	}
	created = created.UTC()
	before := len(out)
	for id := range elements(stored) {
		n, err := strconv.ParseInt(id, 10, 64)
		if err != nil {
			return nil, "", fmt.Errorf("read the ids of a batch: %w", err)
		}
		out = append(out, store.Inserted{ID: n, CreatedAt: created})
	}
	if len(out)-before != len(ms) {
		return nil, "", fmt.Errorf("read the ids of a batch: %d of %d", len(out)-before, len(ms))
	}
	for at := range elements(due.String) {
		if micros, err := strconv.ParseInt(at, 10, 64); err == nil { // else it is NULL
			out[before].RetryAfter = time.UnixMicro(micros).UTC()
		}
		before++
	}
	return out, xid, nil
}

func (s *Store) insertManyText(cols *columns, inside bool) string {
	return s.hot.get("insert many "+cols.shape.String()+fmt.Sprint(inside), func() string {
		due := "NULL"
		if cols.timed {
			due = "array_agg((extract(epoch FROM due_at) * 1000000)::bigint)::text"
		}
		return `WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS at), stored AS (
	INSERT INTO {{s}}messages (created_at, ` + strings.Join(cols.names, ", ") + `)
	SELECT clock.at, ` + strings.Join(cols.values, ", ") + `
	  FROM clock, unnest(` + strings.Join(cols.arrays, ", ") + `) AS u (` + strings.Join(cols.aliases, ", ") + `)
	 WHERE pg_current_xact_id() IS NOT NULL -- before any id is drawn
	RETURNING id, due_at
)
SELECT array_agg(id)::text, ` + due + `, (SELECT at FROM clock), ` + xidColumn(inside) + ` FROM stored`
	})
}

// insertNative is insertChunk past database/sql, outside of transactions of
// the caller's.
func (s *Store) insertNative(ctx context.Context, on conn, ms []store.NewMessage, ids []int64, out []store.Inserted, form chunkForm) ([]store.Inserted, string, error) {
	switch on.(type) {
	case *sql.DB, ownTx:
	default:
		return out, "", store.ErrNoNative
	}
	if !s.hasNative() {
		return out, "", store.ErrNoNative
	}
	cols := newColumns(ms, ids, columnForm{native: true, mixed: form.mixed})
	text := s.insertManyText(cols, false)
	text = s.hot.get("native "+text, func() string {
		return strings.NewReplacer("array_agg(id)::text", "array_agg(id)", "::bigint)::text", "::bigint)").Replace(text)
	})
	var (
		stored, due []int64
		created     time.Time
		before      = len(out)
	)
	_, err := s.native(ctx, on, text, cols.params, func(values [][]byte) error {
		d := decoder{values: values}
		stored = d.int64s(make([]int64, 0, len(ms)))
		due = d.int64s(nil)
		created = d.time()
		return d.err
	})
	if err != nil {
		return out, "", err
	}
	if len(stored) != len(ms) {
		return out, "", fmt.Errorf("read the ids of a batch: %d of %d", len(stored), len(ms))
	}
	for _, id := range stored {
		out = append(out, store.Inserted{ID: id, CreatedAt: created})
	}
	for i, micros := range due {
		if micros != math.MinInt64 {
			out[before+i].RetryAfter = time.UnixMicro(micros).UTC()
		}
	}
	return out, "", nil
}
