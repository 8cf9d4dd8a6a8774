package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

const (
	// A partition of the archive holds one UTC day. Those from
	// partitionsBehind days ago to partitionsAhead days from now are made
	// in advance; there is no default partition.
	partitionsBehind, partitionsAhead = 1, 8
	// partitionLock is how long making one waits for a lock. None of the
	// locks stands in the way of readers or settles.
	partitionLock = 2 * time.Second
)

// day is the midnight that a partition begins with.
type day struct{ time.Time }

func (d day) table() string { return "archive_" + d.Format("20060102") }

// from and to are the bounds, told with their zone so that the session's
// does not matter.
func (d day) from() string { return d.Format("2006-01-02 00:00:00+00") }
func (d day) to() string   { return day{d.AddDate(0, 0, 1)}.from() }

// partitions is what the catalog says about the archive's children.
type partitions struct {
	today    day
	attached map[string]bool // by table name; true is a pending detach
}

func (s *Store) partitions(ctx context.Context, on conn) (partitions, error) {
	p := partitions{attached: map[string]bool{}}
	rows, err := on.QueryContext(ctx, s.text(`SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD'), c.relname, i.inhdetachpending
	FROM (SELECT $1::text::regclass::oid AS parent) AS a
	LEFT JOIN pg_catalog.pg_inherits i ON i.inhparent = a.parent
	LEFT JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid`), s.prefix+"archive")
	if err != nil {
		return p, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var (
			today   string
			name    sql.NullString
			pending sql.NullBool
		)
		if err := rows.Scan(&today, &name, &pending); err != nil {
			return p, err
		}
		t, err := time.Parse(time.DateOnly, today)
		if err != nil {
			return p, err
		}
		p.today = day{t}
		if name.Valid {
			p.attached[name.String] = pending.Bool
		}
	}
	return p, rows.Err()
}

// missing lists the days around today that have no partition.
func (p partitions) missing() []day {
	var days []day
	for i := -partitionsBehind; i <= partitionsAhead; i++ {
		d := day{p.today.AddDate(0, 0, i)}
		if _, ok := p.attached[d.table()]; !ok {
			days = append(days, d)
		}
	}
	return days
}

// Prepare makes the partitions of the archive for the days around today, by
// the database's clock in UTC. It reads the catalog and is done when none is
// missing. Readers and settles never wait for it.
func (s *Store) Prepare(ctx context.Context) error {
	p, err := s.partitions(ctx, s.sql)
	if err != nil {
		return fmt.Errorf("look for archive partitions: %w", mapError(err))
	}
	if len(p.missing()) == 0 {
		return nil
	}
	return s.ensurePartition(ctx)
}

// ensurePartition makes what Prepare would, without looking first: for a
// settle that found no partition for its row (SQLSTATE 23514).
func (s *Store) ensurePartition(ctx context.Context) error {
	err := s.readCommitted(ctx, func(tx *sql.Tx) error { return s.addPartitions(ctx, tx) })
	if sqlState(err) == stateForbidden {
		return fmt.Errorf("make archive partitions: this role may not, let an owner run the reaper or the migration every week: %w", err)
	}
	if err != nil {
		return fmt.Errorf("make archive partitions: %w", mapError(err))
	}
	return nil
}

// addPartitions makes the missing partitions within tx. Locks: an advisory one
// against others who do the same, ACCESS SHARE and then SHARE UPDATE EXCLUSIVE
// on the archive. A table is created empty and then attached, since CREATE
// TABLE … PARTITION OF would lock out readers; attaching it also makes its
// indexes.
func (s *Store) addPartitions(ctx context.Context, tx *sql.Tx) error {
	p, err := s.partitions(ctx, tx)
	if err != nil || len(p.missing()) == 0 {
		return err
	}
	if err := setLocal(ctx, tx, "lock_timeout", partitionLock); err != nil {
		return err
	}
	if err := s.lock(ctx, tx, "partitions"); err != nil {
		return err
	}
	if p, err = s.partitions(ctx, tx); err != nil {
		return err
	}
	for _, d := range p.missing() {
		_, err := tx.ExecContext(ctx, s.text(`CREATE TABLE IF NOT EXISTS {{s}}`+d.table()+` (LIKE {{s}}archive
	INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE INCLUDING COMPRESSION)`))
		if err != nil {
			return fmt.Errorf("create %s: %w", d.table(), err)
		}
		_, err = tx.ExecContext(ctx, s.text(`ALTER TABLE {{s}}archive ATTACH PARTITION {{s}}`+d.table()+
			` FOR VALUES FROM ('`+d.from()+`') TO ('`+d.to()+`')`))
		if err != nil {
			return fmt.Errorf("attach %s: %w", d.table(), err)
		}
	}
	return nil
}

// setLocal gives a setting of the kind of lock_timeout a value for the rest of
// the transaction.
func setLocal(ctx context.Context, tx *sql.Tx, name string, d time.Duration) error {
	_, err := tx.ExecContext(ctx, `SELECT set_config($1, $2, true)`, name, fmt.Sprintf("%dms", d.Milliseconds()))
	return err
}
