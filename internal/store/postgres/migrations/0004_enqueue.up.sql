-- Enqueueing from SQL, so that a program in any language enqueues inside its
-- own transaction.

CREATE FUNCTION {{schema}}.enqueue_refuse(field text, code text, message text) RETURNS void
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $function$
BEGIN
    RAISE EXCEPTION 'styx: invalid %: %', field, message USING ERRCODE = '22023', COLUMN = field, DETAIL = code;
END
$function$;

-- The one rule for names, as in the client: so many bytes of UTF-8 without control characters.
CREATE FUNCTION {{schema}}.enqueue_name(field text, value text, most integer, needed boolean) RETURNS void
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $function$
BEGIN
    IF coalesce(value, '') = '' THEN
        IF needed THEN
            PERFORM {{schema}}.enqueue_refuse(field, 'required', field || ' must not be empty.');
        END IF;
    ELSIF octet_length(value) > most THEN
        PERFORM {{schema}}.enqueue_refuse(field, 'too_long', format('%s must be at most %s bytes, not %s.', field, most, octet_length(value)));
    ELSIF value ~ U&'[\0001-\001F\007F-\009F]' THEN
        PERFORM {{schema}}.enqueue_refuse(field, 'encoding', field || ' must not hold a control character.');
    END IF;
END
$function$;

CREATE FUNCTION {{schema}}.enqueue(
    queue text, kind text, payload text,
    delay interval DEFAULT NULL, run_at timestamptz DEFAULT NULL, priority integer DEFAULT 0,
    max_retries integer DEFAULT 5, timeout interval DEFAULT NULL, idempotency_key text DEFAULT NULL,
    tenant text DEFAULT NULL, correlation_id text DEFAULT NULL, headers jsonb DEFAULT NULL,
    expires_in interval DEFAULT NULL, idempotency_window interval DEFAULT interval '24 hours',
    OUT id bigint, OUT duplicate boolean, OUT mismatch boolean)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
#variable_conflict use_column
DECLARE
    most_ahead  CONSTANT interval := interval '3653 days';
    due         timestamptz;
    ends        timestamptz;
    timeout_ms  bigint := 0;
    print       text;
    holder      bigint;
    held        text;
BEGIN
    PERFORM {{schema}}.enqueue_name('queue', enqueue.queue, 128, true),
            {{schema}}.enqueue_name('kind', enqueue.kind, 128, true),
            {{schema}}.enqueue_name('idempotency_key', enqueue.idempotency_key, 255, false),
            {{schema}}.enqueue_name('tenant', enqueue.tenant, 128, false),
            {{schema}}.enqueue_name('correlation_id', enqueue.correlation_id, 255, false);
    IF coalesce(enqueue.payload, '') = '' THEN
        PERFORM {{schema}}.enqueue_refuse('payload', 'required', 'payload must not be empty.');
    ELSIF octet_length(enqueue.payload) > 1048576 THEN
        PERFORM {{schema}}.enqueue_refuse('payload', 'too_long', format('payload must be at most 1048576 bytes, not %s.', octet_length(enqueue.payload)));
    END IF;
    IF coalesce(enqueue.priority, 0) NOT BETWEEN -9 AND 9 THEN
        PERFORM {{schema}}.enqueue_refuse('priority', 'out_of_range', format('priority must be -9 to 9, not %s.', enqueue.priority));
    END IF;
    IF coalesce(enqueue.max_retries, 5) NOT BETWEEN 1 AND 1000 THEN
        PERFORM {{schema}}.enqueue_refuse('max_retries', 'out_of_range', format('max_retries must be 1 to 1000, not %s.', enqueue.max_retries));
    END IF;
    IF enqueue.delay IS NOT NULL AND enqueue.run_at IS NOT NULL THEN
        PERFORM {{schema}}.enqueue_refuse('run_at', 'invalid', 'run_at and delay must not both be set.');
    ELSIF enqueue.delay > most_ahead THEN
        PERFORM {{schema}}.enqueue_refuse('delay', 'out_of_range', 'delay must be at most 3653 days.');
    ELSIF enqueue.run_at > clock_timestamp() + most_ahead THEN
        PERFORM {{schema}}.enqueue_refuse('run_at', 'out_of_range', 'run_at must be at most 3653 days ahead.');
    ELSIF enqueue.timeout > interval '30 days' THEN
        PERFORM {{schema}}.enqueue_refuse('timeout', 'out_of_range', 'timeout must be negative for none, or at most 30 days.');
    ELSIF enqueue.expires_in < interval '0' OR enqueue.expires_in > most_ahead THEN
        PERFORM {{schema}}.enqueue_refuse('expires_in', 'out_of_range', 'expires_in must be 0 for never, or at most 3653 days.');
    ELSIF enqueue.idempotency_window > most_ahead THEN
        PERFORM {{schema}}.enqueue_refuse('idempotency_window', 'out_of_range', 'idempotency_window must be at most 3653 days.');
    END IF;
    IF enqueue.headers IS NOT NULL THEN
        IF jsonb_typeof(enqueue.headers) <> 'object'
           OR EXISTS (SELECT FROM jsonb_each(enqueue.headers) AS h WHERE jsonb_typeof(h.value) <> 'string') THEN
            PERFORM {{schema}}.enqueue_refuse('headers', 'invalid', 'headers must be an object whose values are strings.');
        ELSIF (SELECT count(*) > 64 OR sum(octet_length(h.key) + octet_length(h.value)) > 16384 FROM jsonb_each_text(enqueue.headers) AS h) THEN
            PERFORM {{schema}}.enqueue_refuse('headers', 'too_long', 'headers must be at most 64 and 16384 bytes in all.');
        END IF;
        PERFORM {{schema}}.enqueue_name('headers', h.key, 128, true) FROM jsonb_each_text(enqueue.headers) AS h;
    END IF;

    IF enqueue.delay > interval '0' THEN
        due := clock_timestamp() + enqueue.delay;
    ELSIF enqueue.run_at > clock_timestamp() THEN
        due := enqueue.run_at;
    END IF;
    IF enqueue.expires_in > interval '0' THEN
        ends := coalesce(due, clock_timestamp()) + enqueue.expires_in;
    END IF;
    IF enqueue.timeout < interval '0' THEN
        timeout_ms := -1;
    ELSIF enqueue.timeout > interval '0' THEN
        timeout_ms := ceil(extract(epoch FROM enqueue.timeout) * 1000);
    END IF;

    -- The id is drawn after the transaction has its own: a claim's floor may
    -- pass ids of which no running transaction tells.
    PERFORM pg_current_xact_id();
    id := nextval('{{schema_literal}}.message_id');
    duplicate := false;
    mismatch := false;
    IF coalesce(enqueue.idempotency_key, '') <> '' THEN
        print := left(encode(sha256(convert_to(enqueue.kind, 'UTF8') || '\x00'::bytea || convert_to(enqueue.payload, 'UTF8')), 'hex'), 32);
        INSERT INTO {{schema}}.keys AS k (queue, key, message_id, digest, window_ms, expires_at)
        VALUES (enqueue.queue, enqueue.idempotency_key, enqueue.id, print,
                greatest(0, extract(epoch FROM coalesce(enqueue.idempotency_window, interval '24 hours')) * 1000), 'infinity')
        ON CONFLICT (queue, key) DO UPDATE SET
               message_id = CASE WHEN k.expires_at <= statement_timestamp() THEN excluded.message_id ELSE k.message_id END,
               digest     = CASE WHEN k.expires_at <= statement_timestamp() THEN excluded.digest     ELSE k.digest     END,
               window_ms  = CASE WHEN k.expires_at <= statement_timestamp() THEN excluded.window_ms  ELSE k.window_ms  END,
               expires_at = CASE WHEN k.expires_at <= statement_timestamp() THEN excluded.expires_at ELSE k.expires_at END
        RETURNING k.message_id, k.digest INTO holder, held;
        IF holder <> enqueue.id THEN
            id := holder;
            duplicate := true;
            mismatch := held <> '' AND held <> print;
            RETURN;
        END IF;
    END IF;
    INSERT INTO {{schema}}.messages (id, queue, kind, payload, priority, max_retries, timeout_ms, headers, tenant,
           correlation_id, idempotency_key, due_at, expires_at)
    VALUES (enqueue.id, enqueue.queue, enqueue.kind, enqueue.payload, coalesce(enqueue.priority, 0), coalesce(enqueue.max_retries, 5),
            timeout_ms, nullif(enqueue.headers, '{}'), nullif(enqueue.tenant, ''), nullif(enqueue.correlation_id, ''),
            nullif(enqueue.idempotency_key, ''), due, ends);
    -- A listener is asleep: wake it when this transaction commits. One that
    -- falls asleep meanwhile finds the message by its poll.
    IF due IS NULL OR due < clock_timestamp() + interval '2 s' THEN
        PERFORM pg_notify('styx_wake_' || trim('"' FROM '{{schema_literal}}'), enqueue.queue)
          WHERE EXISTS (SELECT FROM {{schema}}.listeners AS l WHERE l.queue = enqueue.queue);
    END IF;
END
$function$;

COMMENT ON FUNCTION {{schema}}.enqueue IS
    'Enqueues a message as part of the calling transaction and returns its id; duplicate: the key is held by that message already, mismatch: which differs in kind or payload. A bad argument is an error 22023 whose column names it.';
REVOKE ALL ON FUNCTION {{schema}}.enqueue FROM PUBLIC;
REVOKE ALL ON FUNCTION {{schema}}.enqueue_name FROM PUBLIC;
REVOKE ALL ON FUNCTION {{schema}}.enqueue_refuse FROM PUBLIC;
