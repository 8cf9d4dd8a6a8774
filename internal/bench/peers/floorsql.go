package main

// The statements of Styx on PostgreSQL for messages without options, on its own
// tables.
const (
	floorInsert = `INSERT INTO styx.messages (queue, kind, payload, max_retries) VALUES ($1, $2, $3, $4) RETURNING id`

	floorInsertMany = `WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS at), stored AS (
	INSERT INTO styx.messages (created_at, queue, kind, payload, max_retries)
	SELECT clock.at, $1, $2, u.payload, $4 FROM clock, unnest($3::text[]) AS u (payload)
	RETURNING id
)
SELECT array_agg(id) FROM stored`

	floorClaimText = `WITH picked AS MATERIALIZED (
	SELECT ctid AS place, id FROM styx.messages
	 WHERE queue = $1 AND lane = '' AND due_at IS NULL AND (priority, id) > (0::smallint, $2::bigint) AND priority <= 0::smallint
	   AND status = 0 AND kind = 'peer' AND (expires_at IS NULL OR expires_at > now())
	 ORDER BY priority, id LIMIT 1000 FOR UPDATE SKIP LOCKED
), hint AS (
	INSERT INTO styx.claims (worker_id, number, deadline, ids)
	SELECT $3, $4, clock_timestamp() + interval '80 s', array_agg(p.id) FROM picked p HAVING count(*) > 0
)
UPDATE styx.messages m
   SET status = 1, lease_token = m.lease_token + 1, worker_id = $3, deadline = clock_timestamp() + interval '80 s'
 WHERE m.ctid = ANY(ARRAY(SELECT place FROM picked))
RETURNING m.ctid::text, m.id, m.lease_token, m.kind, m.payload, m.created_at, m.max_retries`

	// The ids are sorted, so that width_bucket finds each with its token.
	floorSettle = `WITH gone AS MATERIALIZED (
	DELETE FROM styx.messages m
	 WHERE m.ctid = ANY($6::text::tid[]) AND m.status = 1 AND m.worker_id = $1
	   AND ($2::bigint[])[width_bucket(m.id, $2::bigint[])] = m.id
	   AND ($3::bigint[])[width_bucket(m.id, $2::bigint[])] = m.lease_token
	RETURNING m.id, m.lease_token, m.worker_id, m.created_at, m.retry_count, m.max_retries, m.priority, m.losses,
	          m.snoozes, m.replay_count, m.queue, m.kind, m.payload, m.headers, m.tenant, m.correlation_id,
	          m.idempotency_key, m.last_error
), forgotten AS (
	DELETE FROM styx.claims WHERE worker_id = $1 AND number = ANY($5::bigint[])
)
INSERT INTO styx.archive (id, lease_token, worker_id, created_at, started_at, finished_at, retry_count, max_retries,
       priority, losses, snoozes, replay_count, queue, kind, payload, headers, tenant, correlation_id,
       idempotency_key, last_error)
SELECT g.id, g.lease_token, g.worker_id, g.created_at,
       clock_timestamp() - ($4::bigint[])[width_bucket(g.id, $2::bigint[])] * interval '1 microsecond',
       clock_timestamp(), g.retry_count, g.max_retries, g.priority, g.losses, g.snoozes, g.replay_count, g.queue,
       g.kind, g.payload, g.headers, g.tenant, g.correlation_id, g.idempotency_key, g.last_error
  FROM gone g`
)
