-- Queues that are treated differently from others: read-mostly, a row only
-- where there is something to say.
CREATE TABLE {{schema}}.queues (
    queue        text        NOT NULL PRIMARY KEY,
    paused_at    timestamptz,
    paused_until timestamptz,
    paused_by    text,
    pause_origin text,
    pause_reason text
);

-- When a reaper last finished a tick: one row, a HOT update.
CREATE TABLE {{schema}}.reaper (
    one       boolean     NOT NULL PRIMARY KEY DEFAULT true CHECK (one),
    ticked_at timestamptz NOT NULL
) WITH (fillfactor = 10);

-- Where a request came from.
ALTER TABLE {{schema}}.audit_log ADD COLUMN origin text;
CREATE INDEX audit_log_message ON {{schema}}.audit_log (message_id, id) WHERE message_id IS NOT NULL;
CREATE INDEX audit_log_queue ON {{schema}}.audit_log (queue, id) WHERE queue IS NOT NULL;

-- Consumers without an incarnation never die; their wish to be woken lapses.
ALTER TABLE {{schema}}.listeners ADD COLUMN lapses_at timestamptz;
