package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// BuryWorkers marks workers dead whose lease is over, and forgets those that
// have been dead for a day and hold nothing. Without any it does not write.
func (s *Store) BuryWorkers(ctx context.Context) (dead []int64, err error) {
	const (
		late = `dead_at IS NULL AND beat_at + lease_us < ` + clock
		past = `dead_at < ` + clock + ` - 86400000000 AND NOT EXISTS
	(SELECT 1 FROM styx_messages m INDEXED BY styx_messages_held WHERE m.status = 1 AND m.worker_id = styx_workers.id)`
	)
	var found bool
	if err := s.row(ctx, []any{&found}, "SELECT EXISTS (SELECT 1 FROM styx_workers WHERE "+late+" OR "+past+")"); err != nil {
		return nil, fmt.Errorf("bury workers: %w", s.mapError(ctx, err))
	}
	if !found {
		return nil, nil
	}
	err = s.write(ctx, func(w *work) (err error) {
		if dead, err = w.ids("UPDATE styx_workers SET dead_at = " + clock + " WHERE " + late + " RETURNING id"); err != nil {
			return err
		}
		_, err = w.exec("DELETE FROM styx_workers WHERE " + past)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("bury workers: %w", err)
	}
	return dead, nil
}

// Expire buries pending messages whose time has passed, by
// styx_messages_expiry. Without any it does not write.
func (s *Store) Expire(ctx context.Context, limit int) (all []store.Rescued, err error) {
	const expired = `FROM styx_messages m INDEXED BY styx_messages_expiry LEFT JOIN styx_contents c ON c.id = m.id
	WHERE m.status = 0 AND m.expires_at <= ` + clock
	var found bool
	if err := s.row(ctx, []any{&found}, "SELECT EXISTS (SELECT 1 "+expired+")"); err != nil {
		return nil, fmt.Errorf("expire messages: %w", s.mapError(ctx, err))
	}
	if !found {
		return nil, nil
	}
	err = s.write(ctx, func(w *work) error {
		now, err := w.clock()
		if err != nil {
			return err
		}
		rows, err := w.query("SELECT "+rescuedColumns+", false, false "+expired+" ORDER BY m.expires_at LIMIT ?", max(limit, 1))
		if err != nil {
			return err
		}
		lost, err := readLost(rows)
		if err != nil {
			return err
		}
		for _, l := range lost {
			r := l.Rescued
			r.Status, r.Dead, r.Decision = message.StatusDead, true, message.DecisionExpired
			if err := bury(w, r.ID, death{
				decision: r.Decision, text: r.LastError, retryCount: r.RetryCount, losses: r.WorkerLosses, now: now,
			}); err != nil {
				return err
			}
			all = append(all, r)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("expire messages: %w", err)
	}
	return all, nil
}

// rescuedColumns are what readLost reads of a message; two booleans follow.
const rescuedColumns = `m.id, m.queue, m.kind, m.retry_count, m.max_retries, m.lease_token, m.worker_id, m.losses, m.snoozes,
	c.tenant, c.correlation_id, c.idempotency_key, m.last_error, c.headers`

// lost is a message that the reaper moves.
type lost struct {
	store.Rescued
	// alive: its worker is, so its time is up.
	alive bool
	// late: its deadline has passed.
	late bool
}

func readLost(rows *sql.Rows) ([]lost, error) {
	defer func() { _ = rows.Close() }()
	var all []lost
	for rows.Next() {
		var l lost
		var tenant, correlation, key, last, headers sql.NullString
		if err := rows.Scan(&l.ID, &l.Queue, &l.Kind, &l.RetryCount, &l.MaxRetries, &l.LeaseToken, &l.WorkerID,
			&l.WorkerLosses, &l.Snoozes, &tenant, &correlation, &key, &last, &headers, &l.alive, &l.late); err != nil {
			return nil, err
		}
		if headers.Valid { // a rescue does not depend on them
			_ = json.Unmarshal([]byte(headers.String), &l.Headers)
		}
		l.Attempt = next(l.RetryCount)
		l.Tenant, l.CorrelationID, l.IdempotencyKey, l.LastError = tenant.String, correlation.String, key.String, last.String
		all = append(all, l)
	}
	return all, rows.Err()
}
