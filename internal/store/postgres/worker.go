package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// Register makes an incarnation of a worker.
func (s *Store) Register(ctx context.Context, w store.WorkerInfo) (int64, error) {
	var id int64
	err := s.sql.QueryRowContext(ctx, s.text(`INSERT INTO {{s}}workers
	(started_at, beat_at, lease_ms, pid, concurrency, name, host, version, queues, kinds)
	VALUES (clock_timestamp(), clock_timestamp(), $1, $2, $3, $4, $5, $6, $7::text[], $8::text[]) RETURNING id`),
		w.Lease.Milliseconds(), w.PID, w.Concurrency, w.Name, w.Host, w.Version,
		textArrayOf(w.Queues), textArrayOf(w.Kinds)).Scan(&id)
	if err != nil {
		return 0, fmt.Errorf("register worker: %w", mapError(err))
	}
	return id, nil
}

// Unregister marks the incarnation dead; the reaper takes what is left.
func (s *Store) Unregister(ctx context.Context, workerID int64) error {
	_, err := s.sql.ExecContext(ctx, s.text(`WITH quiet AS (DELETE FROM {{s}}listeners WHERE worker_id = $1)
	UPDATE {{s}}workers SET dead_at = clock_timestamp() WHERE id = $1 AND dead_at IS NULL`), workerID)
	return mapError(err)
}

// SetIdle adds or removes the worker's row in listeners, together with others
// that come at the same time.
func (s *Store) SetIdle(ctx context.Context, workerID int64, queue string, idle bool) error {
	if idle && workerID == store.RemoteWorker {
		// Nothing tells of its end, so it lapses; a repeat writes seldom.
		_, err := s.sql.ExecContext(ctx, s.text(`INSERT INTO {{s}}listeners AS l (queue, worker_id, lapses_at)
	VALUES ($1, $2, clock_timestamp() + interval '1 minute')
	ON CONFLICT (queue, worker_id) DO UPDATE SET lapses_at = excluded.lapses_at
	 WHERE l.lapses_at < clock_timestamp() + interval '30 s'`), queue, workerID)
		return mapError(err)
	}
	one := listener{workerID, queue, idle}
	_, err := s.idles.do(ctx, one, func() (struct{}, error) { return struct{}{}, s.setIdle(ctx, one) })
	return err
}

// listener says whether a worker wants to be woken for a queue.
type listener struct {
	worker int64
	queue  string
	idle   bool
}

type idles = flights[listener, struct{}]

func newIdles(s *Store) idles {
	return idles{
		most: 1,
		board: func(waiting []*passenger[listener, struct{}]) int {
			n := 1
			for n < len(waiting) && waiting[n].want.idle == waiting[0].want.idle {
				n++
			}
			return n
		},
		run: func(ctx context.Context, of []listener) ([]struct{}, error) {
			return make([]struct{}, len(of)), s.setIdle(ctx, of...)
		},
	}
}

func (s *Store) setIdle(ctx context.Context, of ...listener) error {
	statement := `DELETE FROM {{s}}listeners WHERE (queue, worker_id) IN (SELECT * FROM unnest($1::text[], $2::bigint[]))`
	if of[0].idle {
		statement = `INSERT INTO {{s}}listeners (queue, worker_id) SELECT * FROM unnest($1::text[], $2::bigint[]) ON CONFLICT DO NOTHING`
	}
	queues, workers := newTextArray(16*len(of), false), make([]int64, len(of))
	for i, l := range of {
		queues.add(l.queue)
		workers[i] = l.worker
	}
	_, err := s.sql.ExecContext(ctx, s.text(statement), queues.String(), intArray(workers))
	return mapError(err)
}

// Extend moves the deadline of a held message. Locks the row; found by its
// primary key. It changes no indexed column.
func (s *Store) Extend(ctx context.Context, workerID, id, token int64, d time.Duration) (time.Time, error) {
	var deadline time.Time
	err := s.sql.QueryRowContext(ctx, s.text(`UPDATE {{s}}messages
	SET deadline = clock_timestamp() + $4::bigint * interval '1 ms'
	WHERE id = $1 AND lease_token = $2 AND worker_id = $3 AND status = 1 RETURNING deadline`),
		id, token, workerID, d.Milliseconds()).Scan(&deadline)
	if errors.Is(err, sql.ErrNoRows) {
		return time.Time{}, message.ErrLeaseLost
	}
	return deadline.UTC(), mapError(err)
}

// Lost returns the leases that the worker does not hold any more. Locks
// nothing; each row is found by its primary key.
func (s *Store) Lost(ctx context.Context, workerID int64, held []store.Lease) ([]store.Lease, error) {
	if len(held) == 0 {
		return nil, nil
	}
	ids, tokens := make([]int64, len(held)), make([]int64, len(held))
	for i, h := range held {
		ids[i], tokens[i] = h.ID, h.Token
	}
	rows, err := s.sql.QueryContext(ctx, s.text(`SELECT h.id, h.token FROM unnest($1::bigint[], $2::bigint[]) AS h (id, token)
	WHERE (SELECT m.id FROM {{s}}messages m WHERE m.id = h.id AND m.lease_token = h.token AND m.worker_id = $3
	       AND m.status = 1 LIMIT 1) IS NULL`), intArray(ids), intArray(tokens), workerID)
	if err != nil {
		return nil, mapError(err)
	}
	defer func() { _ = rows.Close() }()
	var lost []store.Lease
	for rows.Next() {
		var l store.Lease
		if err := rows.Scan(&l.ID, &l.Token); err != nil {
			return nil, mapError(err)
		}
		lost = append(lost, l)
	}
	return lost, mapError(rows.Err())
}
