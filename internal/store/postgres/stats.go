package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/styxmq/styx/internal/store"
)

const (
	// statsHeld bounds the claimed ids that Stats looks up.
	statsHeld = 5 * store.StatsCap
)

// statsText is the statement of Stats. Locks: none. Cost: bounded by the
// number of queues and priorities times StatsCap, and by what is in flight,
// however many messages there are.
//
// Names come from loose index scans, one descent for each distinct value.
// Ready rows are counted in messages_ready (claimed rows stay in this index
// until they are settled, so it is read past them) and the oldest is the first
// of some priority, postponed ones in messages_due and messages_suspect, with
// their lane, since only a full prefix makes due_at a range of the index.
// BETWEEN one value and the same, in place of =, makes it a part of the order:
// otherwise the primary key has that order too, and is walked past the rows of
// all other queues.
// Processing rows have no index of their own; they are found by their claims
// rows and the primary key.
var statsText = strings.NewReplacer(
	"{{cap}}", strconv.Itoa(store.StatsCap),
	"{{held}}", strconv.Itoa(statsHeld),
).Replace(`WITH RECURSIVE
ready_group (queue, lane, priority) AS (
	(SELECT queue, lane, priority FROM {{s}}messages WHERE due_at IS NULL ORDER BY queue, lane, priority LIMIT 1)
	UNION ALL
	SELECT n.queue, n.lane, n.priority FROM ready_group g CROSS JOIN LATERAL (
		SELECT m.queue, m.lane, m.priority FROM {{s}}messages m
		 WHERE m.due_at IS NULL AND (m.queue, m.lane, m.priority) > (g.queue, g.lane, g.priority)
		 ORDER BY m.queue, m.lane, m.priority LIMIT 1) n
),
due_group (queue, lane) AS (
	(SELECT queue, lane FROM {{s}}messages WHERE due_at IS NOT NULL AND losses = 0 ORDER BY queue, lane LIMIT 1)
	UNION ALL
	SELECT n.queue, n.lane FROM due_group g CROSS JOIN LATERAL (
		SELECT m.queue, m.lane FROM {{s}}messages m
		 WHERE m.due_at IS NOT NULL AND m.losses = 0 AND (m.queue, m.lane) > (g.queue, g.lane)
		 ORDER BY m.queue, m.lane LIMIT 1) n
),
suspect_group (queue, lane) AS (
	(SELECT queue, lane FROM {{s}}messages WHERE due_at IS NOT NULL AND losses > 0 ORDER BY queue, lane LIMIT 1)
	UNION ALL
	SELECT n.queue, n.lane FROM suspect_group g CROSS JOIN LATERAL (
		SELECT m.queue, m.lane FROM {{s}}messages m
		 WHERE m.due_at IS NOT NULL AND m.losses > 0 AND (m.queue, m.lane) > (g.queue, g.lane)
		 ORDER BY m.queue, m.lane LIMIT 1) n
),
dead_group (queue) AS (
	(SELECT queue FROM {{s}}dead_letters WHERE resolved_at IS NULL ORDER BY queue LIMIT 1)
	UNION ALL
	SELECT n.queue FROM dead_group g CROSS JOIN LATERAL (
		SELECT d.queue FROM {{s}}dead_letters d WHERE d.resolved_at IS NULL AND d.queue > g.queue ORDER BY d.queue LIMIT 1) n
),
held AS (
	SELECT DISTINCT u.id, c.worker_id FROM {{s}}claims c CROSS JOIN LATERAL unnest(c.ids) AS u (id) LIMIT {{held}}
),
part (queue, ready, scheduled, processing, dead, oldest) AS (
	SELECT g.queue, r.n, 0, 0, 0, NULL::timestamptz FROM (SELECT DISTINCT queue FROM ready_group) g CROSS JOIN LATERAL (
		SELECT count(*) AS n FROM (
			SELECT FROM {{s}}messages m
			 WHERE m.due_at IS NULL AND m.queue = g.queue AND m.status = 0
			 ORDER BY m.lane, m.priority, m.id LIMIT {{cap}}) x) r
	UNION ALL
	SELECT g.queue, 0, 0, 0, 0, r.created_at FROM ready_group g CROSS JOIN LATERAL (
		SELECT m.created_at FROM {{s}}messages m
		 WHERE m.due_at IS NULL AND m.queue = g.queue AND m.lane = g.lane AND m.priority BETWEEN g.priority AND g.priority AND m.status = 0
		 ORDER BY m.priority, m.id LIMIT 1) r
	UNION ALL
	SELECT g.queue, r.n, l.n, 0, 0, r.oldest FROM due_group g CROSS JOIN LATERAL (
		SELECT count(*) AS n, min(x.due_at) AS oldest FROM (
			SELECT m.due_at FROM {{s}}messages m
			 WHERE m.due_at <= now() AND m.losses = 0 AND m.queue = g.queue AND m.lane = g.lane AND m.status = 0
			 ORDER BY m.due_at LIMIT {{cap}}) x) r
	CROSS JOIN LATERAL (
		SELECT count(*) AS n FROM (
			SELECT FROM {{s}}messages m
			 WHERE m.due_at > now() AND m.losses = 0 AND m.queue = g.queue AND m.lane = g.lane AND m.status = 0
			 ORDER BY m.due_at LIMIT {{cap}}) x) l
	UNION ALL
	SELECT g.queue, r.n, l.n, 0, 0, r.oldest FROM suspect_group g CROSS JOIN LATERAL (
		SELECT count(*) AS n, min(x.due_at) AS oldest FROM (
			SELECT m.due_at FROM {{s}}messages m
			 WHERE m.due_at <= now() AND m.losses > 0 AND m.queue = g.queue AND m.lane = g.lane AND m.status = 0
			 ORDER BY m.due_at LIMIT {{cap}}) x) r
	CROSS JOIN LATERAL (
		SELECT count(*) AS n FROM (
			SELECT FROM {{s}}messages m
			 WHERE m.due_at > now() AND m.losses > 0 AND m.queue = g.queue AND m.lane = g.lane AND m.status = 0
			 ORDER BY m.due_at LIMIT {{cap}}) x) l
	UNION ALL
	SELECT m.queue, 0, 0, count(*), 0, NULL FROM held h CROSS JOIN LATERAL (
		SELECT m.queue FROM {{s}}messages m WHERE m.id = h.id AND m.status = 1 AND m.worker_id = h.worker_id LIMIT 1) m
	 GROUP BY m.queue
	UNION ALL
	SELECT g.queue, 0, 0, 0, r.n, NULL FROM dead_group g CROSS JOIN LATERAL (
		SELECT count(*) AS n FROM (
			SELECT FROM {{s}}dead_letters d
			 WHERE d.resolved_at IS NULL AND d.queue BETWEEN g.queue AND g.queue ORDER BY d.queue, d.letter_id LIMIT {{cap}}) x) r
)
SELECT queue, least(sum(ready), {{cap}})::bigint, least(sum(scheduled), {{cap}})::bigint,
       least(sum(processing), {{cap}})::bigint, least(sum(dead), {{cap}})::bigint,
       (extract(epoch FROM clock_timestamp() - min(oldest)) * 1000000)::bigint
  FROM part GROUP BY queue ORDER BY queue`)

// Stats counts each queue that has messages or waiting letters.
func (s *Store) Stats(ctx context.Context) ([]store.QueueStats, error) {
	all, err := s.stats(ctx)
	if err != nil {
		return nil, fmt.Errorf("count queues: %w", mapError(err))
	}
	return all, nil
}

func (s *Store) stats(ctx context.Context) (all []store.QueueStats, err error) {
	err = s.calm(ctx, func(tx *sql.Tx) error {
		all = nil
		rows, err := tx.QueryContext(ctx, s.text(statsText))
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var (
				q      store.QueueStats
				oldest sql.NullInt64
			)
			if err := rows.Scan(&q.Queue, &q.Ready, &q.Scheduled, &q.Processing, &q.Dead, &oldest); err != nil {
				return err
			}
			q.OldestReady = max(0, time.Duration(oldest.Int64)*time.Microsecond)
			all = append(all, q)
		}
		return rows.Err()
	})
	return all, err
}

// calm is readCommitted for plans that must be made of index scans, whatever
// the planner believes of tables that change faster than their statistics: no
// JIT for many small steps, no bitmap or sequential scan that reads a million
// rows for the first thousand.
func (s *Store) calm(ctx context.Context, f func(*sql.Tx) error) error {
	return s.readCommitted(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, calmSettings); err != nil {
			return err
		}
		return f(tx)
	})
}

const calmSettings = `SET LOCAL jit = off; SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off`
