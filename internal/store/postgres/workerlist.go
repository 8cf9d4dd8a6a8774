package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/styxmq/styx/internal/store"
)

// living is the condition on a row w of workers that its beat would be
// accepted.
const living = `w.dead_at IS NULL AND w.beat_at > clock_timestamp() - w.lease_ms * interval '1 ms'`

// Workers reads the living ones, by the primary key.
func (s *Store) Workers(ctx context.Context, limit int) ([]store.WorkerState, error) {
	rows, err := s.sql.QueryContext(ctx, s.text(`SELECT w.id, w.name, w.host, w.version, w.pid, w.concurrency, w.lease_ms,
	w.started_at, w.beat_at, array_to_json(w.queues)::text, array_to_json(w.kinds)::text
	FROM {{s}}workers w WHERE `+living+` ORDER BY w.id DESC LIMIT `+strconv.Itoa(max(limit, 1))))
	if err != nil {
		return nil, fmt.Errorf("list workers: %w", mapError(err))
	}
	defer func() { _ = rows.Close() }()
	var all []store.WorkerState
	for rows.Next() {
		var (
			w             store.WorkerState
			lease         int64
			queues, kinds string
		)
		if err := rows.Scan(&w.ID, &w.Name, &w.Host, &w.Version, &w.PID, &w.Concurrency, &lease,
			&w.StartedAt, &w.BeatAt, &queues, &kinds); err != nil {
			return nil, fmt.Errorf("list workers: %w", mapError(err))
		}
		w.Lease = time.Duration(lease) * time.Millisecond
		w.StartedAt, w.BeatAt = w.StartedAt.UTC(), w.BeatAt.UTC()
		if err := json.Unmarshal([]byte(queues), &w.Queues); err != nil {
			return nil, fmt.Errorf("read queues of worker %d: %w", w.ID, err)
		}
		if err := json.Unmarshal([]byte(kinds), &w.Kinds); err != nil {
			return nil, fmt.Errorf("read kinds of worker %d: %w", w.ID, err)
		}
		all = append(all, w)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list workers: %w", mapError(err))
	}
	return all, nil
}
