// Package sqlite keeps the queue in an SQLite database, 3.42 or newer.
//
// It imports no driver: statements go through database/sql and errors are
// told apart by their result code. Every statement goes to the *sql.DB under
// the *bun.DB, past the query hooks of the application.
//
// SQLite has one writer at a time, for the whole file. The protocol of
// package store becomes simple by that: a transaction that has the write lock
// sees the newest rows, nobody changes them until it commits, and ids become
// visible in the order in which they were given. What is left to take care
// of is the lock itself. Within a process the writers of one *sql.DB wait in
// a queue, in their order; only one of them at a time stands before SQLite's
// own lock, which is waited for by polling. And since a commit is expensive
// (the log is synced to the disk), single enqueues that wait together are
// written together.
//
// Ids are given by the database's own counter, which a rollback takes back: an
// id that a rolled-back transaction was given may be given again, but one that
// anybody could see never is.
//
// A message's row names the claim that holds it, so there are no claims rows:
// the partial index styx_messages_held shows who holds what, and a claim's
// number settles what is an orphan.
package sqlite

import (
	"database/sql"
	"time"

	"github.com/uptrace/bun"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// clock is the database's time in microseconds since 1970, as SQL. It stays
// the same throughout a statement.
const clock = `CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000`

// Store implements store.Store. Make it with New; it is safe for concurrent
// use.
type Store struct {
	sql *sql.DB
	// common is what all stores of one *sql.DB share.
	common *common
	// pauses and remotes serve claims.
	pauses  store.PauseCache
	remotes store.CursorPool[*cursor]
}

var _ store.Store = (*Store)(nil)

// New returns the store of a database. It does not touch the database. A nil
// one is a *message.ValidationError of the field "db".
//
// The pool should have room for at least four connections: a worker reserves
// one for its beats and one to listen on, unless the pool is smaller.
func New(db *bun.DB) (*Store, error) {
	if db == nil || db.DB == nil {
		return nil, &message.ValidationError{Field: "db", Code: message.CodeRequired, Message: "db must not be nil."}
	}
	return &Store{sql: db.DB, common: commonOf(db.DB)}, nil
}

// roomy reports whether the pool has connections to reserve.
func (s *Store) roomy() bool {
	const enough = 4
	limit := s.sql.Stats().MaxOpenConnections
	return limit <= 0 || limit >= enough
}

// spare reports whether there is a connection besides the caller's own.
func (s *Store) spare() bool {
	pool := s.sql.Stats()
	return pool.Idle > 0 || pool.MaxOpenConnections <= 0 || pool.OpenConnections < pool.MaxOpenConnections
}

// timeOf turns a time of the database into Go's.
func timeOf(micros sql.NullInt64) time.Time {
	if !micros.Valid {
		return time.Time{}
	}
	return time.UnixMicro(micros.Int64).UTC()
}

// micros rounds a duration up to microseconds, so that a short one does not
// become none; -1 stands for a negative one.
func micros(d time.Duration) int64 {
	if d < 0 {
		return -1
	}
	return int64((d + time.Microsecond - 1) / time.Microsecond)
}

// durationOf is the opposite of micros.
func durationOf(micros int64) time.Duration {
	if micros < 0 {
		return -1
	}
	return time.Duration(micros) * time.Microsecond
}

// nullable keeps an empty text as NULL.
func nullable(text string) any {
	if text == "" {
		return nil
	}
	return text
}
