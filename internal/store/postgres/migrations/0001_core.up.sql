-- Every object is named with the schema; {{schema}} is replaced by its quoted name.

CREATE SEQUENCE {{schema}}.message_id AS bigint CACHE 1;

-- The hot table: pending and processing messages only. The columns that a
-- claim changes have fixed widths and no index, so that a claim is a HOT
-- update; half of each page is left free for it.
CREATE TABLE {{schema}}.messages (
    id              bigint      NOT NULL PRIMARY KEY DEFAULT nextval('{{schema_literal}}.message_id'),
    lease_token     bigint      NOT NULL DEFAULT 0,
    worker_id       bigint      NOT NULL DEFAULT 0,
    deadline        timestamptz NOT NULL DEFAULT '-infinity',
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at      timestamptz,
    due_at          timestamptz,
    expires_at      timestamptz,
    timeout_ms      bigint      NOT NULL DEFAULT 0,
    retry_count     integer     NOT NULL DEFAULT 0,
    max_retries     integer     NOT NULL,
    status          smallint    NOT NULL DEFAULT 0,
    priority        smallint    NOT NULL DEFAULT 0,
    losses          smallint    NOT NULL DEFAULT 0,
    snoozes         smallint    NOT NULL DEFAULT 0,
    replay_count    smallint    NOT NULL DEFAULT 0,
    queue           text        NOT NULL,
    lane            text        NOT NULL DEFAULT '',
    kind            text        NOT NULL,
    payload         text        NOT NULL,
    headers         jsonb,
    tenant          text,
    correlation_id  text,
    idempotency_key text,
    last_error      text
) WITH (
    fillfactor = 50,
    vacuum_truncate = off,
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_scale_factor = 0.2,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.1,
    toast.vacuum_truncate = off
);
ALTER SEQUENCE {{schema}}.message_id OWNED BY {{schema}}.messages.id;

-- Append-only: rows enter at the end and are never put back.
CREATE INDEX messages_ready ON {{schema}}.messages (queue, lane, priority, id)
    WHERE due_at IS NULL;
-- Whatever is postponed or comes back, in the order of its time.
CREATE INDEX messages_due ON {{schema}}.messages (queue, lane, due_at)
    WHERE due_at IS NOT NULL AND losses = 0;
-- What lost a worker before: it runs alone.
CREATE INDEX messages_suspect ON {{schema}}.messages (queue, lane, due_at)
    WHERE due_at IS NOT NULL AND losses > 0;
CREATE INDEX messages_expiry ON {{schema}}.messages (expires_at)
    WHERE expires_at IS NOT NULL;

-- Succeeded messages, a partition a day (made by the program, never by
-- PARTITION OF, which would lock out readers).
CREATE TABLE {{schema}}.archive (
    id              bigint      NOT NULL,
    lease_token     bigint      NOT NULL,
    worker_id       bigint      NOT NULL,
    created_at      timestamptz NOT NULL,
    started_at      timestamptz,
    finished_at     timestamptz NOT NULL,
    retry_count     integer     NOT NULL,
    max_retries     integer     NOT NULL,
    priority        smallint    NOT NULL,
    losses          smallint    NOT NULL,
    snoozes         smallint    NOT NULL,
    replay_count    smallint    NOT NULL,
    queue           text        NOT NULL,
    kind            text        NOT NULL,
    payload         text,
    headers         jsonb,
    tenant          text,
    correlation_id  text,
    idempotency_key text,
    last_error      text,
    note            text
) PARTITION BY RANGE (finished_at);
CREATE INDEX archive_id ON {{schema}}.archive (id);

CREATE TABLE {{schema}}.dead_letters (
    letter_id       bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    message_id      bigint      NOT NULL,
    lease_token     bigint      NOT NULL,
    worker_id       bigint      NOT NULL,
    created_at      timestamptz NOT NULL,
    expires_at      timestamptz,
    first_failed_at timestamptz,
    last_failed_at  timestamptz,
    dead_at         timestamptz NOT NULL,
    resolved_at     timestamptz,
    timeout_ms      bigint      NOT NULL,
    retry_count     integer     NOT NULL,
    max_retries     integer     NOT NULL,
    priority        smallint    NOT NULL,
    losses          smallint    NOT NULL,
    snoozes         smallint    NOT NULL,
    replay_count    smallint    NOT NULL,
    queue           text        NOT NULL,
    lane            text        NOT NULL DEFAULT '',
    kind            text        NOT NULL,
    payload         text        NOT NULL,
    headers         jsonb,
    tenant          text,
    correlation_id  text,
    idempotency_key text,
    decision        text        NOT NULL,
    failure_kind    text,
    error_class     text,
    error_message   text,
    stack           text,
    fingerprint     text,
    worker_version  text,
    trace_id        text,
    resolution      text,
    resolved_by     text,
    resolve_reason  text
);
CREATE UNIQUE INDEX dead_letters_waiting ON {{schema}}.dead_letters (message_id) WHERE resolved_at IS NULL;
CREATE INDEX dead_letters_message ON {{schema}}.dead_letters (message_id);
CREATE INDEX dead_letters_queue ON {{schema}}.dead_letters (queue, letter_id) WHERE resolved_at IS NULL;
CREATE INDEX dead_letters_fingerprint ON {{schema}}.dead_letters (fingerprint, letter_id) WHERE resolved_at IS NULL;
CREATE INDEX dead_letters_dead ON {{schema}}.dead_letters (dead_at) WHERE resolved_at IS NULL;
CREATE INDEX dead_letters_resolved ON {{schema}}.dead_letters (resolved_at) WHERE resolved_at IS NOT NULL;

-- One row for each attempt that did not succeed. Its uniqueness answers a
-- settle that comes twice.
CREATE TABLE {{schema}}.attempts (
    id            bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    message_id    bigint      NOT NULL,
    lease_token   bigint      NOT NULL,
    worker_id     bigint      NOT NULL,
    started_at    timestamptz,
    finished_at   timestamptz NOT NULL,
    retry_after   timestamptz,
    number        integer     NOT NULL,
    charged       boolean     NOT NULL,
    outcome       text        NOT NULL,
    failure_kind  text,
    error_class   text,
    error_message text,
    stack         text,
    reason        text,
    trace_id      text,
    UNIQUE (message_id, lease_token)
);
CREATE INDEX attempts_finished ON {{schema}}.attempts (finished_at);

-- One row for each statement that claimed something: where to look for the
-- messages of a worker. A hint, never the truth.
CREATE TABLE {{schema}}.claims (
    worker_id bigint      NOT NULL,
    number    bigint      NOT NULL,
    deadline  timestamptz NOT NULL,
    ids       bigint[]    NOT NULL,
    PRIMARY KEY (worker_id, number)
) WITH (
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0,
    vacuum_truncate = off
);
CREATE INDEX claims_deadline ON {{schema}}.claims (deadline);

-- One row for each incarnation of a worker; a beat is one HOT update.
CREATE TABLE {{schema}}.workers (
    id          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    started_at  timestamptz NOT NULL,
    beat_at     timestamptz NOT NULL,
    dead_at     timestamptz,
    lease_ms    bigint      NOT NULL,
    pid         bigint      NOT NULL,
    concurrency integer     NOT NULL,
    name        text        NOT NULL,
    host        text        NOT NULL,
    version     text        NOT NULL,
    queues      text[]      NOT NULL,
    kinds       text[]      NOT NULL
) WITH (fillfactor = 50);

-- Which workers want to be woken for which queue.
CREATE TABLE {{schema}}.listeners (
    queue     text   NOT NULL,
    worker_id bigint NOT NULL,
    PRIMARY KEY (queue, worker_id)
);

-- Idempotency keys. expires_at is infinity until the message succeeded.
CREATE TABLE {{schema}}.keys (
    message_id bigint      NOT NULL,
    expires_at timestamptz NOT NULL,
    window_ms  bigint      NOT NULL,
    queue      text        NOT NULL,
    key        text        NOT NULL,
    digest     text        NOT NULL,
    PRIMARY KEY (queue, key)
);
CREATE INDEX keys_expiry ON {{schema}}.keys (expires_at) WHERE expires_at < 'infinity';

CREATE TABLE {{schema}}.audit_log (
    id         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at         timestamptz NOT NULL,
    message_id bigint,
    affected   bigint      NOT NULL,
    action     text        NOT NULL,
    actor      text        NOT NULL,
    queue      text,
    reason     text
);

-- Every message once, with its status as text, for people and reports.
CREATE VIEW {{schema}}.all_messages AS
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

-- Payloads and the ids of a claim are written and read once: lz4 costs a fraction of pglz, where
-- the server was built with it.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_catalog.pg_settings
                WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals)) THEN
        ALTER TABLE {{schema}}.messages ALTER COLUMN payload SET COMPRESSION lz4;
        ALTER TABLE {{schema}}.archive ALTER COLUMN payload SET COMPRESSION lz4;
        ALTER TABLE {{schema}}.dead_letters ALTER COLUMN payload SET COMPRESSION lz4;
        ALTER TABLE {{schema}}.claims ALTER COLUMN ids SET COMPRESSION lz4;
    END IF;
END
$$;
