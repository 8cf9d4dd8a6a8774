// Package engine picks the store that fits a database.
package engine

import (
	"fmt"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
	"github.com/styxmq/styx/internal/store/postgres"
	"github.com/styxmq/styx/internal/store/sqlite"
)

// New returns the store for db, which its dialect tells; it does not touch
// the database. schema names the PostgreSQL schema, empty is the default;
// SQLite knows none. What does not fit is a *message.ValidationError of the
// field "db" or "schema".
func New(db *bun.DB, schema string) (store.Store, error) {
	if db == nil || db.DB == nil {
		return nil, &message.ValidationError{Field: "db", Code: message.CodeRequired, Message: "db must not be nil."}
	}
	switch kind := db.Dialect().Name(); kind {
	case dialect.PG:
		st, err := postgres.New(db, schema)
		if err != nil {
			return nil, err // not st: a nil pointer in an interface is not nil
		}
		return st, nil
	case dialect.SQLite:
		if schema != "" {
			return nil, &message.ValidationError{
				Field: "schema", Code: message.CodeInvalid,
				Message: "schema must be empty with SQLite, which has none; use another file.",
			}
		}
		st, err := sqlite.New(db)
		if err != nil {
			return nil, err
		}
		return st, nil
	default:
		return nil, &message.ValidationError{
			Field: "db", Code: message.CodeInvalid,
			Message: fmt.Sprintf("db must have bun's dialect of PostgreSQL or SQLite, not %s.", kind),
		}
	}
}
