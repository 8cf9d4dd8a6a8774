package postgres

import (
	"context"
	"database/sql"

	"github.com/uptrace/bun"
)

// conn is what statements run on: the pool, a connection or a transaction.
type conn interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// bare takes the caller's handle out of its bun wrapper, so that statements
// pass neither bun's formatting nor the application's query hooks.
func bare(c bun.IConn) conn {
	switch c := c.(type) {
	case bun.Tx:
		return c.Tx
	case *bun.Tx:
		return c.Tx
	case bun.Conn:
		return c.Conn
	case *bun.Conn:
		return c.Conn
	case *bun.DB:
		return c.DB
	}
	return c
}

const savepoint = "styx_key"

// guarded runs f inside a savepoint when c is in a transaction, so that an
// error of f leaves the caller's transaction usable.
func guarded(ctx context.Context, c conn, f func() error) error {
	_, err := c.ExecContext(ctx, "SAVEPOINT "+savepoint)
	switch {
	case sqlState(err) == "25P01": // no transaction: each statement stands alone
		return f()
	case err != nil:
		return err
	}
	err = f()
	end := "RELEASE SAVEPOINT " + savepoint
	if err != nil {
		ctx = context.WithoutCancel(ctx)
		end = "ROLLBACK TO SAVEPOINT " + savepoint
	}
	if _, failed := c.ExecContext(ctx, end); failed != nil && err == nil {
		err = failed
	}
	return err
}
