package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/styxmq/styx/internal/store"
)

const (
	// defaultBatch is the number of rows of a step when nothing else is said.
	defaultBatch = 1000
	// walPages is how many pages of the write-ahead log are too many: 64 MiB
	// with the usual size of pages.
	walPages = 16384
	// walPatience is how long, in milliseconds, writers may have to wait for
	// the log to be cut back.
	walPatience = 100
)

// Retain takes one step at each kind of thing that is too old, each up to
// r.Batch rows in a transaction of its own. What is not too old is found out
// without the write lock.
func (s *Store) Retain(ctx context.Context, r store.Retention) (done store.Retained, more bool, err error) {
	if r.Batch <= 0 {
		r.Batch = defaultBatch
	}
	if r.Archive > 0 {
		full, err := s.step(ctx, "delete old archive", r.Batch, &done.Archived, "styx_archive WHERE finished_at <= "+clock+" - ?",
			[]any{r.Archive.Microseconds()}, func(w *work, now int64) (int, error) {
				ids, err := w.ids(`DELETE FROM styx_archive WHERE id IN (SELECT id FROM styx_archive WHERE finished_at <= ?
				ORDER BY finished_at LIMIT ?) RETURNING id`, now-r.Archive.Microseconds(), r.Batch)
				if err != nil {
					return 0, err
				}
				n, err := erase(w, ids, false)
				done.Attempts += n
				return len(ids), err
			})
		if err != nil {
			return done, more, err
		}
		more = more || full
	}
	for _, l := range []struct {
		keep         time.Duration
		column, what string
	}{{r.Resolved, "resolved_at", "resolved_at IS NOT NULL"}, {r.Dead, "dead_at", "resolved_at IS NULL"}} {
		if l.keep <= 0 {
			continue
		}
		full, err := s.step(ctx, "delete old dead letters", r.Batch, &done.Letters,
			"styx_dead_letters WHERE "+l.what+" AND "+l.column+" <= "+clock+" - ?", []any{l.keep.Microseconds()},
			func(w *work, now int64) (int, error) {
				var c conditions
				c.add(l.what)
				c.add(l.column+" <= ?", now-l.keep.Microseconds())
				n, attempts, err := deleteLetters(w, &c, l.column, r.Batch)
				done.Attempts += attempts
				if err != nil || n == 0 || l.column == "resolved_at" {
					return n, err
				}
				// These waited for somebody: that they went is written down.
				return n, audit(w, now, "purge", n, 0, "", store.Actor{Name: "retention", Reason: "older than " + l.keep.String()})
			})
		if err != nil {
			return done, more, err
		}
		more = more || full
	}
	full, err := s.step(ctx, "delete expired keys", r.Batch, &done.Keys, "styx_keys WHERE expires_at <= "+clock, nil,
		func(w *work, now int64) (int, error) {
			return w.change(`DELETE FROM styx_keys WHERE (queue, key) IN (SELECT queue, key FROM styx_keys
			WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)`, now, r.Batch)
		})
	return done, more || full, err
}

// step runs f in a transaction if there is a row of from, counts what it
// deleted, and reports whether that was a full batch.
func (s *Store) step(ctx context.Context, what string, batch int, count *int, from string, args []any, f func(w *work, now int64) (int, error)) (full bool, err error) {
	var found bool
	if err := s.row(ctx, []any{&found}, "SELECT EXISTS (SELECT 1 FROM "+from+")", args...); err != nil {
		return false, fmt.Errorf("%s: %w", what, s.mapError(ctx, err))
	}
	if !found {
		return false, nil
	}
	n := 0
	err = s.write(ctx, func(w *work) error {
		now, err := w.clock()
		if err == nil {
			n, err = f(w, now)
		}
		return err
	})
	if err != nil {
		return false, fmt.Errorf("%s: %w", what, err)
	}
	*count += n
	return n >= batch, nil
}

// Prepare cuts the write-ahead log back when it has grown, which a reader
// that stays for long keeps SQLite from doing by itself. It tries for a short
// time only, since writers wait meanwhile; the next call tries again.
func (s *Store) Prepare(ctx context.Context) error {
	if err := s.common.lock.acquire(ctx, false); err != nil {
		return err
	}
	defer s.common.lock.release()
	c, err := s.sql.Conn(ctx)
	if err != nil {
		return fmt.Errorf("prepare the database: %w", s.mapError(ctx, err))
	}
	defer func() { _ = c.Close() }()
	var busy, pages, moved, timeout int
	if err := c.QueryRowContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)").Scan(&busy, &pages, &moved); err != nil {
		return fmt.Errorf("look at the write-ahead log: %w", s.mapError(ctx, err))
	}
	if pages < walPages {
		return nil
	}
	if err := c.QueryRowContext(ctx, "PRAGMA busy_timeout").Scan(&timeout); err != nil {
		return fmt.Errorf("prepare the database: %w", s.mapError(ctx, err))
	}
	ctx = context.WithoutCancel(ctx)
	if err := setTimeout(ctx, c, min(timeout, walPatience)); err != nil {
		return fmt.Errorf("prepare the database: %w", s.mapError(ctx, err))
	}
	err = c.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &pages, &moved)
	if failed := setTimeout(ctx, c, timeout); err == nil {
		err = failed
	}
	if err != nil && codeOf(err) != codeBusy {
		return fmt.Errorf("cut the write-ahead log back: %w", s.mapError(ctx, err))
	}
	return nil
}

// setTimeout sets how long a connection waits for locks, in milliseconds.
func setTimeout(ctx context.Context, c conn, millis int) error {
	_, err := c.ExecContext(ctx, fmt.Sprintf("PRAGMA busy_timeout = %d", millis))
	return err
}
