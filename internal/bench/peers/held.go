package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

var errSnapshotLost = errors.New("the snapshot was not held throughout")

// heldSnapshot is a transaction that keeps dead rows from being removed.
type heldSnapshot struct {
	conn *pgx.Conn
	what string
}

const snapshotQuery = `SELECT pg_backend_pid()::text || ' ' || pg_current_snapshot()::text`

// hold opens a REPEATABLE READ transaction and takes its snapshot.
func (d *database) hold(ctx context.Context) (*heldSnapshot, error) {
	conn, err := pgx.Connect(ctx, d.url)
	if err != nil {
		return nil, fmt.Errorf("hold a snapshot: %w", err)
	}
	h := &heldSnapshot{conn: conn}
	_, err = conn.Exec(ctx, `BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY`)
	if err == nil {
		err = conn.QueryRow(ctx, snapshotQuery).Scan(&h.what)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("hold a snapshot: %w", err), conn.Close(ctx))
	}
	return h, nil
}

// release ends the transaction, and is an error if it had not lasted.
func (h *heldSnapshot) release(ctx context.Context) error {
	var what string
	err := h.conn.QueryRow(ctx, snapshotQuery).Scan(&what)
	if err != nil {
		err = fmt.Errorf("%w: %w", errSnapshotLost, err)
	} else if what != h.what {
		err = fmt.Errorf("%w: it was %q and is %q", errSnapshotLost, h.what, what)
	}
	return errors.Join(err, h.conn.Close(ctx))
}

// readers are analytical queries that overlap: at every moment some snapshot
// is nearly as old as one transaction lasts.
type readers struct {
	cancel context.CancelFunc
	group  sync.WaitGroup
	mu     sync.Mutex
	scans  int
	err    error
}

// readAll starts n readers, spread over the length of a transaction. Each
// scans, again and again, a second apart, in one transaction after another.
func (d *database) readAll(ctx context.Context, query string, n int, each time.Duration) *readers {
	ctx, cancel := context.WithCancel(ctx)
	r := &readers{cancel: cancel}
	for i := range n {
		r.group.Go(func() {
			if wait(ctx, time.Duration(i)*each/time.Duration(n)) != nil {
				return
			}
			for ctx.Err() == nil {
				if err := d.readFor(ctx, query, each, r); err != nil && ctx.Err() == nil {
					r.mu.Lock()
					r.err = errors.Join(r.err, fmt.Errorf("read: %w", err))
					r.mu.Unlock()
					return
				}
			}
		})
	}
	return r
}

func (d *database) readFor(ctx context.Context, query string, each time.Duration, r *readers) error {
	conn, err := pgx.Connect(ctx, d.url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return err
	}
	for end := time.Now().Add(each); time.Now().Before(end); {
		var count, size any
		if err := tx.QueryRow(ctx, query).Scan(&count, &size); err != nil {
			return err
		}
		r.mu.Lock()
		r.scans++
		r.mu.Unlock()
		if err := wait(ctx, min(time.Second, each/4)); err != nil {
			return err
		}
	}
	return tx.Commit(ctx)
}

// stop ends the readers and returns how many scans they made.
func (r *readers) stop() (int, error) {
	r.cancel()
	r.group.Wait()
	return r.scans, r.err
}
