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

// conditionTimeout bounds each statement of Condition.
const conditionTimeout = 3 * time.Second

// serverText looks at the server around the queues. What a role may not see
// of others is NULL there, and passed over.
const serverText = `WITH oldest AS (
	SELECT a.pid::bigint AS pid, a.xact_start AS since, coalesce(a.query, '') AS query
	  FROM pg_catalog.pg_stat_activity a
	 WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND a.xact_start IS NOT NULL
	   AND (a.backend_xid IS NOT NULL OR a.backend_xmin IS NOT NULL) AND a.backend_type IS DISTINCT FROM 'autovacuum worker'
	UNION ALL
	SELECT 0, p.prepared, 'PREPARE TRANSACTION ' || quote_literal(p.gid)
	  FROM pg_catalog.pg_prepared_xacts p WHERE p.database = current_database()
	ORDER BY 2 LIMIT 1
)
SELECT (SELECT (extract(epoch FROM clock_timestamp() - ticked_at) * 1000000)::bigint FROM {{s}}reaper LIMIT 1),
       coalesce((SELECT (extract(epoch FROM clock_timestamp() - since) * 1000000)::bigint FROM oldest), 0),
       coalesce((SELECT pid FROM oldest), 0), coalesce((SELECT left(query, 300) FROM oldest), ''),
       current_setting('synchronous_commit') <> 'off',
       current_setting('max_connections')::integer,
       coalesce((SELECT sum(numbackends) FROM pg_catalog.pg_stat_database), 0)::integer`

// overdueText counts what the reaper should have taken back. Indexes:
// claims_deadline, then the messages' primary key.
var overdueText = `SELECT count(*) FROM (
	SELECT FROM (
		SELECT DISTINCT u.id, c.worker_id FROM (
			SELECT c.worker_id, c.ids FROM {{s}}claims c WHERE c.deadline <= now() - interval '10 s'
			 ORDER BY c.deadline LIMIT ` + strconv.Itoa(store.StatsCap) + `) c CROSS JOIN LATERAL unnest(c.ids) AS u (id)
		 LIMIT ` + strconv.Itoa(statsHeld) + `) h CROSS JOIN LATERAL (
		SELECT m.id FROM {{s}}messages m
		 WHERE m.id = h.id AND m.status = 1 AND m.worker_id = h.worker_id AND m.deadline <= now() - interval '10 s' LIMIT 1) m
	 LIMIT ` + strconv.Itoa(store.StatsCap) + `) x`

// unhandledText looks at the oldest ready messages of each queue and source:
// names by loose index scans, rows in the order of messages_ready and
// messages_due.
var unhandledText = strings.NewReplacer("{{living}}", living, "{{remote}}", remoteID).Replace(`WITH RECURSIVE
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
sample (queue, kind) AS (
	SELECT g.queue, r.kind FROM (SELECT * FROM ready_group LIMIT 500) g CROSS JOIN LATERAL (
		SELECT m.kind FROM {{s}}messages m
		 WHERE m.due_at IS NULL AND m.queue = g.queue AND m.lane = g.lane AND m.priority = g.priority AND m.status = 0
		 ORDER BY m.id LIMIT 100) r
	UNION
	SELECT g.queue, r.kind FROM (SELECT * FROM due_group LIMIT 500) g CROSS JOIN LATERAL (
		SELECT m.kind FROM {{s}}messages m
		 WHERE m.due_at <= now() AND m.losses = 0 AND m.queue = g.queue AND m.lane = g.lane AND m.status = 0
		 ORDER BY m.due_at LIMIT 100) r
)
SELECT x.queue, x.kind FROM sample x
 WHERE NOT EXISTS (SELECT FROM {{s}}workers w WHERE {{living}}
	AND x.queue = ANY (w.queues) AND (w.kinds = '{}' OR x.kind = ANY (w.kinds)))
   AND NOT EXISTS (SELECT FROM {{s}}listeners l
	WHERE l.queue = x.queue AND l.worker_id = {{remote}} AND l.lapses_at > clock_timestamp())
 ORDER BY x.queue COLLATE "C", x.kind COLLATE "C" LIMIT 20`)

// Condition runs a few statements, none for longer than conditionTimeout.
func (s *Store) Condition(ctx context.Context) (store.Condition, error) {
	c, err := s.condition(ctx)
	if err != nil {
		return store.Condition{}, fmt.Errorf("look at the condition of the database: %w", mapError(err))
	}
	return c, nil
}

func (s *Store) condition(ctx context.Context) (c store.Condition, err error) {
	var ticked sql.NullInt64
	var oldest int64
	err = s.sql.QueryRowContext(ctx, s.text(serverText)).Scan(&ticked, &oldest, &c.OldestPID, &c.OldestQuery,
		&c.SynchronousCommit, &c.MaxConnections, &c.Connections)
	if err != nil {
		return c, err
	}
	c.LastTick = -1
	if ticked.Valid {
		c.LastTick = max(0, time.Duration(ticked.Int64)*time.Microsecond)
	}
	c.OldestTransaction = max(0, time.Duration(oldest)*time.Microsecond)
	err = s.calm(ctx, func(tx *sql.Tx) error {
		if err := setLocal(ctx, tx, "statement_timeout", conditionTimeout); err != nil {
			return err
		}
		if err := tx.QueryRowContext(ctx, s.text(overdueText)).Scan(&c.Overdue); err != nil {
			return err
		}
		c.Unhandled, err = s.unhandled(ctx, tx)
		return err
	})
	return c, err
}

func (s *Store) unhandled(ctx context.Context, tx *sql.Tx) ([]store.Unhandled, error) {
	rows, err := tx.QueryContext(ctx, s.text(unhandledText))
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var all []store.Unhandled
	for rows.Next() {
		var u store.Unhandled
		if err := rows.Scan(&u.Queue, &u.Kind); err != nil {
			return nil, err
		}
		all = append(all, u)
	}
	return all, rows.Err()
}
