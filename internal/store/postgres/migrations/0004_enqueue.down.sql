DROP FUNCTION {{schema}}.enqueue;
DROP FUNCTION {{schema}}.enqueue_name;
DROP FUNCTION {{schema}}.enqueue_refuse;
