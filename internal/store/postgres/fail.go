package postgres

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/styxmq/styx/internal/store"
)

// failPattern records outcomes other than success; failText and
// failRemoteText complete it.
//
// Locks: the messages' rows, in the order of their ids, each found by the
// primary key (the LATERAL with its LIMIT leaves no other way). A row that
// someone has locked is left out; see failSkipped. What goes back to pending
// enters through messages_due. The clock is read once for a message, when its
// row is locked: a delay is exact to the microsecond in all that is written.
//
// Parameters: $1 worker, $2 ids, $3 tokens, $4 verbs, $5 delays and $6
// durations in microseconds, $7 reasons, $8 kinds of failure, $9 decisions,
// $10 classes, $11 messages, $12 stacks, $13 fingerprints, $14 trace ids,
// $15 versions.
const failPattern = `WITH told AS MATERIALIZED (
	SELECT u.* FROM unnest($2::bigint[], $3::bigint[], $4::smallint[], $5::bigint[], $6::bigint[], $7::text[],
	       $8::text[], $9::text[], $10::text[], $11::text[], $12::text[], $13::text[], $14::text[], $15::text[])
	    AS u (id, token, verb, delay, elapsed, reason, failure_kind, decision, class, text, stack, fingerprint, trace_id, version)
), held AS MATERIALIZED (
	SELECT t.id, {{holder}}, clock_timestamp() AS at, {{delay}} AS delay, t.elapsed, t.reason, t.failure_kind, t.decision, t.class, t.text, t.stack,
	       t.fingerprint, t.trace_id, t.version, m.number, t.verb IN (2, 3) AS charged, t.verb = 5 AS snoozed,
	       t.verb = 3 OR t.verb = 2 AND m.number >= m.max_retries AS dies
	  FROM told t CROSS JOIN LATERAL (
	       SELECT least(m.retry_count, 2147483646) + 1 AS number, m.max_retries, m.lease_token, m.worker_id FROM {{s}}messages m
	        WHERE m.id = t.id AND {{guard}} AND m.status = 1
	        LIMIT 1 FOR UPDATE{{skip}}) AS m
), back AS (
	UPDATE {{s}}messages m
	   SET status = 0, worker_id = 0, deadline = '-infinity', updated_at = h.at,
	       due_at = h.at + h.delay * interval '1 microsecond',
	       retry_count = CASE WHEN h.charged THEN h.number ELSE m.retry_count END,
	       last_error = CASE WHEN h.charged THEN h.text ELSE m.last_error END,
	       snoozes = CASE WHEN h.snoozed THEN least(m.snoozes, 32766) + 1 ELSE m.snoozes END
	  FROM held h
	 WHERE m.id = h.id AND NOT h.dies AND m.id = ANY(ARRAY(SELECT id FROM held WHERE NOT dies))
	RETURNING m.id, m.due_at
), gone AS (
	DELETE FROM {{s}}messages m USING held h
	 WHERE m.id = h.id AND h.dies AND m.id = ANY(ARRAY(SELECT id FROM held WHERE dies))
	RETURNING m.id, m.lease_token, m.worker_id, m.created_at, m.expires_at, m.timeout_ms, m.max_retries, m.priority,
	          m.losses, m.snoozes, m.replay_count, m.queue, m.lane, m.kind, m.payload, m.headers, m.tenant,
	          m.correlation_id, m.idempotency_key, m.trace
), buried AS (
	INSERT INTO {{s}}dead_letters (message_id, lease_token, worker_id, created_at, expires_at, first_failed_at,
	       last_failed_at, dead_at, timeout_ms, retry_count, max_retries, priority, losses, snoozes, replay_count,
	       queue, lane, kind, payload, headers, tenant, correlation_id, idempotency_key, decision, failure_kind,
	       error_class, error_message, stack, fingerprint, worker_version, trace_id, trace)
	SELECT g.id, g.lease_token, g.worker_id, g.created_at, g.expires_at,
	       coalesce((SELECT min(a.finished_at) FROM {{s}}attempts a WHERE a.message_id = g.id AND a.charged), h.at),
	       h.at, h.at, g.timeout_ms, h.number, g.max_retries, g.priority, g.losses,
	       g.snoozes, g.replay_count, g.queue, g.lane, g.kind, g.payload, g.headers, g.tenant, g.correlation_id,
	       g.idempotency_key, coalesce(h.decision, 'exhausted'), h.failure_kind, h.class, h.text, h.stack,
	       h.fingerprint, h.version, h.trace_id, g.trace
	  FROM gone g JOIN held h ON h.id = g.id
), noted AS (
	INSERT INTO {{s}}attempts (message_id, lease_token, worker_id, started_at, finished_at, retry_after, number,
	       charged, outcome, failure_kind, error_class, error_message, stack, reason, trace_id)
	SELECT h.id, h.token, h.worker_id, {{started}}, h.at, b.due_at,
	       h.number, h.charged,
	       CASE WHEN h.dies THEN 'dead' WHEN h.charged THEN 'retried' WHEN h.snoozed THEN 'snoozed' ELSE 'released' END,
	       h.failure_kind, h.class, h.text, h.stack, h.reason, h.trace_id
	  FROM held h LEFT JOIN back b ON b.id = h.id
	 WHERE h.charged OR h.snoozed OR h.reason IS NOT NULL
	ON CONFLICT (message_id, lease_token) DO NOTHING
){{more}}
SELECT id FROM held`

// failText is for what a worker holds.
var failText = strings.NewReplacer(
	"{{holder}}", "t.token, $1::bigint AS worker_id",
	"{{delay}}", "t.delay",
	"{{started}}", "h.at - h.elapsed * interval '1 microsecond'",
	"{{guard}}", "m.lease_token = t.token AND m.worker_id = $1",
	"{{skip}}", " SKIP LOCKED",
	"{{more}}", "",
).Replace(failPattern)

// fail records every outcome but success for those of the batch, which are
// sorted by id.
func (s *Store) fail(ctx context.Context, on conn, workerID int64, batch []store.Settlement, of []int, settled map[int64]struct{}) error {
	return collectIDs(ctx, on, s.hot.get("fail", func() string { return failText }), failArgs(workerID, batch, of), settled)
}

// How long fail is repeated for what somebody has locked: at first after the
// one, at last after the other, twice as long each time, 1.3 s in all.
const skippedFirst, skippedLast = 5 * time.Millisecond, 640 * time.Millisecond

// failSkipped repeats fail for what it left out although the worker holds it.
// A claim whose snapshot is older than the one that took a message locks the
// newest version of its row before it sees that there is nothing to take, and
// holds the lock until it commits. What stays locked for longer is being taken
// away or completed in a transaction. Locks: as fail.
func (s *Store) failSkipped(ctx context.Context, workerID int64, batch []store.Settlement, of []int, settled map[int64]struct{}) error {
	for wait := skippedFirst; len(of) > 0; wait *= 2 {
		held := make(map[int64]struct{}, len(of))
		if err := s.held(ctx, workerID, batch, of, held); err != nil {
			return err
		}
		of = slices.DeleteFunc(of, func(i int) bool {
			_, ok := held[batch[i].ID]
			return !ok
		})
		if len(of) == 0 || wait > skippedLast {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(wait):
		}
		if err := s.fail(ctx, s.sql, workerID, batch, of, settled); err != nil {
			return err
		}
		of = missing(batch, of, settled)
	}
	return nil
}

// held finds those of a batch that the worker holds, by the snapshot. Index:
// the primary key.
func (s *Store) held(ctx context.Context, workerID int64, batch []store.Settlement, of []int, found map[int64]struct{}) error {
	ids, tokens := make([]int64, len(of)), make([]int64, len(of))
	for n, i := range of {
		ids[n], tokens[n] = batch[i].ID, batch[i].Token
	}
	return collectIDs(ctx, s.sql, s.text(`SELECT u.id FROM unnest($2::bigint[], $3::bigint[]) AS u (id, token) CROSS JOIN LATERAL (
	SELECT FROM {{s}}messages m
	 WHERE m.id = u.id AND m.lease_token = u.token AND m.worker_id = $1 AND m.status = 1 LIMIT 1) m`),
		[]any{workerID, intArray(ids), intArray(tokens)}, found)
}

// failArgs are the parameters, with the first one given.
func failArgs(first any, batch []store.Settlement, of []int) []any {
	n := len(of)
	ids, tokens, verbs, delays, elapsed := make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
	var texts [9]*textArray
	for i := range texts {
		texts[i] = newTextArray(0, true)
	}
	for k, i := range of {
		b := &batch[i]
		ids[k], tokens[k], verbs[k] = b.ID, b.Token, int64(b.Verb)
		delays[k], elapsed[k] = b.Delay.Microseconds(), b.Elapsed.Microseconds()
		if b.Delay < 0 {
			delays[k] = -1
		}
		f := b.Failure
		if f == nil {
			f = &store.Failure{}
		}
		for t, v := range [...]string{
			b.Reason, string(f.Kind), string(f.Decision), f.Class, f.Message, f.Stack, f.Fingerprint, f.TraceID, f.Version,
		} {
			texts[t].add(v)
		}
	}
	args := []any{first, intArray(ids), intArray(tokens), intArray(verbs), intArray(delays), intArray(elapsed)}
	for _, t := range texts {
		args = append(args, t.String())
	}
	return args
}
