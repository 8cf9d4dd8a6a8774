package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/styxmq/styx/internal/store"
)

const (
	// gaugeClaims bounds the claims rows whose messages are looked up.
	gaugeClaims = 50
	// gaugeFingerprints bounds the fingerprints that are walked.
	gaugeFingerprints = 2000
)

// TakeDuty writes the duty's row if it is free. Locks: that row; found by its
// primary key.
func (s *Store) TakeDuty(ctx context.Context, duty, holder string, d time.Duration) (bool, error) {
	var taken bool
	err := s.sql.QueryRowContext(ctx, s.text(`INSERT INTO {{s}}duties AS d (name, holder, until)
	VALUES ($1, $2, clock_timestamp() + $3::bigint * interval '1 ms')
	ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until
	 WHERE d.holder = excluded.holder OR d.until <= clock_timestamp() RETURNING true`),
		duty, holder, d.Milliseconds()).Scan(&taken)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return false, fmt.Errorf("take the duty %q: %w", duty, mapError(err))
	}
	return taken, nil
}

// LeaveDuty deletes the duty's row if it is the holder's.
func (s *Store) LeaveDuty(ctx context.Context, duty, holder string) error {
	_, err := s.sql.ExecContext(ctx, s.text(`DELETE FROM {{s}}duties WHERE name = $1 AND holder = $2`), duty, holder)
	if err != nil {
		return fmt.Errorf("leave the duty %q: %w", duty, mapError(err))
	}
	return nil
}

// Gauge runs a handful of statements, each bounded.
func (s *Store) Gauge(ctx context.Context) (store.Gauges, error) {
	all, err := s.stats(ctx)
	if err != nil {
		return store.Gauges{}, fmt.Errorf("count queues: %w", mapError(err))
	}
	b := newGaugeBoard(all)
	var g store.Gauges
	err = s.calm(ctx, func(tx *sql.Tx) error {
		for _, part := range []func(context.Context, *sql.Tx, *gaugeBoard) error{s.gaugeWorkers, s.gaugeOverdue, s.gaugePercentiles} {
			if err := part(ctx, tx, b); err != nil {
				return err
			}
		}
		g.Fingerprints, err = s.gaugeFirstSeen(ctx, tx)
		if err != nil {
			return err
		}
		g.OldestTransaction, err = oldestTransaction(ctx, tx)
		return err
	})
	if err != nil {
		return store.Gauges{}, fmt.Errorf("compute gauges: %w", mapError(err))
	}
	g.Queues = b.all
	return g, nil
}

// gaugeBoard collects the numbers of queues.
type gaugeBoard struct {
	all   []store.QueueGauges
	index map[string]int
}

func newGaugeBoard(stats []store.QueueStats) *gaugeBoard {
	b := &gaugeBoard{index: make(map[string]int, len(stats))}
	for _, q := range stats {
		b.of(q.Queue).QueueStats = q
	}
	return b
}

// of returns the queue's row, until the next call.
func (b *gaugeBoard) of(queue string) *store.QueueGauges {
	i, ok := b.index[queue]
	if !ok {
		i = len(b.all)
		b.index[queue] = i
		b.all = append(b.all, store.QueueGauges{QueueStats: store.QueueStats{Queue: queue}})
	}
	return &b.all[i]
}

const gaugeWorkersText = `SELECT q.queue, count(*) FROM {{s}}workers w
	 CROSS JOIN LATERAL (SELECT DISTINCT u.queue FROM unnest(w.queues) AS u (queue)) q
	 WHERE w.dead_at IS NULL AND w.beat_at + w.lease_ms * interval '1 ms' >= clock_timestamp()
	 GROUP BY q.queue`

// gaugeWorkers counts live workers by queue. It reads all rows of workers,
// where those of the latest day stand.
func (s *Store) gaugeWorkers(ctx context.Context, tx *sql.Tx, b *gaugeBoard) error {
	return eachCount(ctx, tx, s.text(gaugeWorkersText), func(queue string, n int) { b.of(queue).Workers = n })
}

var gaugeOverdueText = `SELECT m.queue, count(*) FROM (
		SELECT c.worker_id, c.ids FROM {{s}}claims c WHERE c.deadline <= now() ORDER BY c.deadline LIMIT ` + strconv.Itoa(gaugeClaims) + `) c
	 CROSS JOIN LATERAL unnest(c.ids) AS u (id) CROSS JOIN LATERAL (
		SELECT m.queue FROM {{s}}messages m
		 WHERE m.id = u.id AND m.status = 1 AND m.worker_id = c.worker_id AND m.deadline <= now() LIMIT 1) m
	 GROUP BY m.queue`

// gaugeOverdue counts what the earliest claims rows whose deadline has passed
// still hold. Indexes: claims_deadline, then the messages' primary key.
func (s *Store) gaugeOverdue(ctx context.Context, tx *sql.Tx, b *gaugeBoard) error {
	return eachCount(ctx, tx, s.text(gaugeOverdueText), func(queue string, n int) { b.of(queue).Overdue = n })
}

var gaugePercentilesText = strings.NewReplacer(
	"{{first}}", strconv.Itoa(store.P95(store.StatsCap)+1), "{{sample}}", strconv.Itoa(store.GaugeSample),
).Replace(`SELECT g.queue, (extract(epoch FROM clock_timestamp() - d.dead_at) * 1000000)::bigint, a.p95
  FROM unnest($1::text[], $2::bigint[]) AS g (queue, rank)
  LEFT JOIN LATERAL (
       SELECT y.dead_at FROM (
              SELECT x.dead_at, row_number() OVER (ORDER BY x.letter_id) AS rank FROM (
                     SELECT d.dead_at, d.letter_id FROM {{s}}dead_letters d
                      WHERE d.resolved_at IS NULL AND d.queue BETWEEN g.queue AND g.queue ORDER BY d.queue, d.letter_id LIMIT {{first}}) x) y
        WHERE y.rank = g.rank) d ON true
 CROSS JOIN LATERAL (
       SELECT percentile_disc(0.95) WITHIN GROUP (ORDER BY x.n) AS p95 FROM (
              (SELECT d.retry_count AS n FROM {{s}}dead_letters d
                WHERE d.resolved_at IS NULL AND d.queue BETWEEN g.queue AND g.queue ORDER BY d.queue DESC, d.letter_id DESC LIMIT {{sample}})
              UNION ALL
              (SELECT m.retry_count FROM {{s}}messages m
                WHERE m.due_at IS NOT NULL AND m.losses = 0 AND m.queue = g.queue
                ORDER BY m.lane DESC, m.due_at DESC LIMIT {{sample}})) x
        WHERE x.n > 0) a`)

// gaugePercentiles looks at the oldest twentieth of each queue's waiting
// letters, and at the newest of them and the last due of what waits for a
// retry. Indexes: dead_letters_queue from either end, messages_due from its
// far end, where what was claimed is not in the way. BETWEEN stands for = as in
// statsText.
func (s *Store) gaugePercentiles(ctx context.Context, tx *sql.Tx, b *gaugeBoard) error {
	var queues []string
	var ranks []int64
	for i := range b.all {
		if q := &b.all[i]; len(queues) < store.GaugeQueues && (q.Dead > 0 || q.Scheduled > 0 || q.Ready > 0) {
			queues = append(queues, q.Queue)
			ranks = append(ranks, int64(store.P95(q.Dead))+1)
		}
	}
	if len(queues) == 0 {
		return nil
	}
	rows, err := tx.QueryContext(ctx, s.text(gaugePercentilesText), textArrayOf(queues), intArray(ranks))
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var queue string
		var age, attempts sql.NullInt64
		if err := rows.Scan(&queue, &age, &attempts); err != nil {
			return err
		}
		q := b.of(queue)
		q.DeadAgeP95, q.AttemptsP95 = max(0, time.Duration(age.Int64)*time.Microsecond), int(attempts.Int64)
	}
	return rows.Err()
}

var gaugeFirstSeenText = fmt.Sprintf(`WITH RECURSIVE f (fingerprint, letter_id) AS (
	(SELECT d.fingerprint, d.letter_id FROM {{s}}dead_letters d
	  WHERE d.resolved_at IS NULL AND d.fingerprint >= '' ORDER BY d.fingerprint, d.letter_id LIMIT 1)
	UNION ALL
	SELECT n.fingerprint, n.letter_id FROM f CROSS JOIN LATERAL (
		SELECT d.fingerprint, d.letter_id FROM {{s}}dead_letters d
		 WHERE d.resolved_at IS NULL AND d.fingerprint > f.fingerprint ORDER BY d.fingerprint, d.letter_id LIMIT 1) n
), newest AS (
	SELECT x.letter_id FROM (SELECT letter_id FROM f LIMIT %d) x ORDER BY x.letter_id DESC LIMIT %d
)
SELECT d.queue, d.kind, coalesce(d.error_class, ''), d.fingerprint, d.dead_at
  FROM newest n JOIN {{s}}dead_letters d ON d.letter_id = n.letter_id ORDER BY d.dead_at DESC, d.letter_id DESC`,
	gaugeFingerprints, store.GaugeFingerprints)

// gaugeFirstSeen walks the fingerprints of waiting letters, one descent of
// dead_letters_fingerprint for each, and takes those that came last.
func (s *Store) gaugeFirstSeen(ctx context.Context, tx *sql.Tx) ([]store.FirstSeen, error) {
	rows, err := tx.QueryContext(ctx, s.text(gaugeFirstSeenText))
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var all []store.FirstSeen
	for rows.Next() {
		var f store.FirstSeen
		if err := rows.Scan(&f.Queue, &f.Kind, &f.ErrorClass, &f.Fingerprint, &f.FirstSeen); err != nil {
			return nil, err
		}
		f.FirstSeen = f.FirstSeen.UTC()
		all = append(all, f)
	}
	return all, rows.Err()
}

// oldestTransaction sees those sessions whose details the role may see; of
// others every column is NULL.
func oldestTransaction(ctx context.Context, tx *sql.Tx) (time.Duration, error) {
	var age sql.NullInt64
	err := tx.QueryRowContext(ctx, `SELECT (extract(epoch FROM max(clock_timestamp() - a.xact_start)) * 1000000)::bigint
	  FROM pg_catalog.pg_stat_activity a
	 WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND a.backend_type = 'client backend'
	   AND (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL)`).Scan(&age)
	return max(0, time.Duration(age.Int64)*time.Microsecond), err
}

// eachCount reads rows of a queue and a number.
func eachCount(ctx context.Context, tx *sql.Tx, statement string, f func(queue string, n int)) error {
	rows, err := tx.QueryContext(ctx, statement)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var queue string
		var n int
		if err := rows.Scan(&queue, &n); err != nil {
			return err
		}
		f(queue, n)
	}
	return rows.Err()
}
