package sqlite

import (
	"container/list"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/styxmq/styx/client/message"
)

const (
	// patience is how long a writer waits for a transaction of another
	// process or of the application, if the connections do not wait longer
	// by themselves.
	patience = 10 * time.Second
	// retryEvery is how often it tries then.
	retryEvery = 2 * time.Millisecond
)

// queue is a lock that is handed on in the order of arrival.
type queue struct {
	mu      sync.Mutex
	held    bool
	waiting list.List // of chan struct{}
}

// acquire waits for the lock, in front of the others if it is urgent, or
// returns the error of ctx.
func (q *queue) acquire(ctx context.Context, urgent bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	q.mu.Lock()
	if !q.held {
		q.held = true
		q.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	var place *list.Element
	if urgent {
		place = q.waiting.PushFront(turn)
	} else {
		place = q.waiting.PushBack(turn)
	}
	q.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	select {
	case <-turn: // it came at the same moment
		q.mu.Unlock()
		q.release()
	default:
		q.waiting.Remove(place)
		q.mu.Unlock()
	}
	return ctx.Err()
}

// release hands the lock to the next in the queue.
func (q *queue) release() {
	q.mu.Lock()
	defer q.mu.Unlock()
	next := q.waiting.Front()
	if next == nil {
		q.held = false
		return
	}
	close(q.waiting.Remove(next).(chan struct{}))
}

// lockText takes SQLite's write lock and changes nothing. It comes before
// anything is read: a transaction that has read something older than the
// newest commit can never get the lock.
const lockText = "UPDATE styx_migrations SET version = version WHERE version < 0"

// write runs f in a transaction that has the write lock, and commits unless f
// returns an error. ctx counts until the lock is there. Errors are mapped.
func (s *Store) write(ctx context.Context, f func(w *work) error) error {
	return s.writeOn(ctx, s.sql, false, f)
}

// beginner is a pool or a connection.
type beginner interface {
	BeginTx(ctx context.Context, options *sql.TxOptions) (*sql.Tx, error)
}

func (s *Store) writeOn(ctx context.Context, on beginner, urgent bool, f func(w *work) error) error {
	wanted, err := s.transact(ctx, on, urgent, f)
	if err != nil {
		return s.mapError(ctx, err)
	}
	s.common.cache.keep(ctx, s.sql, wanted)
	return nil
}

// transact returns the statements that are worth keeping.
func (s *Store) transact(ctx context.Context, on beginner, urgent bool, f func(w *work) error) (wanted []string, err error) {
	if err := s.common.lock.acquire(ctx, urgent); err != nil {
		return nil, err
	}
	defer s.common.lock.release()
	tx, w, err := s.begin(ctx, on)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	if err := f(w); err != nil {
		return nil, err
	}
	return w.wanted, tx.Commit()
}

// begin begins a transaction with the write lock, for which it waits.
func (s *Store) begin(ctx context.Context, on beginner) (tx *sql.Tx, w *work, err error) {
	err = retry(ctx, func() (err error) {
		tx, w, err = s.tryBegin(ctx, on)
		return err
	})
	return tx, w, err
}

// tryBegin lets ctx end the wait for the lock, but not the transaction.
func (s *Store) tryBegin(ctx context.Context, on beginner) (*sql.Tx, *work, error) {
	waiting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	tx, err := on.BeginTx(waiting, nil)
	if err == nil {
		w := newWork(ctx, tx)
		w.cache = s.common.cache
		w.ctx = waiting
		_, err = w.exec(lockText)
		w.ctx = context.WithoutCancel(ctx)
		if stop() && err == nil {
			return tx, w, nil
		}
		_ = tx.Rollback()
	}
	stop()
	cancel()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return nil, nil, err
}

const savepoint = "styx_work"

// inside runs f on the caller's connection, all of it or nothing, and leaves
// the caller's transaction as it was when f returns an error. Outside of a
// transaction the savepoint is one. Errors are mapped.
func (s *Store) inside(ctx context.Context, on conn, f func(w *work) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w := newWork(ctx, on)
	defer func() { w.close() }()
	if tx, ok := on.(*sql.Tx); ok {
		if ended(w.ctx, tx) {
			return fmt.Errorf("%w: SQLite has rolled it back", message.ErrTxDone)
		}
		w.cache = s.common.cache
	}
	if _, err := on.ExecContext(w.ctx, "SAVEPOINT "+savepoint); err != nil {
		return mapError(ctx, on, err)
	}
	_, err := w.exec(lockText)
	if err != nil && w.cache != nil && codeOf(err) == 0 {
		// Not SQLite's word: the transaction is one of another pool.
		w.close()
		w = newWork(ctx, on)
		_, err = w.exec(lockText)
	}
	if err == nil {
		err = f(w)
	}
	if err == nil {
		_, err = on.ExecContext(w.ctx, "RELEASE "+savepoint)
	}
	if err == nil {
		if len(w.wanted) > 0 && s.spare() {
			s.common.cache.keep(ctx, s.sql, w.wanted)
		}
		return nil
	}
	err = mapError(ctx, on, err)
	for _, end := range []string{"ROLLBACK TO ", "RELEASE "} {
		if _, failed := on.ExecContext(w.ctx, end+savepoint); failed != nil {
			return errors.Join(err, failed)
		}
	}
	return err
}

// within runs f in a transaction of its own when c is nil or a pool, and
// otherwise on the caller's connection; own tells which.
func (s *Store) within(ctx context.Context, c conn, f func(w *work) error) (own bool, err error) {
	switch db, ok := c.(*sql.DB); {
	case c == nil || ok && db == s.sql:
		return true, s.write(ctx, f)
	case ok:
		other := &Store{sql: db, common: commonOf(db)}
		return true, other.write(ctx, f)
	}
	return false, s.inside(ctx, c, f)
}
