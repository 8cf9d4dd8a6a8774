package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/styxmq/styx/internal/store"
)

// alive is the condition on a row w of styx_workers that its beat would be
// accepted.
const alive = `w.dead_at IS NULL AND w.beat_at + w.lease_us >= ` + clock

// Workers reads the living ones, by the primary key.
func (s *Store) Workers(ctx context.Context, limit int) ([]store.WorkerState, error) {
	rows, err := s.sql.QueryContext(ctx, `SELECT w.id, w.name, w.host, w.version, w.pid, w.concurrency, w.lease_us, w.started_at,
	w.beat_at, w.queues, w.kinds FROM styx_workers w WHERE `+alive+` ORDER BY w.id DESC LIMIT ?`, max(limit, 1))
	if err != nil {
		return nil, fmt.Errorf("list workers: %w", s.mapError(ctx, err))
	}
	defer func() { _ = rows.Close() }()
	var all []store.WorkerState
	for rows.Next() {
		var (
			w             store.WorkerState
			lease         int64
			started, beat sql.NullInt64
			queues, kinds string
		)
		if err := rows.Scan(&w.ID, &w.Name, &w.Host, &w.Version, &w.PID, &w.Concurrency, &lease, &started, &beat,
			&queues, &kinds); err != nil {
			return nil, fmt.Errorf("list workers: %w", s.mapError(ctx, err))
		}
		w.Lease, w.StartedAt, w.BeatAt = durationOf(lease), timeOf(started), timeOf(beat)
		if err := json.Unmarshal([]byte(queues), &w.Queues); err != nil {
			return nil, fmt.Errorf("read queues of worker %d: %w", w.ID, err)
		}
		if err := json.Unmarshal([]byte(kinds), &w.Kinds); err != nil {
			return nil, fmt.Errorf("read kinds of worker %d: %w", w.ID, err)
		}
		all = append(all, w)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list workers: %w", s.mapError(ctx, err))
	}
	return all, nil
}
