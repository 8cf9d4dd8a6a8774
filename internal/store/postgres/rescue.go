package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// remoteID is store.RemoteWorker, which is always alive: only its deadlines
// count.
const remoteID = `-1`

// claimKey names a claims row.
type claimKey struct{ worker, number int64 }

// lostClaims are the claims rows with something to rescue: all of a worker
// that is not alive, found by a loose scan of claims_pkey, and those whose
// deadline has passed, by claims_deadline.
const lostClaims = `holder (id) AS (
	(SELECT c.worker_id FROM {{s}}claims c ORDER BY c.worker_id LIMIT 1)
	UNION ALL
	SELECT n.worker_id FROM holder h CROSS JOIN LATERAL (
		SELECT c.worker_id FROM {{s}}claims c WHERE c.worker_id > h.id ORDER BY c.worker_id LIMIT 1) n
), gone AS MATERIALIZED (
	SELECT h.id FROM holder h
	 WHERE h.id <> ` + remoteID + ` AND NOT EXISTS (SELECT FROM {{s}}workers w WHERE w.id = h.id AND w.dead_at IS NULL)
), claim AS (
	SELECT c.worker_id, c.number, c.ids, false AS alive FROM gone g CROSS JOIN LATERAL (
		SELECT c.worker_id, c.number, c.ids FROM {{s}}claims c WHERE c.worker_id = g.id ORDER BY c.number OFFSET 0) c
	UNION ALL
	SELECT c.worker_id, c.number, c.ids, true FROM {{s}}claims c
	 WHERE c.deadline <= now() AND NOT EXISTS (SELECT FROM gone g WHERE g.id = c.worker_id)
)`

// foundByClaims are the messages that these rows name.
const foundByClaims = `found AS (
	SELECT c.worker_id, c.number, u.id, NULL::bigint AS token, c.alive FROM claim c CROSS JOIN LATERAL unnest(c.ids) AS u (id)
)`

// rescueText takes lost messages back and charges them. It needs a query named
// found of (worker_id, number, id, token, alive).
//
// Locks: the messages' rows, skipping locked ones, each found by its primary
// key: the LATERAL with its LIMIT leaves the planner no other way, and the
// array keeps it to that in the UPDATE and DELETE. The row that is locked is
// the newest version, and status, worker, token and deadline are checked on
// it. That a worker is not alive is known from the snapshot; since death is
// one-way and the row must still name this worker, it holds for the newest
// version too. Nothing else is waited for.
const rescueText = `taken AS MATERIALIZED (
	SELECT f.number AS claim, f.alive, m.*
	  FROM found f CROSS JOIN LATERAL (
	       SELECT m.id, m.queue, m.kind, m.lease_token, m.worker_id, m.retry_count, m.max_retries, m.losses, m.tenant,
	              m.correlation_id, m.idempotency_key, m.headers, m.trace
	         FROM {{s}}messages m
	        WHERE m.id = f.id AND m.status = 1 AND m.worker_id = f.worker_id
	          AND (f.token IS NULL OR m.lease_token = f.token)
	          AND (NOT f.alive OR m.deadline <= clock_timestamp())
	        LIMIT 1 FOR UPDATE SKIP LOCKED) m
	 LIMIT {{limit}}
), counted AS MATERIALIZED (
	SELECT DISTINCT ON (t.id) t.*, least(t.retry_count, 2147483646) + 1 AS number,
	       t.retry_count >= t.max_retries - 1 AS dies, clock_timestamp() AS at,
	       CASE WHEN t.alive THEN 'timed_out' ELSE 'worker_lost' END AS decision,
	       CASE WHEN t.alive THEN 'transient' ELSE 'unknown' END AS failure_kind,
	       CASE WHEN t.alive THEN 'styx.TimedOut' ELSE 'styx.WorkerLost' END AS class,
	       CASE WHEN t.worker_id = ` + remoteID + ` THEN 'the lease ended before an outcome was told'
	            WHEN t.alive THEN 'the attempt ran past its deadline on worker ' || t.worker_id
	            ELSE 'worker ' || t.worker_id || ' was lost: no beat within its lease' END AS text,
	       least(t.losses, 32766) + CASE WHEN t.alive THEN 0 ELSE 1 END AS new_losses
	  FROM taken t ORDER BY t.id
), charged AS MATERIALIZED (
	SELECT c.*, CASE WHEN c.dies THEN NULL WHEN c.losses = 0 AND NOT c.alive THEN c.at
	            ELSE c.at + least(3600, least(3600, 2 * power(2, least(c.number, 30) - 1)) * (0.75 + random() * 0.5)) * interval '1 s'
	            END AS due_at
	  FROM counted c
), back AS (
	UPDATE {{s}}messages m
	   SET status = 0, worker_id = 0, deadline = '-infinity', updated_at = c.at, due_at = c.due_at,
	       retry_count = c.number, losses = c.new_losses, last_error = c.text
	  FROM charged c
	 WHERE m.id = ANY (ARRAY(SELECT id FROM charged WHERE NOT dies)) AND c.id = m.id AND m.lease_token = c.lease_token
), m AS (
	DELETE FROM {{s}}messages m
	 WHERE m.id = ANY (ARRAY(SELECT id FROM charged WHERE dies)) AND m.status = 1
	RETURNING {{gone}}
), buried AS (
	INSERT INTO {{s}}dead_letters (message_id, lease_token, worker_id, created_at, expires_at, timeout_ms, retry_count,
	       max_retries, priority, losses, snoozes, replay_count, queue, lane, kind, payload, headers, tenant,
	       correlation_id, idempotency_key, first_failed_at, last_failed_at, dead_at, decision, failure_kind,
	       error_class, error_message, fingerprint, worker_version, trace)
	SELECT m.id, m.lease_token, m.worker_id, m.created_at, m.expires_at, m.timeout_ms, c.number,
	       m.max_retries, m.priority, c.new_losses, m.snoozes, m.replay_count, m.queue, m.lane, m.kind, m.payload, m.headers, m.tenant,
	       m.correlation_id, m.idempotency_key, coalesce({{first}}, c.at), c.at, c.at, c.decision, c.failure_kind,
	       c.class, c.text, left(md5(m.kind || ' ' || c.class), 16),
	       (SELECT w.version FROM {{s}}workers w WHERE w.id = m.worker_id), m.trace
	  FROM m JOIN charged c ON c.id = m.id
	ON CONFLICT DO NOTHING
), noted AS (
	INSERT INTO {{s}}attempts (message_id, lease_token, worker_id, finished_at, retry_after, number, charged, outcome,
	       failure_kind, error_class, error_message, reason)
	SELECT c.id, c.lease_token, c.worker_id, c.at, c.due_at, c.number, true, CASE WHEN c.dies THEN 'dead' ELSE 'retried' END,
	       c.failure_kind, c.class, c.text, c.decision
	  FROM charged c
	ON CONFLICT (message_id, lease_token) DO NOTHING
)
SELECT c.id, c.queue, c.kind, c.number, c.number, c.max_retries, c.lease_token, c.worker_id, c.new_losses,
       c.tenant, c.correlation_id, c.idempotency_key, c.text, c.due_at, c.decision, c.dies, c.claim,
       c.headers::text, c.trace
  FROM charged c ORDER BY c.id`

// rescueFrom completes rescueText.
func (s *Store) rescueFrom(with string, limit int) string {
	return s.text(strings.NewReplacer(
		"{{limit}}", strconv.Itoa(max(limit, 1)), "{{gone}}", goneColumns, "{{first}}", firstFailed,
	).Replace(with + rescueText))
}

// Rescue goes by the claims rows. Rows that a rescue has emptied are deleted
// with it, the rest of what is settled at the end of a round.
func (s *Store) Rescue(ctx context.Context, limit int) ([]store.Rescued, error) {
	var all []store.Rescued
	touched := map[claimKey]struct{}{}
	err := s.calm(ctx, func(tx *sql.Tx) (err error) {
		all, err = s.rescued(ctx, tx, s.rescueFrom(`WITH RECURSIVE `+lostClaims+`, `+foundByClaims+`, `, limit), touched)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("rescue messages: %w", mapError(err))
	}
	s.tellRescued(ctx, all)
	if err := s.tidy(ctx, touched, len(all) < limit); err != nil {
		// What was rescued is rescued; the next round tidies up.
		if mapped := mapError(err); !errors.Is(mapped, store.ErrContention) {
			return all, fmt.Errorf("tidy claims: %w", mapped)
		}
	}
	return all, nil
}

// tidy deletes those lost claims rows whose messages are all settled, and
// gives the others of living workers the earliest deadline that is left. It
// looks at the given rows, or at every lost one. Locks: the claims rows,
// skipping locked ones. Indexes: as lostClaims, then the messages' primary
// key.
func (s *Store) tidy(ctx context.Context, touched map[claimKey]struct{}, everything bool) error {
	which, args := "", []any(nil)
	if !everything {
		keys := slices.Collect(maps.Keys(touched))
		workers, numbers := make([]int64, len(keys)), make([]int64, len(keys))
		for i, k := range keys {
			workers[i], numbers[i] = k.worker, k.number
		}
		which = `JOIN unnest($1::bigint[], $2::bigint[]) AS t (worker_id, number) ON t.worker_id = l.worker_id AND t.number = l.number`
		args = []any{intArray(workers), intArray(numbers)}
	}
	return s.calm(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, s.text(`WITH RECURSIVE `+lostClaims+`, mine AS MATERIALIZED (
	SELECT c.worker_id, c.number, c.deadline, c.ids, l.alive
	  FROM claim l `+which+` CROSS JOIN LATERAL (
	       SELECT c.worker_id, c.number, c.deadline, c.ids FROM {{s}}claims c
	        WHERE c.worker_id = l.worker_id AND c.number = l.number LIMIT 1 FOR UPDATE SKIP LOCKED) c
), rest AS MATERIALIZED (
	SELECT c.worker_id, c.number, c.alive, c.deadline, r.deadline AS next
	  FROM mine c CROSS JOIN LATERAL (
	       SELECT min(h.deadline) AS deadline FROM unnest(c.ids) AS u (id) CROSS JOIN LATERAL (
	              SELECT m.deadline FROM {{s}}messages m
	               WHERE m.id = u.id AND m.status = 1 AND m.worker_id = c.worker_id LIMIT 1) h) r
), done AS (
	DELETE FROM {{s}}claims c USING rest r WHERE c.worker_id = r.worker_id AND c.number = r.number AND r.next IS NULL
	   -- A row of this holder may belong to a lease that began since.
	   AND (r.worker_id <> `+remoteID+` OR r.deadline <= now())
)
UPDATE {{s}}claims c SET deadline = r.next FROM rest r
 WHERE c.worker_id = r.worker_id AND c.number = r.number AND r.alive AND r.next <> r.deadline`), args...)
		return err
	})
}

// Sweep walks the messages by primary key and rescues what is lost, whether a
// claims row names it or not.
func (s *Store) Sweep(ctx context.Context, after int64, limit int) (all []store.Rescued, next int64, err error) {
	limit = max(limit, 1)
	err = s.calm(ctx, func(tx *sql.Tx) error {
		var (
			seen                 int
			ids, tokens, workers string
		)
		err := tx.QueryRowContext(ctx, s.text(`WITH slice AS MATERIALIZED (
	SELECT m.id, m.status, m.lease_token, m.worker_id, m.deadline FROM {{s}}messages m
	 WHERE m.id > $1 ORDER BY m.id LIMIT `+strconv.Itoa(limit)+`
), lost AS (
	SELECT l.id, l.lease_token, l.worker_id FROM slice l
	 WHERE l.status = 1 AND (l.deadline <= clock_timestamp()
	    OR l.worker_id <> `+remoteID+` AND NOT EXISTS (SELECT FROM {{s}}workers w WHERE w.id = l.worker_id AND w.dead_at IS NULL))
)
SELECT (SELECT count(*) FROM slice), (SELECT coalesce(max(id), 0) FROM slice),
       coalesce(array_agg(id)::text, '{}'), coalesce(array_agg(lease_token)::text, '{}'), coalesce(array_agg(worker_id)::text, '{}')
  FROM lost`), after).Scan(&seen, &next, &ids, &tokens, &workers)
		if err != nil {
			return err
		}
		if seen < limit {
			next = 0
		}
		if ids == "{}" {
			return nil
		}
		all, err = s.rescued(ctx, tx, s.rescueFrom(`WITH found AS (
	SELECT u.worker_id, NULL::bigint AS number, u.id, u.token,
	       u.worker_id = `+remoteID+` OR EXISTS (SELECT FROM {{s}}workers w WHERE w.id = u.worker_id AND w.dead_at IS NULL) AS alive
	  FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS u (id, token, worker_id)
), `, limit), nil, ids, tokens, workers)
		return err
	})
	if err != nil {
		return nil, after, fmt.Errorf("sweep messages: %w", mapError(err))
	}
	s.tellRescued(ctx, all)
	return all, next, nil
}

// tellRescued wakes workers for what may run again at once.
func (s *Store) tellRescued(ctx context.Context, all []store.Rescued) {
	queues := map[string]struct{}{}
	for _, r := range all {
		if !r.Dead && r.Decision == message.DecisionWorkerLost {
			queues[r.Queue] = struct{}{}
		}
	}
	if len(queues) > 0 {
		s.notifier.committed(ctx, slices.Collect(maps.Keys(queues))...)
	}
}
