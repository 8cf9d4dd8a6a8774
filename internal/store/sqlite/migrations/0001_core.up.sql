-- Times are whole microseconds since 1970 by the database's clock, NULL for
-- none. Every table is STRICT, so that a value of another type is refused.

-- The hot table: pending (status 0) and processing (1) messages only. It
-- holds what a claim or a settlement changes or needs to choose; what an
-- enqueue gave and nothing changes stands in styx_contents, so that no move
-- copies a payload. AUTOINCREMENT: an id is never used again.
CREATE TABLE styx_messages (
    id           INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    lease_token  INTEGER NOT NULL DEFAULT 0,
    worker_id    INTEGER NOT NULL DEFAULT 0,
    claim_number INTEGER NOT NULL DEFAULT 0,
    deadline     INTEGER,
    updated_at   INTEGER,
    due_at       INTEGER,
    expires_at   INTEGER,
    timeout_us   INTEGER NOT NULL DEFAULT 0,
    retry_count  INTEGER NOT NULL DEFAULT 0,
    max_retries  INTEGER NOT NULL,
    status       INTEGER NOT NULL DEFAULT 0 CHECK (status IN (0, 1)),
    priority     INTEGER NOT NULL DEFAULT 0,
    losses       INTEGER NOT NULL DEFAULT 0,
    snoozes      INTEGER NOT NULL DEFAULT 0,
    replay_count INTEGER NOT NULL DEFAULT 0,
    queue        TEXT    NOT NULL,
    kind         TEXT    NOT NULL,
    last_error   TEXT
) STRICT;

-- Messages that never waited, in the order of their ids (an index ends with
-- the row's id). Rows are never put back here.
CREATE INDEX styx_messages_ready ON styx_messages (queue, priority)
    WHERE status = 0 AND due_at IS NULL;
-- Whatever is postponed or comes back, in the order of its time.
CREATE INDEX styx_messages_due ON styx_messages (queue, due_at)
    WHERE status = 0 AND due_at IS NOT NULL AND losses = 0;
-- What lost a worker before: it runs alone.
CREATE INDEX styx_messages_suspect ON styx_messages (queue, due_at)
    WHERE status = 0 AND losses > 0;
-- Who holds what, claim by claim: for orphans and for the reaper.
CREATE INDEX styx_messages_held ON styx_messages (worker_id, claim_number, deadline)
    WHERE status = 1;
CREATE INDEX styx_messages_expiry ON styx_messages (expires_at)
    WHERE status = 0 AND expires_at IS NOT NULL;

-- What a message brought along, wherever it stands.
CREATE TABLE styx_contents (
    id              INTEGER NOT NULL PRIMARY KEY,
    created_at      INTEGER NOT NULL,
    key_window_us   INTEGER,
    key_digest      TEXT,
    idempotency_key TEXT,
    tenant          TEXT,
    correlation_id  TEXT,
    headers         TEXT,
    payload         TEXT    NOT NULL
) STRICT;
-- Keeps the two together when someone changes an id by hand.
CREATE TRIGGER styx_messages_renumbered AFTER UPDATE OF id ON styx_messages BEGIN
    UPDATE styx_contents SET id = new.id WHERE id = old.id;
END;

-- Succeeded messages.
CREATE TABLE styx_archive (
    id           INTEGER NOT NULL PRIMARY KEY,
    lease_token  INTEGER NOT NULL,
    worker_id    INTEGER NOT NULL,
    started_at   INTEGER,
    finished_at  INTEGER NOT NULL,
    retry_count  INTEGER NOT NULL,
    max_retries  INTEGER NOT NULL,
    priority     INTEGER NOT NULL,
    losses       INTEGER NOT NULL,
    snoozes      INTEGER NOT NULL,
    replay_count INTEGER NOT NULL,
    queue        TEXT    NOT NULL,
    kind         TEXT    NOT NULL,
    last_error   TEXT,
    note         TEXT
) STRICT;
CREATE INDEX styx_archive_finished ON styx_archive (finished_at);

CREATE TABLE styx_dead_letters (
    letter_id       INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    message_id      INTEGER NOT NULL,
    lease_token     INTEGER NOT NULL,
    worker_id       INTEGER NOT NULL,
    expires_at      INTEGER,
    first_failed_at INTEGER,
    last_failed_at  INTEGER,
    dead_at         INTEGER NOT NULL,
    resolved_at     INTEGER,
    timeout_us      INTEGER NOT NULL,
    retry_count     INTEGER NOT NULL,
    max_retries     INTEGER NOT NULL,
    priority        INTEGER NOT NULL,
    losses          INTEGER NOT NULL,
    snoozes         INTEGER NOT NULL,
    replay_count    INTEGER NOT NULL,
    queue           TEXT    NOT NULL,
    kind            TEXT    NOT NULL,
    decision        TEXT    NOT NULL,
    failure_kind    TEXT,
    error_class     TEXT,
    error_message   TEXT,
    stack           TEXT,
    fingerprint     TEXT,
    worker_version  TEXT,
    trace_id        TEXT,
    resolution      TEXT,
    resolved_by     TEXT,
    resolve_reason  TEXT
) STRICT;
CREATE INDEX styx_dead_letters_message ON styx_dead_letters (message_id);
CREATE INDEX styx_dead_letters_queue ON styx_dead_letters (queue) WHERE resolved_at IS NULL;
CREATE INDEX styx_dead_letters_fingerprint ON styx_dead_letters (fingerprint) WHERE resolved_at IS NULL;
CREATE INDEX styx_dead_letters_dead ON styx_dead_letters (dead_at) WHERE resolved_at IS NULL;
CREATE INDEX styx_dead_letters_resolved ON styx_dead_letters (resolved_at) WHERE resolved_at IS NOT NULL;

-- One row for each attempt that did not succeed. Its uniqueness answers a
-- settle that comes twice.
CREATE TABLE styx_attempts (
    id            INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    message_id    INTEGER NOT NULL,
    lease_token   INTEGER NOT NULL,
    worker_id     INTEGER NOT NULL,
    started_at    INTEGER,
    finished_at   INTEGER NOT NULL,
    retry_after   INTEGER,
    number        INTEGER NOT NULL,
    charged       INTEGER NOT NULL,
    outcome       TEXT    NOT NULL,
    failure_kind  TEXT,
    error_class   TEXT,
    error_message TEXT,
    stack         TEXT,
    reason        TEXT,
    trace_id      TEXT,
    UNIQUE (message_id, lease_token)
) STRICT;

-- One row for each incarnation of a worker. queues and kinds are JSON arrays.
CREATE TABLE styx_workers (
    id          INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    started_at  INTEGER NOT NULL,
    beat_at     INTEGER NOT NULL,
    dead_at     INTEGER,
    lease_us    INTEGER NOT NULL,
    pid         INTEGER NOT NULL,
    concurrency INTEGER NOT NULL,
    name        TEXT    NOT NULL,
    host        TEXT    NOT NULL,
    version     TEXT    NOT NULL,
    queues      TEXT    NOT NULL,
    kinds       TEXT    NOT NULL
) STRICT;

-- Idempotency keys. expires_at is NULL until the message succeeded.
CREATE TABLE styx_keys (
    queue      TEXT    NOT NULL,
    key        TEXT    NOT NULL,
    message_id INTEGER NOT NULL,
    expires_at INTEGER,
    window_us  INTEGER NOT NULL,
    digest     TEXT    NOT NULL,
    PRIMARY KEY (queue, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX styx_keys_message ON styx_keys (message_id);
CREATE INDEX styx_keys_expiry ON styx_keys (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE styx_audit_log (
    id         INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    at         INTEGER NOT NULL,
    message_id INTEGER,
    affected   INTEGER NOT NULL,
    action     TEXT    NOT NULL,
    actor      TEXT    NOT NULL,
    queue      TEXT,
    reason     TEXT
) STRICT;

-- Every message once, with its status and times as text, for people and
-- reports.
CREATE VIEW styx_all_messages AS
    SELECT p.id, p.queue, p.kind, p.status, p.priority, p.retry_count, p.max_retries,
           strftime('%Y-%m-%dT%H:%M:%fZ', p.retry_after / 1000000.0, 'unixepoch') AS retry_after,
           p.last_error, c.tenant, c.correlation_id, c.idempotency_key, p.lease_token, p.replay_count,
           strftime('%Y-%m-%dT%H:%M:%fZ', c.created_at / 1000000.0, 'unixepoch') AS created_at,
           strftime('%Y-%m-%dT%H:%M:%fZ', coalesce(p.updated_at, c.created_at) / 1000000.0, 'unixepoch') AS updated_at,
           c.payload, c.headers
      FROM (
        SELECT id, queue, kind, CASE status WHEN 0 THEN 'pending' ELSE 'processing' END AS status, priority,
               retry_count, max_retries, due_at AS retry_after, last_error, lease_token, replay_count, updated_at
          FROM styx_messages
        UNION ALL
        SELECT id, queue, kind, 'succeeded', priority, retry_count, max_retries, NULL, last_error, lease_token,
               replay_count, finished_at
          FROM styx_archive
        UNION ALL
        SELECT message_id, queue, kind, 'dead', priority, retry_count, max_retries, NULL, error_message, lease_token,
               replay_count, coalesce(resolved_at, dead_at)
          FROM styx_dead_letters
         WHERE resolution IS NOT 'replayed'
      ) p LEFT JOIN styx_contents c ON c.id = p.id;
