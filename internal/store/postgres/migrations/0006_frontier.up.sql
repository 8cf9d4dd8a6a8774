-- Where claims of the same scope (queue, kinds and priority) have come, so that
-- each may go on from there instead of walking over what others have taken.
DO $$
DECLARE
    before CONSTANT text := current_setting('lock_timeout');
BEGIN
    PERFORM set_config('lock_timeout',
        (1000 * extract(epoch FROM current_setting('deadlock_timeout')::interval) + 500)::integer::text, true);
    LOOP
        BEGIN
            LOCK TABLE {{schema}}.claims IN ACCESS EXCLUSIVE MODE;
            EXIT;
        EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
            PERFORM pg_sleep(0.2);
        END;
    END LOOP;
    PERFORM set_config('lock_timeout', before, true);
END
$$;

ALTER TABLE {{schema}}.claims ADD COLUMN scope bigint, ADD COLUMN last_id bigint;
CREATE INDEX claims_frontier ON {{schema}}.claims (scope, last_id) WHERE scope IS NOT NULL;
