DELETE FROM {{schema}}.listeners WHERE lapses_at IS NOT NULL;
ALTER TABLE {{schema}}.listeners DROP COLUMN lapses_at;
DROP INDEX {{schema}}.audit_log_message, {{schema}}.audit_log_queue;
ALTER TABLE {{schema}}.audit_log DROP COLUMN origin;
DROP TABLE {{schema}}.reaper, {{schema}}.queues;
