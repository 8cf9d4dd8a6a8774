-- Who does what only one process at a time shall do, and for how long.
CREATE TABLE styx_duties (
    name   TEXT    NOT NULL PRIMARY KEY,
    holder TEXT    NOT NULL,
    until  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
