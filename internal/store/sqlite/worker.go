package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// Register makes an incarnation of a worker.
func (s *Store) Register(ctx context.Context, info store.WorkerInfo) (id int64, err error) {
	err = s.write(ctx, func(w *work) error {
		now, err := w.clock()
		if err != nil {
			return err
		}
		result, err := w.exec(`INSERT INTO styx_workers
	(started_at, beat_at, lease_us, pid, concurrency, name, host, version, queues, kinds) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			now, now, info.Lease.Microseconds(), info.PID, info.Concurrency, info.Name, info.Host, info.Version,
			jsonTexts(info.Queues), jsonTexts(info.Kinds))
		if err != nil {
			return err
		}
		id, err = result.LastInsertId()
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("register worker: %w", err)
	}
	return id, nil
}

// Unregister marks the incarnation dead; the reaper takes what is left.
func (s *Store) Unregister(ctx context.Context, workerID int64) error {
	err := s.write(ctx, func(w *work) error {
		_, err := w.exec("UPDATE styx_workers SET dead_at = "+clock+" WHERE id = ? AND dead_at IS NULL", workerID)
		return err
	})
	if err != nil {
		return fmt.Errorf("unregister worker %d: %w", workerID, err)
	}
	return nil
}

// Extend moves the deadline of a held message, found by its primary key.
func (s *Store) Extend(ctx context.Context, workerID, id, token int64, d time.Duration) (deadline time.Time, err error) {
	var changed int
	err = s.write(ctx, func(w *work) error {
		now, err := w.clock()
		if err != nil {
			return err
		}
		at := now + micros(max(0, d))
		deadline = time.UnixMicro(at).UTC()
		changed, err = w.change(`UPDATE styx_messages SET deadline = ?
		WHERE id = ? AND lease_token = ? AND worker_id = ? AND status = 1`, at, id, token, workerID)
		return err
	})
	switch {
	case err != nil:
		return time.Time{}, fmt.Errorf("extend message %d: %w", id, err)
	case changed == 0:
		return time.Time{}, message.ErrLeaseLost
	}
	return deadline, nil
}

// Lost looks each message up by its primary key.
func (s *Store) Lost(ctx context.Context, workerID int64, held []store.Lease) ([]store.Lease, error) {
	if len(held) == 0 {
		return nil, nil
	}
	var pairs strings.Builder
	for _, h := range held {
		fmt.Fprintf(&pairs, ",[%d,%d]", h.ID, h.Token)
	}
	rows, err := s.sql.QueryContext(ctx, `SELECT h.id, h.token
	  FROM (SELECT value ->> 0 AS id, value ->> 1 AS token FROM json_each(?)) h
	 WHERE NOT EXISTS (SELECT 1 FROM styx_messages m
	        WHERE m.id = h.id AND m.lease_token = h.token AND m.worker_id = ? AND m.status = 1)`,
		"["+pairs.String()[1:]+"]", workerID)
	if err != nil {
		return nil, fmt.Errorf("look for lost messages: %w", s.mapError(ctx, err))
	}
	lost, err := readLeases(rows)
	if err != nil {
		return nil, fmt.Errorf("look for lost messages: %w", s.mapError(ctx, err))
	}
	return lost, nil
}

func readLeases(rows *sql.Rows) ([]store.Lease, error) {
	defer func() { _ = rows.Close() }()
	var all []store.Lease
	for rows.Next() {
		var l store.Lease
		if err := rows.Scan(&l.ID, &l.Token); err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	return all, rows.Err()
}
