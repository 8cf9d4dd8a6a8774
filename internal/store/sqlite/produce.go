package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// A statement inserts up to so many rows: more hardly pay, and the parameters
// stay far below SQLite's limit. It is always a power of two, so that there
// are few different ones to keep prepared.
const chunkRows = 128

// The inserts of one row; bulk inserts repeat the values. Ids are given in
// order by AUTOINCREMENT, so those of one statement follow each other. Rows
// that leave the second line of columns empty are inserted without.
const (
	messageColumns  = `queue, kind, priority, max_retries`
	messageMore     = `, timeout_us, due_at, expires_at`
	contentsColumns = `id, created_at, payload`
	contentsMore    = `, tenant, correlation_id, headers, idempotency_key, key_digest, key_window_us`
)

// newRow is a message to be stored with its headers encoded.
type newRow struct {
	store.NewMessage
	headers any
}

func newRowOf(m *store.NewMessage) (newRow, error) {
	r := newRow{NewMessage: *m}
	if len(m.Headers) > 0 {
		text, err := json.Marshal(m.Headers)
		if err != nil {
			return r, fmt.Errorf("encode headers: %w", err)
		}
		r.headers = string(text)
	}
	return r, nil
}

// times returns when the message is due and when it expires, NULL for neither,
// with respect to the database's now.
func (r *newRow) times(now int64) (due, expires any, base int64) {
	base = now
	switch {
	case r.Delay > 0:
		base = now + micros(r.Delay)
		due = base
	case r.RunAt.UnixMicro() > now:
		base = r.RunAt.UnixMicro()
		due = base
	}
	if r.ExpiresIn > 0 {
		expires = base + micros(r.ExpiresIn)
	}
	return due, expires, base
}

// timed reports that the message has more than the first columns, described
// that its contents have.
func (r *newRow) timed() bool { return r.Timeout != 0 || r.ExpiresIn != 0 || r.Postponed() }

func (r *newRow) described() bool {
	return r.IdempotencyKey != "" || r.headers != nil || r.Tenant != "" || r.CorrelationID != ""
}

func (r *newRow) messageArgs(args []any, now int64, more bool) []any {
	args = append(args, r.Queue, r.Kind, r.Priority, r.MaxRetries)
	if more {
		due, expires, _ := r.times(now)
		args = append(args, micros(r.Timeout), due, expires)
	}
	return args
}

func (r *newRow) contentsArgs(args []any, id, now int64, more bool) []any {
	args = append(args, id, now, r.Payload)
	if !more {
		return args
	}
	args = append(args, nullable(r.Tenant), nullable(r.CorrelationID), r.headers)
	if r.IdempotencyKey == "" {
		return append(args, nil, nil, nil)
	}
	return append(args, r.IdempotencyKey, r.Digest, micros(max(0, r.KeyWindow)))
}

func (r *newRow) inserted(id, now int64) store.Inserted {
	in := store.Inserted{ID: id, CreatedAt: time.UnixMicro(now).UTC()}
	if due, _, base := r.times(now); due != nil {
		in.RetryAfter = time.UnixMicro(base).UTC()
	}
	return in
}

// Insert stores one message. Without a connection of the caller's it waits
// for others to be written with; when ctx ends in the meantime, its error is
// returned, and whether the message was stored is unknown if the writing had
// begun.
func (s *Store) Insert(ctx context.Context, c bun.IConn, m *store.NewMessage) (store.Inserted, error) {
	row, err := newRowOf(m)
	if err != nil {
		return store.Inserted{}, err
	}
	if c == nil {
		return s.common.group.insert(ctx, s, row)
	}
	var all []store.Inserted
	own, err := s.within(ctx, bare(c), func(w *work) (err error) {
		all, err = insertAll(w.ctx, w, []newRow{row})
		return err
	})
	if err != nil {
		return store.Inserted{}, err
	}
	if own {
		s.common.bell.ring(m.Queue)
	}
	return all[0], nil
}

// checkKey reports the holder of the message's key as a
// *message.DuplicateError. Nobody can take it between this and takeKey.
func checkKey(w *work, r *newRow, now int64) error {
	if r.IdempotencyKey == "" {
		return nil
	}
	d := message.DuplicateError{Queue: r.Queue, Key: r.IdempotencyKey}
	var digest string
	err := w.scan([]any{&d.ID, &digest}, `SELECT message_id, digest FROM styx_keys
	WHERE queue = ? AND key = ? AND (expires_at IS NULL OR expires_at > ?)`, r.Queue, r.IdempotencyKey, now)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return err
	}
	d.Mismatch = digest != r.Digest
	return &d
}

// takeKey gives the key, which is free or whose window is over, to a message.
func takeKey(w *work, r *newRow, id int64) error {
	if r.IdempotencyKey == "" {
		return nil
	}
	_, err := w.exec(`INSERT INTO styx_keys (queue, key, message_id, window_us, digest) VALUES (?, ?, ?, ?, ?)
	ON CONFLICT (queue, key) DO UPDATE SET message_id = excluded.message_id, window_us = excluded.window_us,
	digest = excluded.digest, expires_at = NULL`, r.Queue, r.IdempotencyKey, id, micros(max(0, r.KeyWindow)), r.Digest)
	return err
}

// InsertMany stores all messages in one transaction. In a transaction of its
// own it looks at ctx between the chunks.
func (s *Store) InsertMany(ctx context.Context, c bun.IConn, ms []store.NewMessage) (out []store.Inserted, err error) {
	if len(ms) == 0 {
		return nil, nil
	}
	rows := make([]newRow, len(ms))
	for i := range ms {
		if rows[i], err = newRowOf(&ms[i]); err != nil {
			return nil, err
		}
	}
	if err := repeatedKey(ms); err != nil {
		return nil, err
	}
	own, err := s.within(ctx, bareOrNil(c), func(w *work) (err error) {
		out, err = insertAll(ctx, w, rows)
		return err
	})
	if err != nil {
		return nil, err
	}
	if own {
		queues := map[string]struct{}{}
		for i := range ms {
			queues[ms[i].Queue] = struct{}{}
		}
		for queue := range queues {
			s.common.bell.ring(queue)
		}
	}
	return out, nil
}

func bareOrNil(c bun.IConn) conn {
	if c == nil {
		return nil
	}
	return bare(c)
}

// repeatedKey refuses a batch that uses a key twice.
func repeatedKey(ms []store.NewMessage) error {
	type name struct{ queue, key string }
	var seen map[name]int
	for i := range ms {
		if ms[i].IdempotencyKey == "" {
			continue
		}
		if seen == nil {
			seen = map[name]int{}
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

func insertAll(ctx context.Context, w *work, rows []newRow) ([]store.Inserted, error) {
	now, err := w.clock()
	if err != nil {
		return nil, err
	}
	for i := range rows {
		if err := checkKey(w, &rows[i], now); err != nil {
			if d, ok := errors.AsType[*message.DuplicateError](err); ok {
				d.Index = i
			}
			return nil, err
		}
	}
	out := make([]store.Inserted, 0, len(rows))
	var args []any
	for len(rows) > 0 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		n := 1 << (bits.Len(uint(min(chunkRows, len(rows)))) - 1)
		if out, args, err = insertChunk(w, rows[:n], now, out, args[:0]); err != nil {
			return nil, err
		}
		rows = rows[n:]
	}
	return out, nil
}

// insertChunk inserts rows by one statement for each table. args is room for
// the parameters.
func insertChunk(w *work, rows []newRow, now int64, out []store.Inserted, args []any) ([]store.Inserted, []any, error) {
	timed, described := false, false
	for i := range rows {
		timed, described = timed || rows[i].timed(), described || rows[i].described()
	}
	for i := range rows {
		args = rows[i].messageArgs(args, now, timed)
	}
	result, err := w.exec(insertText("styx_messages", messageColumns, messageMore, timed, len(rows)), args...)
	if err != nil {
		return nil, nil, err
	}
	id, err := result.LastInsertId()
	if err != nil {
		return nil, nil, err
	}
	id -= int64(len(rows))
	args = args[:0]
	for i := range rows {
		id++
		args = rows[i].contentsArgs(args, id, now, described)
		out = append(out, rows[i].inserted(id, now))
		if err := takeKey(w, &rows[i], id); err != nil {
			return nil, nil, err
		}
	}
	_, err = w.exec(insertText("styx_contents", contentsColumns, contentsMore, described, len(rows)), args...)
	return out, args, err
}

func insertText(table, columns, more string, all bool, rows int) string {
	if all {
		columns += more
	}
	values := "(?" + strings.Repeat(", ?", strings.Count(columns, ",")) + ")"
	return "INSERT INTO " + table + " (" + columns + ") VALUES " + repeat(values, rows)
}

// repeat lists a text n times, with commas.
func repeat(text string, n int) string {
	return strings.TrimSuffix(strings.Repeat(text+", ", n), ", ")
}
