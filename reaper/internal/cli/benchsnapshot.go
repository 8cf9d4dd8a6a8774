package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"
)

// errSnapshotLost is the failure of a run whose snapshot did not last.
var errSnapshotLost = errors.New("the snapshot was not held throughout")

const releaseTimeout = 5 * time.Second

// heldSnapshot is a transaction that keeps an old view of the database: the
// dead rows of the run cannot be removed while it lasts.
type heldSnapshot struct {
	db    *benchDatabase
	conn  bun.Conn
	queue string
	since time.Time
	id    string // of the server process and its snapshot
}

// hold opens the transaction, on a connection of its own, and reads in it, with
// which its view is fixed.
func (d *benchDatabase) hold(ctx context.Context, queue string) (*heldSnapshot, error) {
	conn, err := d.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("hold a snapshot: %w", err)
	}
	h := &heldSnapshot{db: d, conn: conn, queue: queue, since: time.Now()}
	begin := `BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY`
	if d.Engine == engineSQLite {
		begin = `BEGIN DEFERRED` // every reader of SQLite sees a snapshot
	}
	if _, err := conn.ExecContext(ctx, begin); err != nil {
		return nil, errors.Join(fmt.Errorf("hold a snapshot: %w", err), conn.Close())
	}
	if _, h.id, err = h.look(ctx); err != nil {
		h.release(ctx)
		return nil, fmt.Errorf("hold a snapshot: %w", err)
	}
	return h, nil
}

// look counts the messages of the run that the transaction sees, and
// identifies it.
func (h *heldSnapshot) look(ctx context.Context) (messages int, id string, err error) {
	err = h.conn.NewRaw(`SELECT count(*) FROM (SELECT 1 FROM ? WHERE queue = ? LIMIT 1) x`,
		h.db.table("all_messages"), h.queue).Scan(ctx, &messages)
	if err == nil && h.db.Engine == enginePostgres {
		err = h.conn.NewRaw(`SELECT pg_backend_pid()::text || ' ' || pg_current_snapshot()::text`).Scan(ctx, &id)
	}
	return messages, id, err
}

// prove returns for how many seconds the snapshot has been held. It is an
// error when the transaction is gone or sees what has happened since.
func (h *heldSnapshot) prove(ctx context.Context) (float64, error) {
	messages, id, err := h.look(ctx)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%w: %w", errSnapshotLost, err)
	case id != h.id:
		return 0, fmt.Errorf("%w: it was %q and is %q", errSnapshotLost, h.id, id)
	case messages > 0:
		return 0, fmt.Errorf("%w: it shows messages that are newer", errSnapshotLost)
	}
	return time.Since(h.since).Seconds(), nil
}

// release ends the transaction.
func (h *heldSnapshot) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	_, _ = h.conn.ExecContext(ctx, `ROLLBACK`)
	_ = h.conn.Close()
}
