DROP INDEX styx_audit_log_message;
DROP INDEX styx_audit_log_queue;
ALTER TABLE styx_audit_log DROP COLUMN origin;
DROP TABLE styx_reaper;
DROP TABLE styx_queues;
