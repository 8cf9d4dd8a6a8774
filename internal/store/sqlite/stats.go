package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/styxmq/styx/internal/store"
)

// statsHeld bounds the held rows that Stats looks up.
const statsHeld = 5 * store.StatsCap

// Stats counts each queue that has messages or waiting letters, in one state
// of the database. Its cost is bounded by the number of queues and priorities
// times StatsCap, and by what is in flight: names come from the indexes, one
// descent for each, and counts from there too.
func (s *Store) Stats(ctx context.Context) (all []store.QueueStats, err error) {
	err = s.read(ctx, func(w *work) error {
		all, err = stats(ctx, w)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("count queues: %w", err)
	}
	return all, nil
}

// tally collects the parts of the counts.
type tally struct {
	now    int64
	queues map[string]*store.QueueStats
	oldest map[string]int64
}

func (t *tally) of(queue string) *store.QueueStats {
	q := t.queues[queue]
	if q == nil {
		q = &store.QueueStats{Queue: queue}
		t.queues[queue] = q
	}
	return q
}

// since notes a time from which on a ready message has been due.
func (t *tally) since(queue string, at sql.NullInt64) {
	if old, ok := t.oldest[queue]; at.Valid && (!ok || at.Int64 < old) {
		t.oldest[queue] = at.Int64
	}
}

func stats(ctx context.Context, w *work) ([]store.QueueStats, error) {
	now, err := w.clock()
	if err != nil {
		return nil, err
	}
	t := &tally{now: now, queues: map[string]*store.QueueStats{}, oldest: map[string]int64{}}
	for _, part := range []func(context.Context, *work) error{t.ready, t.due, t.suspects, t.held, t.dead} {
		if err := part(ctx, w); err != nil {
			return nil, err
		}
	}
	all := make([]store.QueueStats, 0, len(t.queues))
	for queue, q := range t.queues {
		for _, n := range []*int{&q.Ready, &q.Scheduled, &q.Processing, &q.Dead} {
			*n = min(*n, store.StatsCap)
		}
		if at, ok := t.oldest[queue]; ok {
			q.OldestReady = max(0, time.Duration(now-at)*time.Microsecond)
		}
		all = append(all, *q)
	}
	slices.SortFunc(all, func(a, b store.QueueStats) int { return strings.Compare(a.Queue, b.Queue) })
	return all, nil
}

func (t *tally) ready(ctx context.Context, w *work) error {
	var queue string
	priority := int64(-1 << 62)
	for ctx.Err() == nil {
		err := w.scan([]any{&queue, &priority}, `SELECT queue, priority FROM styx_messages INDEXED BY styx_messages_ready
		WHERE status = 0 AND due_at IS NULL AND (queue, priority) > (?, ?) ORDER BY queue, priority LIMIT 1`, queue, priority)
		if none(err) {
			return nil
		}
		if err != nil {
			return err
		}
		var n int
		var oldest sql.NullInt64
		if err := w.scan([]any{&n, &oldest}, `SELECT count(*), (SELECT c.created_at FROM styx_contents c WHERE c.id = (
			SELECT min(id) FROM styx_messages INDEXED BY styx_messages_ready
			 WHERE status = 0 AND due_at IS NULL AND queue = ? AND priority = ?))
		  FROM (SELECT 1 FROM styx_messages INDEXED BY styx_messages_ready
			 WHERE status = 0 AND due_at IS NULL AND queue = ? AND priority = ? LIMIT ?)`,
			queue, priority, queue, priority, store.StatsCap); err != nil {
			return err
		}
		t.of(queue).Ready += n
		t.since(queue, oldest)
	}
	return ctx.Err()
}

func (t *tally) due(ctx context.Context, w *work) error {
	return t.postponed(ctx, w, "styx_messages INDEXED BY styx_messages_due WHERE status = 0 AND losses = 0 AND due_at IS NOT NULL")
}

func (t *tally) suspects(ctx context.Context, w *work) error {
	return t.postponed(ctx, w, "styx_messages INDEXED BY styx_messages_suspect WHERE status = 0 AND losses > 0")
}

func (t *tally) postponed(ctx context.Context, w *work, from string) error {
	return eachQueue(ctx, w, from, func(queue string) error {
		var ready, scheduled int
		var oldest sql.NullInt64
		err := w.scan([]any{&ready, &oldest, &scheduled}, `SELECT (SELECT count(*) FROM (SELECT 1 FROM `+from+` AND queue = ? AND due_at <= ? LIMIT ?)),
		(SELECT min(due_at) FROM `+from+` AND queue = ? AND due_at <= ?),
		(SELECT count(*) FROM (SELECT 1 FROM `+from+` AND queue = ? AND due_at > ? LIMIT ?))`,
			queue, t.now, store.StatsCap, queue, t.now, queue, t.now, store.StatsCap)
		if err != nil {
			return err
		}
		q := t.of(queue)
		q.Ready += ready
		q.Scheduled += scheduled
		t.since(queue, oldest)
		return nil
	})
}

func (t *tally) held(_ context.Context, w *work) error {
	rows, err := w.query(`SELECT queue, count(*) FROM (
		SELECT queue FROM styx_messages INDEXED BY styx_messages_held WHERE status = 1 LIMIT ?) GROUP BY queue`, statsHeld)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var queue string
		var n int
		if err := rows.Scan(&queue, &n); err != nil {
			return err
		}
		t.of(queue).Processing += n
	}
	return rows.Err()
}

func (t *tally) dead(ctx context.Context, w *work) error {
	const from = "styx_dead_letters INDEXED BY styx_dead_letters_queue WHERE resolved_at IS NULL"
	return eachQueue(ctx, w, from, func(queue string) error {
		return w.scan([]any{&t.of(queue).Dead}, "SELECT count(*) FROM (SELECT 1 FROM "+from+" AND queue = ? LIMIT ?)",
			queue, store.StatsCap)
	})
}

// eachQueue finds the names of an index that begins with the queue. No queue
// has an empty name.
func eachQueue(ctx context.Context, w *work, from string, f func(queue string) error) error {
	for queue := ""; ctx.Err() == nil; {
		var name sql.NullString
		if err := w.scan([]any{&name}, "SELECT min(queue) FROM "+from+" AND queue > ?", queue); err != nil || !name.Valid {
			return err
		}
		queue = name.String
		if err := f(queue); err != nil {
			return err
		}
	}
	return ctx.Err()
}
