package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"time"
)

// exclusive is write for a database that may be empty.
func (s *Store) exclusive(ctx context.Context, f func(w *work) error) error {
	if err := s.common.lock.acquire(ctx, false); err != nil {
		return err
	}
	defer s.common.lock.release()
	return s.session(ctx, "BEGIN IMMEDIATE", f)
}

// read runs f in a transaction that sees one state of the database.
func (s *Store) read(ctx context.Context, f func(w *work) error) error {
	return s.session(ctx, "BEGIN", f)
}

// session runs f on a connection between begin and COMMIT, or ROLLBACK.
// Errors are mapped.
func (s *Store) session(ctx context.Context, begin string, f func(w *work) error) error {
	c, err := s.sql.Conn(ctx)
	if err != nil {
		return s.mapError(ctx, err)
	}
	defer func() { _ = c.Close() }() // a connection that broke has said so
	err = retry(ctx, func() error {
		_, err := c.ExecContext(ctx, begin)
		return err
	})
	if err != nil {
		return mapError(ctx, c, err)
	}
	w := newWork(ctx, c)
	done := false
	defer func() {
		w.close()
		if !done {
			rollback(w.ctx, c)
		}
	}()
	if err := f(w); err != nil {
		return mapError(ctx, c, err)
	}
	if _, err := c.ExecContext(w.ctx, "COMMIT"); err != nil {
		return mapError(ctx, c, err)
	}
	done = true
	return nil
}

// rollback ends a transaction; a connection where that fails is thrown away.
func rollback(ctx context.Context, c *sql.Conn) {
	if _, err := c.ExecContext(ctx, "ROLLBACK"); err != nil && !ended(ctx, c) {
		_ = c.Raw(func(any) error { return driver.ErrBadConn })
	}
}

// ended reports that no transaction is open: one can be begun.
func ended(ctx context.Context, c conn) bool {
	if _, err := c.ExecContext(ctx, "BEGIN"); err != nil {
		return false
	}
	_, err := c.ExecContext(ctx, "ROLLBACK")
	return err == nil
}

// retry calls f again while another connection has the lock, for as long as
// patience and ctx permit. Most pools wait by themselves in f.
func retry(ctx context.Context, f func() error) error {
	for began := time.Now(); ; {
		err := f()
		if codeOf(err) != codeBusy || time.Since(began) >= patience {
			return err
		}
		timer := time.NewTimer(retryEvery)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}
