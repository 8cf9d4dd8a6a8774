// Package postgres keeps the queue in PostgreSQL 15 or newer.
//
// It imports no driver: statements go through database/sql, arrays travel as
// text literals, and errors are told apart by their SQLSTATE. What only a
// driver can do is handed in by whoever links one: waiting for notifications
// (see [RegisterListener]) and binary values, which the statements that carry
// many messages use where they can (see [RegisterNative]).
//
// Statements of the hot path (enqueue, claim, settle, beat) are written by
// hand, each with a comment on its locks and the index it uses, and go to
// the *sql.DB under the *bun.DB, past the query hooks of the application.
package postgres

import (
	"database/sql"
	"strings"
	"sync/atomic"

	"github.com/uptrace/bun"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// DefaultSchema holds the tables when nothing else is said.
const DefaultSchema = "styx"

// Store implements store.Store. Make it with New; it is safe for concurrent
// use.
type Store struct {
	db     *bun.DB
	sql    *sql.DB
	schema string
	// prefix is the quoted schema with its dot, as statements need it.
	prefix   string
	hot      statements
	noNative atomic.Bool // the pool's connections are of another driver
	notifier *notifier
	groups   groups
	claims   claims
	probes   probes
	draws    draws
	idles    idles
	turns    turns
	// oldAttempts is where retention goes on looking.
	oldAttempts attemptPlace
	// pauses and remotes serve claims.
	pauses  store.PauseCache
	remotes store.CursorPool[*cursor]
}

var _ store.Store = (*Store)(nil)

// New returns the store of one schema; an empty name is DefaultSchema. It
// does not touch the database. A bad name is a *message.ValidationError of
// the field "schema".
func New(db *bun.DB, schema string) (*Store, error) {
	if schema == "" {
		schema = DefaultSchema
	}
	if err := checkSchema(schema); err != nil {
		return nil, err
	}
	s := &Store{db: db, sql: db.DB, schema: schema, prefix: quoteIdent(schema) + "."}
	s.hot = prepare(s.prefix)
	s.notifier, s.groups = newNotifier(s), newGroups(s)
	s.claims, s.probes, s.draws, s.idles = newClaims(s), newProbes(s), newDraws(s), newIdles(s)
	return s, nil
}

// checkSchema refuses what PostgreSQL would cut short or misread. The limit
// leaves room for the names of partitions and channels.
func checkSchema(name string) error {
	const limit = 48
	switch {
	case len(name) > limit:
		return &message.ValidationError{Field: "schema", Code: message.CodeTooLong, Message: "schema must be at most 48 bytes."}
	case strings.HasPrefix(name, "pg_"):
		return &message.ValidationError{Field: "schema", Code: message.CodeInvalid, Message: "schema must not begin with pg_."}
	}
	for i, r := range name {
		letter := r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return &message.ValidationError{
				Field: "schema", Code: message.CodeInvalid,
				Message: "schema must be letters, digits and underscores, and not begin with a digit.",
			}
		}
	}
	return nil
}

// quoteIdent quotes a name, keeping its case.
func quoteIdent(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// text expands {{s}} in a statement to the schema's prefix.
func (s *Store) text(statement string) string { return expand(statement, s.prefix) }

func expand(statement, prefix string) string {
	return strings.ReplaceAll(statement, "{{s}}", prefix)
}
