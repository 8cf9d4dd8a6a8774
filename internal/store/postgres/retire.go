package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

const (
	// retireLock is how long retention waits for a lock on an old partition:
	// whoever reads all of the archive waits behind it.
	retireLock = 200 * time.Millisecond
	// retireWait is how long a detach waits for those who were using the
	// archive already, with no lock in anybody's way. It is not begun while
	// a transaction uses the archive that is older than retireBusy.
	retireWait, retireBusy = 5 * time.Second, time.Second
)

// retire drops the oldest partition whose day has been over for longer than
// keep. First it empties it, which gives its space back at once, then takes it
// out of the archive without a lock that a settle or a reader of other days
// would wait for, then drops it. Each step may be the last one for now, since
// it needs nobody to be in the way; the next call goes on from there, after a
// crash too.
func (s *Store) retire(ctx context.Context, keep time.Duration) (dropped int, more bool, err error) {
	if dropped, err = s.dropDetached(ctx, keep); err != nil {
		return dropped, false, err
	}
	name, pending, err := s.oldest(ctx, keep)
	if err != nil || name == "" {
		return dropped, false, err
	}
	if !pending {
		err = s.empty(ctx, name)
		if err == nil {
			err = s.detach(ctx, name)
		}
	} else {
		err = s.finalize(ctx, name)
	}
	if errors.Is(err, errInTheWay) {
		return dropped, false, nil
	}
	if err != nil {
		return dropped, false, err
	}
	n, err := s.dropDetached(ctx, keep)
	dropped += n
	if err != nil || n == 0 {
		return dropped, false, err
	}
	name, _, err = s.oldest(ctx, keep)
	return dropped, name != "", err
}

// tooOld is the condition on a partition's name that its last moment is longer
// ago than $1 milliseconds. The partitions which are made in advance begin
// with yesterday's, so that one always stays.
const tooOld = `CASE WHEN c.relname ~ '^archive_[0-9]{8}$' THEN
	(to_date(right(c.relname, 8), 'YYYYMMDD') + 1)::timestamp AT TIME ZONE 'UTC'
	<= clock_timestamp() - greatest($1::bigint * interval '1 ms', interval '24 hours') END`

// oldest returns the partition to retire next: one whose detach was begun,
// since there can be one such only, else the oldest that is too old.
func (s *Store) oldest(ctx context.Context, keep time.Duration) (name string, pending bool, err error) {
	err = s.sql.QueryRowContext(ctx, `SELECT c.relname, i.inhdetachpending
	  FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid
	 WHERE i.inhparent = $2::text::regclass AND (i.inhdetachpending OR `+tooOld+`)
	 ORDER BY i.inhdetachpending DESC, c.relname LIMIT 1`, keep.Milliseconds(), s.prefix+"archive").Scan(&name, &pending)
	if errors.Is(err, sql.ErrNoRows) {
		return "", false, nil
	}
	return name, pending, err
}

// errInTheWay reports that somebody uses the partition for now, or has retired
// it meanwhile.
var errInTheWay = errors.New("partition is in use")

// inTheWay tells such errors from others.
func inTheWay(err error) error {
	switch sqlState(err) {
	case "55P03", "40P01", // lock not available, deadlock
		"57014",          // cancelled by a timeout
		"55000", "42P01": // a detach is pending already, no such partition
		return fmt.Errorf("%w: %w", errInTheWay, err)
	}
	return err
}

// empty truncates a partition. Its lock is for the one table only; readers of
// the whole archive wait for it, for at most retireLock.
func (s *Store) empty(ctx context.Context, name string) error {
	return s.briefly(ctx, func(tx *sql.Tx) error {
		empty, err := s.isEmpty(ctx, tx, name)
		if err != nil || empty {
			return err
		}
		_, err = tx.ExecContext(ctx, s.text(`TRUNCATE {{s}}`+quoteIdent(name)))
		return err
	})
}

func (s *Store) isEmpty(ctx context.Context, tx *sql.Tx, name string) (empty bool, err error) {
	err = tx.QueryRowContext(ctx, `SELECT coalesce(pg_catalog.pg_relation_size($1::text::regclass) = 0, false)`, s.prefix+quoteIdent(name)).Scan(&empty)
	return empty, err
}

// detach takes a partition out of the archive. The statement commits halfway
// and waits then, without a lock in anybody's way, for the transactions that
// use the archive; given up there, it leaves the detach pending, for finalize.
// It cannot run inside a transaction, where alone a timeout could be set, so
// it is ended by its context.
func (s *Store) detach(ctx context.Context, name string) error {
	var busy bool
	err := s.sql.QueryRowContext(ctx, `SELECT EXISTS (
	SELECT FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
	 WHERE l.locktype = 'relation' AND l.relation = $1::text::regclass
	   AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
	   AND a.xact_start < clock_timestamp() - $2::bigint * interval '1 ms')`,
		s.prefix+"archive", retireBusy.Milliseconds()).Scan(&busy)
	if err != nil {
		return err
	}
	if busy {
		return errInTheWay
	}
	bounded, cancel := context.WithTimeout(ctx, retireWait)
	defer cancel()
	_, err = s.sql.ExecContext(bounded, s.text(`ALTER TABLE {{s}}archive DETACH PARTITION {{s}}`+quoteIdent(name)+` CONCURRENTLY`))
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		return errInTheWay
	}
	return inTheWay(err)
}

// finalize completes a detach that was given up or whose process has died. It
// waits for older snapshots, which may still see the partition, for at most
// retireLock at a time.
func (s *Store) finalize(ctx context.Context, name string) error {
	return s.briefly(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, s.text(`ALTER TABLE {{s}}archive DETACH PARTITION {{s}}`+quoteIdent(name)+` FINALIZE`))
		return err
	})
}

// dropDetached drops the old tables that were emptied and detached. One with
// rows is not ours: somebody has put it aside.
func (s *Store) dropDetached(ctx context.Context, keep time.Duration) (dropped int, err error) {
	rows, err := s.sql.QueryContext(ctx, `SELECT c.relname FROM pg_catalog.pg_class c
	 WHERE c.relnamespace = $2::text::regnamespace AND c.relkind = 'r' AND NOT c.relispartition
	   AND `+tooOld, keep.Milliseconds(), quoteIdent(s.schema))
	if err != nil {
		return 0, err
	}
	names, err := texts(rows)
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		var empty bool
		err := s.briefly(ctx, func(tx *sql.Tx) (err error) {
			if empty, err = s.isEmpty(ctx, tx, name); err != nil || !empty {
				return err
			}
			_, err = tx.ExecContext(ctx, s.text(`DROP TABLE {{s}}`+quoteIdent(name)))
			return err
		})
		switch {
		case err == nil && empty:
			dropped++
		case err != nil && !errors.Is(err, errInTheWay):
			return dropped, err
		}
	}
	return dropped, nil
}

// briefly runs f in a transaction that waits for no lock longer than
// retireLock.
func (s *Store) briefly(ctx context.Context, f func(tx *sql.Tx) error) error {
	return inTheWay(s.readCommitted(ctx, func(tx *sql.Tx) error {
		if err := setLocal(ctx, tx, "lock_timeout", retireLock); err != nil {
			return err
		}
		return f(tx)
	}))
}

// texts reads a column of texts and closes rows.
func texts(rows *sql.Rows) ([]string, error) {
	defer func() { _ = rows.Close() }()
	var all []string
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		all = append(all, text)
	}
	return all, rows.Err()
}
