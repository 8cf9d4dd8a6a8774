package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/styxmq/styx/internal/store"
)

// defaultBatch is the number of rows of a step when nothing else is said.
const defaultBatch = 1000

// Retain takes one step at each kind of thing that is too old: one partition
// of the archive, which goes as a whole when its day is over for longer than
// the retention (yesterday's never does), and up to r.Batch letters, keys and
// attempts. What is locked or in use is left for the next call, and does not
// count as more. An error at one kind does not keep the others from their
// step.
func (s *Store) Retain(ctx context.Context, r store.Retention) (done store.Retained, more bool, err error) {
	if r.Batch <= 0 {
		r.Batch = defaultBatch
	}
	var errs []error
	step := func(what string, f func() (n int, more bool, err error)) (n int) {
		n, again, err := f()
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", what, mapError(err)))
		}
		more = more || again && err == nil
		return n
	}
	if r.Archive > 0 {
		done.Partitions = step("retire archive partitions", func() (int, bool, error) { return s.retire(ctx, r.Archive) })
		done.Attempts = step("delete old attempts", func() (int, bool, error) { return s.forgetAttempts(ctx, r) })
	}
	if r.Resolved > 0 {
		done.Letters += step("delete resolved letters", func() (int, bool, error) { return s.retainLetters(ctx, r.Resolved, r.Batch, true) })
	}
	if r.Dead > 0 {
		done.Letters += step("delete dead letters", func() (int, bool, error) { return s.retainLetters(ctx, r.Dead, r.Batch, false) })
	}
	done.Keys = step("delete expired keys", func() (int, bool, error) { return s.forgetKeys(ctx, r.Batch) })
	return done, more, errors.Join(errs...)
}

// forgetKeys deletes keys whose window is over. Index: keys_expiry. A locked
// row is being used again.
func (s *Store) forgetKeys(ctx context.Context, batch int) (int, bool, error) {
	gone, err := s.ids(ctx, s.sql, `DELETE FROM {{s}}keys k USING (
		SELECT o.queue, o.key FROM {{s}}keys o WHERE o.expires_at <= now() AND o.expires_at < 'infinity'
		 ORDER BY o.expires_at LIMIT $1 FOR UPDATE SKIP LOCKED) o
	 WHERE k.queue = o.queue AND k.key = o.key RETURNING k.message_id`, batch)
	return len(gone), len(gone) == batch, err
}

// retainLetters deletes a batch of old letters; that letters went which still waited
// is written to the audit log.
func (s *Store) retainLetters(ctx context.Context, keep time.Duration, batch int, resolved bool) (n int, more bool, err error) {
	column, state := "d.dead_at", "d.resolved_at IS NULL"
	if resolved {
		column, state = "d.resolved_at", "d.resolved_at IS NOT NULL"
	}
	c := conditions{terms: []string{state}}
	c.olderThan(column, keep)
	err = s.calm(ctx, func(tx *sql.Tx) (err error) {
		if n, err = s.deleteLetters(ctx, tx, &c, column, batch); err != nil || n == 0 || resolved {
			return err
		}
		return s.audit(ctx, tx, "purge", n, 0, "", store.Actor{Name: "retention", Reason: "older than " + keep.String()})
	})
	if err != nil {
		return 0, false, err
	}
	return n, n == batch, nil
}

// forgetAttempts deletes old attempts of messages that are nowhere any more.
// It looks at a batch of rows in the order of attempts_finished and remembers
// where it was, since those of dead letters stay; at the end it begins anew.
func (s *Store) forgetAttempts(ctx context.Context, r store.Retention) (n int, more bool, err error) {
	from, fromID := s.oldAttempts.get()
	var seen int
	err = s.calm(ctx, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, s.text(`WITH old AS MATERIALIZED (
	SELECT a.id, a.message_id, a.finished_at FROM {{s}}attempts a
	 WHERE a.finished_at < now() - $1::bigint * interval '1 ms' AND (a.finished_at, a.id) > (timestamptz 'epoch' + $2::bigint * interval '1 microsecond', $3::bigint)
	 ORDER BY a.finished_at, a.id LIMIT $4::bigint
), stray AS (
	SELECT o.id FROM old o
	 WHERE (SELECT m.id FROM {{s}}messages m WHERE m.id = o.message_id LIMIT 1) IS NULL
	   AND (SELECT d.letter_id FROM {{s}}dead_letters d WHERE d.message_id = o.message_id LIMIT 1) IS NULL
	   AND (SELECT c.id FROM {{s}}archive c WHERE c.id = o.message_id LIMIT 1) IS NULL
), gone AS (
	DELETE FROM {{s}}attempts a WHERE a.id = ANY (ARRAY(SELECT id FROM stray)) RETURNING a.id
)
SELECT (SELECT count(*) FROM gone), (SELECT count(*) FROM old), 
       coalesce((extract(epoch FROM l.finished_at) * 1000000)::bigint, 0), coalesce(l.id, 0)
  FROM (SELECT) AS one LEFT JOIN LATERAL (SELECT o.finished_at, o.id FROM old o ORDER BY o.finished_at DESC, o.id DESC LIMIT 1) l ON true`),
			r.Archive.Milliseconds(), from, fromID, r.Batch).Scan(&n, &seen, &from, &fromID)
	})
	if err != nil {
		return 0, false, err
	}
	more = seen == r.Batch
	if !more {
		from, fromID = 0, 0
	}
	s.oldAttempts.set(from, fromID)
	return n, more, nil
}

// attemptPlace is where forgetAttempts goes on: after a time, in microseconds
// since 1970, and an id.
type attemptPlace struct {
	mu         sync.Mutex
	micros, id int64
}

func (p *attemptPlace) get() (micros, id int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.micros, p.id
}

func (p *attemptPlace) set(micros, id int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.micros, p.id = micros, id
}
