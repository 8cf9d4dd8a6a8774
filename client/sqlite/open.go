package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/sqlitedialect"
	"modernc.org/sqlite"
)

// MaxOpenConns is the size of the pool that Open makes; as many may stay idle.
// Only one connection writes at a time, the others read beside it. Change it
// with SetMaxOpenConns and SetMaxIdleConns.
const MaxOpenConns = 8

// Open opens the SQLite database in the file path, making the file if there
// is none; the folder must exist. A relative path is resolved once, now. Any
// character but NUL may stand in it. A file: URI is understood as well: its
// options are kept, and what it sets (_pragma=synchronous(NORMAL), _txlock=…)
// wins over the settings below.
//
// Every connection of the pool has: a write-ahead log, journal_mode=WAL, cut
// back to 64 MiB when it has grown beyond; synchronous=FULL, so that what was
// acknowledged survives a power loss; busy_timeout of 10 seconds; temporary
// tables in memory; a page cache of at most 16 MiB; and transactions that
// take the write lock when they begin, since one that asks for it later fails
// at once if another has written meanwhile.
//
// In-memory and temporary databases (:memory:, the empty path, mode=memory)
// are refused with a [*message.ValidationError] of the field path: each
// connection of the pool would see a database of its own. In a test, use a
// file in t.TempDir().
//
// The file is opened and its settings are checked before Open returns, within
// ctx; ctx has no part in the life of the database afterwards. Errors name
// the file. The database is safe for concurrent use and is the caller's to
// close; closing the last one that has the file open folds the log into it.
func Open(ctx context.Context, path string) (*bun.DB, error) {
	loc, err := locate(path)
	if err != nil {
		return nil, err
	}
	connector, err := sqlite.NewConnector(loc.dsn())
	if err != nil {
		return nil, fmt.Errorf("open SQLite database %q: %w", path, err)
	}
	sqldb := sql.OpenDB(connector)
	sqldb.SetMaxOpenConns(MaxOpenConns)
	sqldb.SetMaxIdleConns(MaxOpenConns)
	if err := check(ctx, sqldb, loc); err != nil {
		return nil, errors.Join(fmt.Errorf("open SQLite database %q: %w", path, err), sqldb.Close())
	}
	return bun.NewDB(sqldb, sqlitedialect.New()), nil
}

// check opens a first connection. SQLite keeps the old journal without an
// error where a write-ahead log is not possible, so it is asked.
func check(ctx context.Context, sqldb *sql.DB, loc location) error {
	var mode string
	if err := sqldb.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode); err != nil {
		return err
	}
	if mode != "wal" && !loc.sets("journal_mode") {
		return fmt.Errorf("the file system permits no write-ahead log (journal mode is %s)", mode)
	}
	return nil
}
