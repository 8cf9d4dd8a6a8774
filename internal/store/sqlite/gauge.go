package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/styxmq/styx/internal/store"
)

// gaugeFingerprints bounds the fingerprints that are walked.
const gaugeFingerprints = 2000

// TakeDuty writes the duty's row if it is free.
func (s *Store) TakeDuty(ctx context.Context, duty, holder string, d time.Duration) (taken bool, err error) {
	err = s.write(ctx, func(w *work) error {
		now, err := w.clock()
		if err != nil {
			return err
		}
		n, err := w.change(`INSERT INTO styx_duties (name, holder, until) VALUES (?, ?, ?)
		ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until
		 WHERE styx_duties.holder = excluded.holder OR styx_duties.until <= ?`, duty, holder, now+micros(d), now)
		taken = n > 0
		return err
	})
	if err != nil {
		return false, fmt.Errorf("take the duty %q: %w", duty, err)
	}
	return taken, nil
}

// LeaveDuty deletes the duty's row if it is the holder's.
func (s *Store) LeaveDuty(ctx context.Context, duty, holder string) error {
	err := s.write(ctx, func(w *work) error {
		_, err := w.exec("DELETE FROM styx_duties WHERE name = ? AND holder = ?", duty, holder)
		return err
	})
	if err != nil {
		return fmt.Errorf("leave the duty %q: %w", duty, err)
	}
	return nil
}

// Gauge reads one state of the database, each part bounded.
func (s *Store) Gauge(ctx context.Context) (g store.Gauges, err error) {
	err = s.read(ctx, func(w *work) error {
		all, err := stats(ctx, w)
		if err != nil {
			return err
		}
		b := &gaugeBoard{index: map[string]int{}}
		for _, q := range all {
			b.of(q.Queue).QueueStats = q
		}
		for _, part := range []func(context.Context, *work) error{b.workers, b.overdue, b.percentiles} {
			if err := part(ctx, w); err != nil {
				return err
			}
		}
		g = store.Gauges{Queues: b.all, OldestTransaction: -1}
		g.Fingerprints, err = firstSeen(w)
		return err
	})
	if err != nil {
		return store.Gauges{}, fmt.Errorf("compute gauges: %w", err)
	}
	return g, nil
}

// gaugeBoard collects the numbers of queues.
type gaugeBoard struct {
	all   []store.QueueGauges
	index map[string]int
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

func (b *gaugeBoard) workers(_ context.Context, w *work) error {
	now, err := w.clock()
	if err != nil {
		return err
	}
	return b.counts(w, func(q *store.QueueGauges, n int) { q.Workers = n }, `SELECT q.value, count(DISTINCT w.id)
	  FROM styx_workers w, json_each(w.queues) q
	 WHERE w.dead_at IS NULL AND w.beat_at + w.lease_us >= ? GROUP BY q.value`, now)
}

func (b *gaugeBoard) overdue(_ context.Context, w *work) error {
	now, err := w.clock()
	if err != nil {
		return err
	}
	return b.counts(w, func(q *store.QueueGauges, n int) { q.Overdue = n }, `SELECT queue, count(*) FROM (
		SELECT queue, deadline FROM styx_messages INDEXED BY styx_messages_held WHERE status = 1 LIMIT ?)
	 WHERE deadline <= ? GROUP BY queue`, statsHeld, now)
}

func (b *gaugeBoard) counts(w *work, set func(q *store.QueueGauges, n int), query string, args ...any) error {
	rows, err := w.query(query, args...)
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
		set(b.of(queue), n)
	}
	return rows.Err()
}

// percentiles looks at the oldest twentieth of each queue's waiting letters,
// and at the newest of them and the last due of what waits for a retry.
func (b *gaugeBoard) percentiles(ctx context.Context, w *work) error {
	now, err := w.clock()
	if err != nil {
		return err
	}
	for i := range b.all {
		q := &b.all[i]
		if i >= store.GaugeQueues || ctx.Err() != nil {
			return ctx.Err()
		}
		if q.Dead > 0 {
			var dead int64
			err := w.scan([]any{&dead}, `SELECT dead_at FROM styx_dead_letters INDEXED BY styx_dead_letters_queue
			WHERE resolved_at IS NULL AND queue = ? ORDER BY letter_id LIMIT 1 OFFSET ?`, q.Queue, store.P95(q.Dead))
			if err != nil && !none(err) {
				return err
			}
			if err == nil {
				q.DeadAgeP95 = max(0, time.Duration(now-dead)*time.Microsecond)
			}
		}
		if q.Dead+q.Ready+q.Scheduled == 0 {
			continue
		}
		attempts, err := w.ids(`SELECT n FROM (
			SELECT * FROM (SELECT retry_count AS n FROM styx_dead_letters INDEXED BY styx_dead_letters_queue
			 WHERE resolved_at IS NULL AND queue = ? ORDER BY letter_id DESC LIMIT ?)
			UNION ALL
			SELECT * FROM (SELECT retry_count FROM styx_messages INDEXED BY styx_messages_due
			 WHERE status = 0 AND losses = 0 AND due_at IS NOT NULL AND queue = ? ORDER BY due_at DESC LIMIT ?)
		) WHERE n > 0`, q.Queue, store.GaugeSample, q.Queue, store.GaugeSample)
		if err != nil {
			return err
		}
		if len(attempts) > 0 {
			slices.Sort(attempts)
			slices.Reverse(attempts)
			q.AttemptsP95 = int(attempts[store.P95(len(attempts))])
		}
	}
	return nil
}

// firstSeen walks the fingerprints of waiting letters, one descent of their
// index for each, and takes those that came last.
func firstSeen(w *work) ([]store.FirstSeen, error) {
	const from = "styx_dead_letters d INDEXED BY styx_dead_letters_fingerprint WHERE d.resolved_at IS NULL"
	rows, err := w.query(`WITH RECURSIVE f (fingerprint) AS (
		SELECT (SELECT min(d.fingerprint) FROM `+from+` AND d.fingerprint >= '')
		UNION ALL
		SELECT (SELECT min(d.fingerprint) FROM `+from+` AND d.fingerprint > f.fingerprint) FROM f
		 WHERE f.fingerprint IS NOT NULL LIMIT ?
	), newest (letter_id) AS (
		SELECT (SELECT min(d.letter_id) FROM `+from+` AND d.fingerprint = f.fingerprint) FROM f
		 WHERE f.fingerprint IS NOT NULL ORDER BY 1 DESC LIMIT ?
	)
	SELECT d.queue, d.kind, coalesce(d.error_class, ''), d.fingerprint, d.dead_at
	  FROM newest n JOIN styx_dead_letters d ON d.letter_id = n.letter_id ORDER BY d.dead_at DESC, d.letter_id DESC`,
		gaugeFingerprints, store.GaugeFingerprints)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var all []store.FirstSeen
	for rows.Next() {
		var f store.FirstSeen
		var at sql.NullInt64
		if err := rows.Scan(&f.Queue, &f.Kind, &f.ErrorClass, &f.Fingerprint, &at); err != nil {
			return nil, err
		}
		f.FirstSeen = time.UnixMicro(at.Int64).UTC()
		all = append(all, f)
	}
	return all, rows.Err()
}
