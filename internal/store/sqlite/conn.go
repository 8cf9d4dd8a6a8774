package sqlite

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

// work is a run of statements in one transaction. Its context has no end,
// since SQLite answers an interrupted write by rolling the whole transaction
// back, the caller's too. Statements are prepared once; each ? is bound in
// its order, since numbered ones mean something else to bun, which may stand
// behind a caller's own connection.
type work struct {
	ctx      context.Context
	on       conn
	prepared map[string]*sql.Stmt
	now      int64
	// cache has statements for transactions of the store's own pool, nil if
	// there is none; wanted are those that it should have.
	cache  *cache
	wanted []string
}

func newWork(ctx context.Context, on conn) *work {
	return &work{ctx: context.WithoutCancel(ctx), on: on, prepared: map[string]*sql.Stmt{}}
}

// close gives the prepared statements back.
func (w *work) close() {
	for _, stmt := range w.prepared {
		_ = stmt.Close() // a statement of a transaction that ended is closed already
	}
}

func (w *work) prepare(query string) (*sql.Stmt, error) {
	if stmt := w.prepared[query]; stmt != nil {
		return stmt, nil
	}
	if tx, ok := w.on.(*sql.Tx); ok && w.cache != nil {
		kept, wanted := w.cache.get(query)
		if kept != nil {
			stmt := tx.StmtContext(w.ctx, kept)
			w.prepared[query] = stmt
			return stmt, nil
		}
		if wanted {
			w.wanted = append(w.wanted, query)
		}
	}
	on, ok := w.on.(interface {
		PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
	})
	if !ok {
		return nil, nil
	}
	stmt, err := on.PrepareContext(w.ctx, query)
	if err != nil {
		return nil, err
	}
	w.prepared[query] = stmt
	return stmt, nil
}

func (w *work) exec(query string, args ...any) (sql.Result, error) {
	stmt, err := w.prepare(query)
	if err != nil {
		return nil, err
	}
	if stmt == nil {
		return w.on.ExecContext(w.ctx, query, args...)
	}
	return stmt.ExecContext(w.ctx, args...)
}

// change is exec for those who need the number of rows.
func (w *work) change(query string, args ...any) (int, error) {
	result, err := w.exec(query, args...)
	if err != nil {
		return 0, err
	}
	n, err := result.RowsAffected()
	return int(n), err
}

func (w *work) query(query string, args ...any) (*sql.Rows, error) {
	stmt, err := w.prepare(query)
	if err != nil {
		return nil, err
	}
	if stmt == nil {
		return w.on.QueryContext(w.ctx, query, args...)
	}
	return stmt.QueryContext(w.ctx, args...)
}

// scan reads the first row, or returns sql.ErrNoRows.
func (w *work) scan(dest []any, query string, args ...any) error {
	rows, err := w.query(query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	if !rows.Next() {
		if err := rows.Err(); err != nil {
			return err
		}
		return sql.ErrNoRows
	}
	if err := rows.Scan(dest...); err != nil {
		return err
	}
	return rows.Close()
}

// ids reads a column of ids.
func (w *work) ids(query string, args ...any) ([]int64, error) {
	rows, err := w.query(query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var ids []int64
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

// clock returns the database's time at the beginning of the work, when the
// transaction had its lock.
func (w *work) clock() (int64, error) {
	if w.now == 0 {
		if err := w.scan([]any{&w.now}, "SELECT "+clock); err != nil {
			return 0, err
		}
	}
	return w.now, nil
}
