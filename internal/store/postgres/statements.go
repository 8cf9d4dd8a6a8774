package postgres

import (
	"fmt"
	"strings"
	"sync"
)

// statements are the texts of the hot path for one schema. A text that depends
// on what is asked for is made once and kept.
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

// claimedColumns are what a claim returns, in the order of scan. Everything
// that most messages do not have is one column, which is NULL when there is
// nothing: a row of few columns costs half as much on its way. What separates
// the parts is a control character, which no name or key can hold; the error,
// which may, stands last. The trace context is apart, since it is often all that
// there is, and so are other headers. As text even in binary form.
const claimedColumns = `m.ctid::text AS place, m.id, m.lease_token, m.kind, m.payload, m.created_at, m.max_retries,
	m.headers::text, m.trace, CASE WHEN m.priority = 0 AND m.retry_count = 0 AND m.timeout_ms = 0 AND m.losses = 0 AND m.snoozes = 0
	      AND m.replay_count = 0 AND m.due_at IS NULL AND m.expires_at IS NULL
	      AND m.tenant IS NULL AND m.correlation_id IS NULL AND m.idempotency_key IS NULL AND m.last_error IS NULL
	     THEN NULL
	     ELSE concat(m.priority, E'\x1f', m.retry_count, E'\x1f', m.timeout_ms, E'\x1f', m.losses, E'\x1f',
	                 m.snoozes, E'\x1f', m.replay_count, E'\x1f', (extract(epoch FROM m.due_at) * 1000000)::bigint,
	                 E'\x1f', (extract(epoch FROM m.expires_at) * 1000000)::bigint, E'\x1f', m.tenant, E'\x1f',
	                 m.correlation_id, E'\x1f', m.idempotency_key, E'\x1f', m.last_error)
	END AS rest`

// claim returns the statement that claims from one source.
//
// Locks: FOR UPDATE SKIP LOCKED on what it takes, nothing else; two claims
// never wait for each other. Index: given by the source's condition, which
// names the index's columns in its order. The update
// finds its rows by ctid, which leaves the planner no choice and is safe
// here because this statement has locked them. It changes no indexed column,
// so it is a HOT update.
//
// Parameters: $1 queue, $2 worker, $3 number, $4 milliseconds until the
// deadline of messages without a timeout of their own (negative: none),
// $5 milliseconds to add to a message's own timeout, $6 kinds, $7 and $8
// where to begin, $9 how many; of a consumer with an incarnation also $10 the
// scope (see scopeOf) and $11 up to where the claim leaves nothing behind.
func (s statements) claim(src source, kinds bool) string {
	return s.claimBy(src, kinds, false)
}

// claimBy is claim, also for consumers without an incarnation. Theirs is a
// claims row for each message, with its id as the number, so that whoever
// settles a message knows its row. The row may be there from a lease before.
func (s statements) claimBy(src source, kinds, remote bool) string {
	key := fmt.Sprintf("claim %d %t %t", src, kinds, remote)
	return s.get(key, func() string {
		deadline, columns, touched := claimDeadline, claimedColumns, ""
		hint := `SELECT $2, $3::bigint, min(` + claimDeadline("p") + `), array_agg(p.id), ` + come("$10::bigint", "$11::bigint") + ` FROM picked p HAVING count(*) > 0`
		after := "$8"
		if src == sourceReady && !remote {
			after = frontier("$8::bigint", "$10::bigint")
		}
		if remote {
			deadline, touched = remoteDeadline, ", updated_at = clock_timestamp()"
			columns += ", m.deadline, m.updated_at"
			hint = `SELECT $2, p.id, ` + remoteDeadline("p") + `, ARRAY[p.id], NULL::bigint, NULL::bigint FROM picked p WHERE $3::bigint IS NOT NULL
	ON CONFLICT (worker_id, number) DO UPDATE SET deadline = excluded.deadline, ids = excluded.ids`
		}
		kind := ""
		if kinds {
			kind = "AND kind = ANY($6::text[])"
		} else {
			kind = "AND ($6::text[]) IS NULL"
		}
		return `WITH picked AS MATERIALIZED (
	SELECT f.place, f.id, f.timeout_ms FROM (` + src.rows("$1", "$7", after, kind) + `
	) AS f LIMIT $9::bigint
), hint AS (
	INSERT INTO {{s}}claims (worker_id, number, deadline, ids, scope, last_id)
	` + hint + `
)
UPDATE {{s}}messages m
   SET status = 1, lease_token = m.lease_token + 1, worker_id = $2, deadline = ` + deadline("m") + touched + `
 WHERE m.ctid = ANY(ARRAY(SELECT place FROM picked))
RETURNING ` + columns
	})
}

// frontier is where claims of the scope have come, if that is behind the place
// where this one would begin: there is no need to walk over what others have
// taken. Where the scope is negative, the claim looks for what they may have
// passed, and goes on from the last one that did so and left nothing behind
// (see come). Index: claims_frontier, from that place on: before it may be any
// number of rows that a held snapshot keeps from being removed.
func frontier(after, scope string) string {
	last := func(scope string) string {
		return "(SELECT o.last_id FROM {{s}}claims o WHERE o.scope = " + scope + " AND o.last_id > " + after +
			" ORDER BY o.last_id DESC LIMIT 1)"
	}
	return "coalesce(greatest(" + last(scope) + ", " + last("-abs("+scope+")") + "), " + after + ")"
}

// come is how far a claim has come, as scope and last id. It is kept under the
// negative scope when nothing can become visible any more up to there: solid,
// else NULL, is up to where that is so.
func come(scope, solid string) string {
	return "CASE WHEN " + solid + " IS NULL THEN abs(" + scope + ") ELSE -abs(" + scope + ") END, least(max(p.id), " + solid + ")"
}

// nativeClaim is the same with the place in binary form.
func (s statements) nativeClaim(src source, kinds bool) string {
	return s.get(fmt.Sprintf("native claim %d %t", src, kinds), func() string {
		return strings.Replace(s.claim(src, kinds), "m.ctid::text AS place", "m.ctid AS place", 1)
	})
}

// claimMany claims from several queues at once, for one worker. Each has a
// claims row of its own. Locks and indexes: as those of claim. Parameters: as
// those of claim, but $1, $3 and $7 to $11 are arrays with an element for each
// queue.
func (s statements) claimMany(src source, kinds bool) string {
	return s.get(fmt.Sprintf("claim many %d %t", src, kinds), func() string {
		kind := "AND ($6::text[]) IS NULL"
		if kinds {
			kind = "AND kind = ANY($6::text[])"
		}
		after := "w.after"
		if src == sourceReady {
			after = frontier("w.after", "w.scope")
		}
		from := "smallint"
		if src != sourceReady {
			from = "timestamptz"
		}
		return `WITH picked AS MATERIALIZED (
	SELECT l.place, l.id, l.timeout_ms, w.number, w.scope, w.solid
	  FROM unnest($1::text[], $3::bigint[], $7::` + from + `[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[])
	       AS w (queue, number, from_, after, most, scope, solid)
	 CROSS JOIN LATERAL (
		SELECT f.place, f.id, f.timeout_ms FROM (` + src.rows("w.queue", "w.from_", after, kind) + `
		) AS f LIMIT w.most
	 ) AS l
), hint AS (
	INSERT INTO {{s}}claims (worker_id, number, deadline, ids, scope, last_id)
	SELECT $2, p.number, min(` + claimDeadline("p") + `), array_agg(p.id), ` + come("p.scope", "p.solid") + ` FROM picked p GROUP BY p.number, p.scope, p.solid
)
UPDATE {{s}}messages m
   SET status = 1, lease_token = m.lease_token + 1, worker_id = $2, deadline = ` + claimDeadline("m") + `
 WHERE m.ctid = ANY(ARRAY(SELECT place FROM picked))
RETURNING ` + strings.Replace(claimedColumns, "m.ctid::text", "m.ctid", 1) + `, m.queue`
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

// rows are those that a claim may take, each locked when it is read. The
// literal LIMIT is for the planner, which takes another join, and JIT, for one
// that it does not know; what is around it stops before a row too many.
func (src source) rows(queue, from, after, kind string) string {
	return `
		SELECT ctid AS place, id, timeout_ms FROM {{s}}messages
		 WHERE queue = ` + queue + ` AND lane = '' AND ` + src.condition(from, after) + `
		   AND status = 0 ` + kind + ` AND lease_token < 9223372036854775807
		   AND (expires_at IS NULL OR expires_at > now())
		 ORDER BY ` + src.order() + fmt.Sprintf(` LIMIT %d FOR UPDATE SKIP LOCKED`, claimRows)
}

// condition limits a claim to the source, from a place on that two expressions
// say.
func (src source) condition(from, after string) string {
	switch src {
	case sourceDue:
		return `losses = 0 AND due_at >= ` + from + `::timestamptz AND due_at <= now() AND ` + after + `::bigint IS NULL`
	case sourceSuspect:
		return `losses > 0 AND due_at >= ` + from + `::timestamptz AND due_at <= now() AND ` + after + `::bigint IS NULL`
	default:
		return `due_at IS NULL AND (priority, id) > (` + from + `::smallint, ` + after + `::bigint) AND priority <= ` + from + `::smallint`
	}
}

func (src source) order() string {
	if src == sourceReady {
		return "priority, id"
	}
	return "due_at"
}
