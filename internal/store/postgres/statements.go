package postgres

import (
	"fmt"
	"strings"
	"sync"
)

// statements are the texts of the hot path for one schema. A text that
// depends on a number (a LIMIT must be literal: as a parameter a generic plan
// takes a merge join and JIT for it) is made once and kept.
type statements struct {
	prefix string
	made   *sync.Map // key string -> text string
}

func prepare(prefix string) statements {
	return statements{prefix: prefix, made: &sync.Map{}}
}

// get returns the text for key, made by build with {{s}} expanded.
func (s statements) get(key string, build func() string) string {
	if text, ok := s.made.Load(key); ok {
		return text.(string)
	}
	text, _ := s.made.LoadOrStore(key, expand(build(), s.prefix))
	return text.(string)
}

// sizes are the literal limits that claims use: few, so that few statements
// are prepared.
var sizes = [...]int{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000}

// floorSize returns the largest permitted limit that is not above n.
func floorSize(n int) int {
	size := sizes[0]
	for _, s := range sizes {
		if s <= n {
			size = s
		}
	}
	return size
}

// claimedColumns are what a claim returns, in the order of scan. Everything
// that most messages do not have is one column, which is NULL when there is
// nothing: a row of few columns costs half as much on its way. What separates
// the parts is a control character, which no name or key can hold; the error,
// which may, stands last.
const claimedColumns = `m.ctid::text AS place, m.id, m.lease_token, m.kind, m.payload, m.created_at, m.max_retries,
	CASE WHEN m.priority = 0 AND m.retry_count = 0 AND m.timeout_ms = 0 AND m.losses = 0 AND m.snoozes = 0
	      AND m.replay_count = 0 AND m.due_at IS NULL AND m.expires_at IS NULL AND m.headers IS NULL
	      AND m.tenant IS NULL AND m.correlation_id IS NULL AND m.idempotency_key IS NULL AND m.last_error IS NULL
	     THEN NULL
	     ELSE concat(m.priority, E'\x1f', m.retry_count, E'\x1f', m.timeout_ms, E'\x1f', m.losses, E'\x1f',
	                 m.snoozes, E'\x1f', m.replay_count, E'\x1f', (extract(epoch FROM m.due_at) * 1000000)::bigint,
	                 E'\x1f', (extract(epoch FROM m.expires_at) * 1000000)::bigint, E'\x1f', m.tenant, E'\x1f',
	                 m.correlation_id, E'\x1f', m.idempotency_key, E'\x1f', m.headers, E'\x1f', m.last_error)
	END AS rest`

// claim returns the statement that claims from one source.
//
// Locks: FOR UPDATE SKIP LOCKED on what it takes, nothing else; two claims
// never wait for each other. Index: given by the source's condition, which
// names the index's columns in its order and a literal LIMIT. The update
// finds its rows by ctid, which leaves the planner no choice and is safe
// here because this statement has locked them. It changes no indexed column,
// so it is a HOT update.
//
// Parameters: $1 queue, $2 worker, $3 number, $4 milliseconds until the
// deadline of messages without a timeout of their own (negative: none),
// $5 milliseconds to add to a message's own timeout, $6 kinds, $7 and $8
// where to begin.
func (s statements) claim(src source, limit int, kinds bool) string {
	return s.claimBy(src, limit, kinds, false)
}

// claimBy is claim, also for consumers without an incarnation. Theirs is a
// claims row for each message, with its id as the number, so that whoever
// settles a message knows its row. The row may be there from a lease before.
func (s statements) claimBy(src source, limit int, kinds, remote bool) string {
	key := fmt.Sprintf("claim %d %d %t %t", src, limit, kinds, remote)
	return s.get(key, func() string {
		deadline, columns, touched := claimDeadline, claimedColumns, ""
		hint := `SELECT $2, $3::bigint, min(` + claimDeadline("p") + `), array_agg(p.id) FROM picked p HAVING count(*) > 0`
		if remote {
			deadline, touched = remoteDeadline, ", updated_at = clock_timestamp()"
			columns += ", m.deadline, m.updated_at"
			hint = `SELECT $2, p.id, ` + remoteDeadline("p") + `, ARRAY[p.id] FROM picked p WHERE $3::bigint IS NOT NULL
	ON CONFLICT (worker_id, number) DO UPDATE SET deadline = excluded.deadline, ids = excluded.ids`
		}
		kind := ""
		if kinds {
			kind = "AND kind = ANY($6::text[])"
		} else {
			kind = "AND ($6::text[]) IS NULL"
		}
		return `WITH picked AS MATERIALIZED (
	SELECT ctid AS place, id, timeout_ms FROM {{s}}messages
	 WHERE queue = $1 AND lane = '' AND ` + src.condition() + `
	   AND status = 0 ` + kind + ` AND lease_token < 9223372036854775807
	   AND (expires_at IS NULL OR expires_at > now())
	 ORDER BY ` + src.order() + fmt.Sprintf(` LIMIT %d`, limit) + ` FOR UPDATE SKIP LOCKED
), hint AS (
	INSERT INTO {{s}}claims (worker_id, number, deadline, ids)
	` + hint + `
)
UPDATE {{s}}messages m
   SET status = 1, lease_token = m.lease_token + 1, worker_id = $2, deadline = ` + deadline("m") + touched + `
 WHERE m.ctid = ANY(ARRAY(SELECT place FROM picked))
RETURNING ` + columns
	})
}

// nativeClaim is the same with the place in binary form.
func (s statements) nativeClaim(src source, limit int, kinds bool) string {
	return s.get(fmt.Sprintf("native claim %d %d %t", src, limit, kinds), func() string {
		return strings.Replace(s.claim(src, limit, kinds), "m.ctid::text AS place", "m.ctid AS place", 1)
	})
}

// claimDeadline is when a message counts as timed out. The subquery, which
// depends on no row, is worked out once.
func claimDeadline(row string) string {
	return `CASE ` + row + `.timeout_ms
	WHEN 0 THEN (SELECT CASE WHEN $4::bigint < 0 THEN 'infinity'::timestamptz
	                         ELSE clock_timestamp() + $4::bigint * interval '1 ms' END)
	ELSE CASE WHEN ` + row + `.timeout_ms < 0 THEN 'infinity'::timestamptz
	          ELSE clock_timestamp() + (` + row + `.timeout_ms + $5::bigint) * interval '1 ms' END END`
}

// remoteDeadline is the end of a lease that nothing beats for: $4 milliseconds
// from now, or the message's own timeout when it has one and $5 is not 0.
func remoteDeadline(row string) string {
	return `clock_timestamp() + CASE WHEN $5::bigint <> 0 AND ` + row + `.timeout_ms > 0 THEN ` + row + `.timeout_ms
	ELSE $4::bigint END * interval '1 ms'`
}

// source is where a claim takes messages from.
type source int

const (
	// sourceReady reads messages_ready: one priority, ids after a floor.
	// Only the comparison of the pair, not of the id alone, keeps the
	// planner from the primary key in every state of the statistics.
	sourceReady source = iota
	// sourceDue reads messages_due by time.
	sourceDue
	// sourceSuspect reads messages_suspect: what lost a worker before.
	sourceSuspect
)

func (src source) condition() string {
	switch src {
	case sourceDue:
		return `losses = 0 AND due_at >= $7::timestamptz AND due_at <= now() AND $8::bigint IS NULL`
	case sourceSuspect:
		return `losses > 0 AND due_at >= $7::timestamptz AND due_at <= now() AND $8::bigint IS NULL`
	default:
		return `due_at IS NULL AND (priority, id) > ($7::smallint, $8::bigint) AND priority <= $7::smallint`
	}
}

func (src source) order() string {
	if src == sourceReady {
		return "priority, id"
	}
	return "due_at"
}

// drawText draws a transaction id and reads the end of what has begun by then.
const drawText = `SELECT pg_current_xact_id()::text,
	(SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END FROM {{s}}message_id), statement_timestamp()`

// probe looks at what a queue holds without taking anything. Locks: none.
// Indexes: messages_due, messages_suspect and messages_ready, each entry by a
// descent to its floor; no subquery can be flattened into a join, because of
// its LIMIT. Suspects are looked at from the beginning: they are few, and wait
// for their turn while newer ones pass. Parameters: $1 queue, $2 kinds, $3 floor of the due ones,
// $4 priorities, $5 their floors,
// $6 whether to draw a transaction id: all that were drawn before are smaller.
// (The xmax of a snapshot is not, it follows the last one that has ended.)
func (s statements) probe(kinds bool) string {
	return s.get(fmt.Sprintf("probe %t", kinds), func() string {
		kind := "AND ($2::text[]) IS NULL"
		if kinds {
			kind = "AND kind = ANY($2::text[])"
		}
		next := func(losses, from string) string {
			return `(SELECT (extract(epoch FROM due_at - clock_timestamp()) * 1000000)::bigint FROM {{s}}messages
	  WHERE queue = $1 AND lane = '' AND losses ` + losses + ` AND due_at >= ` + from + ` AND status = 0 ` + kind + `
	  ORDER BY due_at LIMIT 1)`
		}
		return `SELECT ` + next("= 0", "$3::timestamptz") + `,
	` + next("> 0", "'-infinity'::timestamptz") + `,
	(SELECT coalesce(string_agg(f.p || ':' || m.id, ',' ORDER BY f.p), '')
	   FROM unnest($4::smallint[], $5::bigint[]) AS f (p, floor) CROSS JOIN LATERAL (
	        SELECT m.id FROM {{s}}messages m
	         WHERE m.queue = $1 AND m.lane = '' AND m.due_at IS NULL
	           AND (m.priority, m.id) > (f.p, f.floor) AND m.priority <= f.p
	         ORDER BY m.priority, m.id LIMIT 1) AS m),
	(SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END FROM {{s}}message_id),
	pg_snapshot_xmin(pg_current_snapshot())::text, CASE WHEN $6::boolean THEN pg_current_xact_id()::text ELSE '0' END,
	statement_timestamp()`
	})
}
