package store

import (
	"context"

	"github.com/uptrace/bun"

	"github.com/styxmq/styx/client/message"
)

// Store is one engine's whole implementation. It is safe for concurrent use.
type Store interface {
	Migrator
	Producer
	Consumer
	Reader
	Operator
	Maintainer
	Gauger
	Remote
	Steward
}

// Migrator creates and changes the schema.
type Migrator interface {
	// Migrate brings the schema to the newest version. Any number of
	// processes may call it at once; a repeat is a no-op. It returns the
	// versions applied, and message.ErrSchemaNewer when the database is
	// ahead of this program.
	Migrate(ctx context.Context) (applied []int, err error)
	// MigrateDown takes the newest versions back until target is the
	// newest; 0 removes everything. It returns the versions removed.
	MigrateDown(ctx context.Context, target int) (removed []int, err error)
	// SchemaVersion returns the version of the database (0: none) and the
	// newest that this program knows.
	SchemaVersion(ctx context.Context) (current, known int, err error)
	// MigrationSQL returns the statements that lead from a version to
	// another, up or down, for other migration tools.
	MigrationSQL(from, to int) (string, error)
}

// Producer stores new messages. The messages are valid already.
type Producer interface {
	// Insert stores one message, on conn when that is not nil and then as
	// part of its transaction, which no error of a duplicate key aborts. A
	// held idempotency key is a *message.DuplicateError.
	Insert(ctx context.Context, conn bun.IConn, m *NewMessage) (Inserted, error)
	// InsertMany stores all messages or none, in order, ids ascending. On
	// the first held key nothing is stored and the *message.DuplicateError
	// has its index.
	InsertMany(ctx context.Context, conn bun.IConn, ms []NewMessage) ([]Inserted, error)
}

// Reader shows messages.
type Reader interface {
	// Get returns the message wherever it stands, or message.ErrNotFound.
	Get(ctx context.Context, id int64) (message.Message, error)
	// List returns messages by id. See ListQuery.
	List(ctx context.Context, q ListQuery) (ListPage, error)
	// Attempts returns the newest attempts of a message, oldest first, at
	// most limit. A message without any gives none, an unknown one
	// message.ErrNotFound.
	Attempts(ctx context.Context, id int64, limit int) ([]message.Attempt, error)
	// Stats counts per queue, each count up to StatsCap.
	Stats(ctx context.Context) ([]QueueStats, error)
	// Letters returns dead letters by letter id. See LetterQuery.
	Letters(ctx context.Context, q LetterQuery) ([]message.DeadLetter, error)
	// Letter returns the newest dead letter of a message, or
	// message.ErrNotFound.
	Letter(ctx context.Context, id int64) (message.DeadLetter, error)
}

// Operator changes messages on someone's request.
type Operator interface {
	// Cancel ends a pending message as a resolved dead letter. Others give
	// a *message.StateError, unknown ones message.ErrNotFound.
	Cancel(ctx context.Context, id int64, by Actor) error
	// Replay puts a dead message back with a fresh budget and its old
	// token, and resolves its letter. Messages in other states give a
	// *message.StateError, unknown ones message.ErrNotFound, a key used
	// since by another message a *message.DuplicateError.
	Replay(ctx context.Context, id int64, by Actor) error
	// Resolve closes a dead letter without running it again and frees its
	// key. Errors as for Replay.
	Resolve(ctx context.Context, id int64, by Actor) error
	// Purge deletes dead letters, with their attempts and keys, and writes
	// how many to the audit log. At most q.Limit go in one call.
	Purge(ctx context.Context, q PurgeQuery, by Actor) (int, error)
}
