-- The trace context of a message has a column of its own: 16 bytes of trace
-- id, 8 of the parent's id and one of flags, where a traceparent among the
-- headers has several times the size and is parsed, printed and copied with
-- every move. One that is not of the usual form stays among the headers.

-- The locks are taken together and not waited for any longer than it takes to
-- end an autovacuum: whoever works meanwhile waits behind them.
DO $$
DECLARE
    before CONSTANT text := current_setting('lock_timeout');
BEGIN
    PERFORM set_config('lock_timeout',
        (1000 * extract(epoch FROM current_setting('deadlock_timeout')::interval) + 500)::integer::text, true);
    LOOP
        BEGIN
            LOCK TABLE {{schema}}.archive, {{schema}}.messages, {{schema}}.dead_letters, {{schema}}.all_messages
                IN ACCESS EXCLUSIVE MODE;
            EXIT;
        EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
            PERFORM pg_sleep(0.2);
        END;
    END LOOP;
    PERFORM set_config('lock_timeout', before, true);
END
$$;

ALTER TABLE {{schema}}.messages ADD COLUMN trace bytea;
ALTER TABLE {{schema}}.archive ADD COLUMN trace bytea;
ALTER TABLE {{schema}}.dead_letters ADD COLUMN trace bytea;

-- Partitions that were detached may be attached again.
DO $$
DECLARE
    leftover text;
BEGIN
    FOR leftover IN
        SELECT c.relname FROM pg_catalog.pg_class c
         WHERE c.relnamespace = '{{schema_literal}}'::regnamespace AND c.relkind = 'r' AND NOT c.relispartition
           AND c.relname ~ '^archive_[0-9]{8}$'
    LOOP
        EXECUTE format('ALTER TABLE {{schema_literal}}.%I ADD COLUMN IF NOT EXISTS trace bytea', leftover);
    END LOOP;
END
$$;

-- The headers as they were given.
CREATE FUNCTION {{schema}}.all_headers(headers jsonb, trace bytea) RETURNS jsonb
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN octet_length(trace) = 25 THEN coalesce(headers, '{}') || ('{"traceparent":"00-'
        || encode(substr(trace, 1, 16), 'hex') || '-' || encode(substr(trace, 17, 8), 'hex') || '-'
        || encode(substr(trace, 25), 'hex') || '"}')::jsonb ELSE headers END;

CREATE OR REPLACE VIEW {{schema}}.all_messages AS
    SELECT m.id, m.queue, m.kind,
           CASE m.status WHEN 0 THEN 'pending' ELSE 'processing' END AS status,
           m.priority, m.retry_count, m.max_retries, m.due_at AS retry_after, m.last_error,
           m.tenant, m.correlation_id, m.idempotency_key, m.lease_token, m.replay_count,
           m.created_at, coalesce(m.updated_at, m.created_at) AS updated_at, m.payload,
           {{schema}}.all_headers(m.headers, m.trace) AS headers
      FROM {{schema}}.messages m
    UNION ALL
    SELECT a.id, a.queue, a.kind, 'succeeded', a.priority, a.retry_count, a.max_retries, NULL, a.last_error,
           a.tenant, a.correlation_id, a.idempotency_key, a.lease_token, a.replay_count,
           a.created_at, a.finished_at, a.payload, {{schema}}.all_headers(a.headers, a.trace)
      FROM {{schema}}.archive a
    UNION ALL
    SELECT d.message_id, d.queue, d.kind, 'dead', d.priority, d.retry_count, d.max_retries, NULL, d.error_message,
           d.tenant, d.correlation_id, d.idempotency_key, d.lease_token, d.replay_count,
           d.created_at, coalesce(d.resolved_at, d.dead_at), d.payload, {{schema}}.all_headers(d.headers, d.trace)
      FROM {{schema}}.dead_letters d
     WHERE d.resolution IS DISTINCT FROM 'replayed';
