LOCK TABLE {{schema}}.archive, {{schema}}.messages, {{schema}}.dead_letters, {{schema}}.all_messages
    IN ACCESS EXCLUSIVE MODE;

CREATE OR REPLACE VIEW {{schema}}.all_messages AS
    SELECT m.id, m.queue, m.kind,
           CASE m.status WHEN 0 THEN 'pending' ELSE 'processing' END AS status,
           m.priority, m.retry_count, m.max_retries, m.due_at AS retry_after, m.last_error,
           m.tenant, m.correlation_id, m.idempotency_key, m.lease_token, m.replay_count,
           m.created_at, coalesce(m.updated_at, m.created_at) AS updated_at, m.payload, m.headers
      FROM {{schema}}.messages m
    UNION ALL
    SELECT a.id, a.queue, a.kind, 'succeeded', a.priority, a.retry_count, a.max_retries, NULL, a.last_error,
           a.tenant, a.correlation_id, a.idempotency_key, a.lease_token, a.replay_count,
           a.created_at, a.finished_at, a.payload, a.headers
      FROM {{schema}}.archive a
    UNION ALL
    SELECT d.message_id, d.queue, d.kind, 'dead', d.priority, d.retry_count, d.max_retries, NULL, d.error_message,
           d.tenant, d.correlation_id, d.idempotency_key, d.lease_token, d.replay_count,
           d.created_at, coalesce(d.resolved_at, d.dead_at), d.payload, d.headers
      FROM {{schema}}.dead_letters d
     WHERE d.resolution IS DISTINCT FROM 'replayed';

-- The trace contexts go back among the headers, in detached partitions too.
DO $$
DECLARE
    name text;
BEGIN
    FOR name IN
        SELECT c.relname FROM pg_catalog.pg_class c
          JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attname = 'trace' AND NOT a.attisdropped
         WHERE c.relnamespace = '{{schema_literal}}'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
           AND c.relname ~ '^(messages|dead_letters|archive(_[0-9]{8})?)$'
    LOOP
        EXECUTE format('UPDATE {{schema_literal}}.%I SET headers = {{schema_literal}}.all_headers(headers, trace) WHERE trace IS NOT NULL', name);
        EXECUTE format('ALTER TABLE {{schema_literal}}.%I DROP COLUMN trace', name);
    END LOOP;
END
$$;

DROP FUNCTION {{schema}}.all_headers;
