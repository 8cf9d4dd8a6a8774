-- Queues that are treated differently from others: a row only where there is
-- something to say.
CREATE TABLE styx_queues (
    queue        TEXT    NOT NULL PRIMARY KEY,
    paused_at    INTEGER,
    paused_until INTEGER,
    paused_by    TEXT,
    pause_origin TEXT,
    pause_reason TEXT
) STRICT, WITHOUT ROWID;

-- When a reaper last finished a tick.
CREATE TABLE styx_reaper (
    one       INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    ticked_at INTEGER NOT NULL
) STRICT;

-- Where a request came from.
ALTER TABLE styx_audit_log ADD COLUMN origin TEXT;
CREATE INDEX styx_audit_log_message ON styx_audit_log (message_id) WHERE message_id IS NOT NULL;
CREATE INDEX styx_audit_log_queue ON styx_audit_log (queue) WHERE queue IS NOT NULL;
