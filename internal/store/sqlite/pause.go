package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/styxmq/styx/internal/store"
)

// inForce is the condition on a row of styx_queues that it is paused now.
const inForce = `paused_at IS NOT NULL AND (paused_until IS NULL OR paused_until > ` + clock + `)`

// paused reports whether the queue is paused, as of a second ago at most.
func (s *Store) paused(ctx context.Context, queue string) (bool, error) {
	return s.pauses.Paused(ctx, queue, func(ctx context.Context) ([]string, error) {
		all, err := s.inForce(ctx)
		if err != nil {
			return nil, s.mapError(ctx, err)
		}
		queues := make([]string, len(all))
		for i := range all {
			queues[i] = all[i].Queue
		}
		return queues, nil
	})
}

// Pause writes the queue's row and an audit row.
func (s *Store) Pause(ctx context.Context, r store.PauseRequest, by store.Actor) error {
	err := s.write(ctx, func(w *work) error {
		now, err := w.clock()
		if err != nil {
			return err
		}
		var until any
		switch {
		case r.For > 0:
			until = now + micros(r.For)
		case !r.Until.IsZero():
			until = r.Until.UnixMicro()
		}
		if _, err := w.exec(`INSERT INTO styx_queues (queue, paused_at, paused_until, paused_by, pause_origin, pause_reason)
		VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (queue) DO UPDATE
		   SET paused_at = CASE WHEN `+inForce+` THEN paused_at ELSE excluded.paused_at END,
		       paused_until = excluded.paused_until, paused_by = excluded.paused_by,
		       pause_origin = excluded.pause_origin, pause_reason = excluded.pause_reason`,
			r.Queue, now, until, by.Name, nullable(by.Origin), nullable(by.Reason)); err != nil {
			return err
		}
		return audit(w, now, "pause", 1, 0, r.Queue, by)
	})
	s.pauses.Forget()
	if err != nil {
		return fmt.Errorf("pause queue %q: %w", r.Queue, err)
	}
	return nil
}

// Resume ends the pause and writes an audit row, unless the queue is not
// paused. It wakes the workers.
func (s *Store) Resume(ctx context.Context, queue string, by store.Actor) (was bool, err error) {
	err = s.write(ctx, func(w *work) error {
		now, err := w.clock()
		if err != nil {
			return err
		}
		n, err := w.change(`UPDATE styx_queues
		SET paused_at = NULL, paused_until = NULL, paused_by = NULL, pause_origin = NULL, pause_reason = NULL
		WHERE queue = ? AND `+inForce, queue)
		if err != nil || n == 0 {
			return err
		}
		was = true
		return audit(w, now, "resume", 1, 0, queue, by)
	})
	s.pauses.Forget()
	if err != nil {
		return false, fmt.Errorf("resume queue %q: %w", queue, err)
	}
	if was {
		s.common.bell.ring(queue)
	}
	return was, nil
}

// Pauses reads the pauses in force.
func (s *Store) Pauses(ctx context.Context) ([]store.Pause, error) {
	all, err := s.inForce(ctx)
	if err != nil {
		return nil, fmt.Errorf("list pauses: %w", s.mapError(ctx, err))
	}
	return all, nil
}

func (s *Store) inForce(ctx context.Context) ([]store.Pause, error) {
	rows, err := s.sql.QueryContext(ctx, `SELECT queue, paused_at, paused_until, coalesce(paused_by, ''), coalesce(pause_reason, '')
	FROM styx_queues WHERE `+inForce+` ORDER BY queue`)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var all []store.Pause
	for rows.Next() {
		var (
			p            store.Pause
			since, until sql.NullInt64
		)
		if err := rows.Scan(&p.Queue, &since, &until, &p.Actor, &p.Reason); err != nil {
			return nil, err
		}
		p.Since, p.Until = timeOf(since), timeOf(until)
		all = append(all, p)
	}
	return all, rows.Err()
}

// tickEvery is how often a tick is written: a commit costs a sync of the disk
// and wakes every process that listens.
const tickEvery = 5_000_000 // microseconds

// Ticked writes the row of reapers, unless one did within tickEvery.
func (s *Store) Ticked(ctx context.Context) error {
	var recent bool
	err := s.row(ctx, []any{&recent}, `SELECT EXISTS (SELECT 1 FROM styx_reaper WHERE ticked_at BETWEEN `+clock+` - ? AND `+clock+`)`, tickEvery)
	if err == nil && recent {
		return nil
	}
	if err == nil {
		err = s.write(ctx, func(w *work) error {
			_, err := w.exec(`INSERT INTO styx_reaper (one, ticked_at) VALUES (1, ` + clock + `)
			ON CONFLICT (one) DO UPDATE SET ticked_at = excluded.ticked_at`)
			return err
		})
	} else {
		err = s.mapError(ctx, err)
	}
	if err != nil {
		return fmt.Errorf("record a tick: %w", err)
	}
	return nil
}
