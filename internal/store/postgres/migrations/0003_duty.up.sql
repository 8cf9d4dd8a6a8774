-- Who does what only one process at a time shall do, and for how long.
CREATE TABLE {{schema}}.duties (
    name   text        NOT NULL PRIMARY KEY,
    holder text        NOT NULL,
    until  timestamptz NOT NULL
) WITH (fillfactor = 50);
