//go:build unix

package torture

import (
	"context"
	"database/sql"
)

// heldSnapshot keeps a reader's transaction open, so that no dead row can be
// removed meanwhile.
type heldSnapshot struct{}

func (heldSnapshot) Name() string     { return "held-snapshot" }
func (heldSnapshot) On(e Engine) bool { return e == Postgres }
func (heldSnapshot) Inflict(ctx context.Context, f *Field) error {
	ctx, cancel := context.WithTimeout(ctx, 2*f.Length)
	defer cancel()
	tx, err := f.DB.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	if err != nil {
		return nil //nolint:nilerr // another fault is in the way
	}
	defer func() { _ = tx.Rollback() }() // it may be gone, with its connection
	_, err = tx.ExecContext(ctx, "SET LOCAL idle_in_transaction_session_timeout = 0")
	if err == nil {
		var n int
		err = tx.QueryRowContext(ctx, "SELECT count(*) FROM styx.messages").Scan(&n)
	}
	if err != nil {
		return nil //nolint:nilerr // as above
	}
	<-ctx.Done()
	return nil
}
