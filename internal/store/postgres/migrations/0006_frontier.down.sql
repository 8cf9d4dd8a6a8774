ALTER TABLE {{schema}}.claims DROP COLUMN scope, DROP COLUMN last_id;
