DROP VIEW {{schema}}.all_messages;
DROP TABLE {{schema}}.audit_log, {{schema}}.keys, {{schema}}.listeners, {{schema}}.workers, {{schema}}.claims,
    {{schema}}.attempts, {{schema}}.dead_letters, {{schema}}.archive, {{schema}}.messages;

-- Partitions that were detached and not dropped yet.
DO $$
DECLARE
    leftover text;
BEGIN
    FOR leftover IN
        SELECT c.relname FROM pg_catalog.pg_class c
         WHERE c.relnamespace = '{{schema_literal}}'::regnamespace AND c.relkind = 'r'
           AND c.relname ~ '^archive_[0-9]{8}$'
    LOOP
        EXECUTE format('DROP TABLE {{schema_literal}}.%I', leftover);
    END LOOP;
END
$$;
