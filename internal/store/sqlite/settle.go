package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// settleRows is the number of successes in one statement.
const settleRows = 64

// Settle records the outcomes in one transaction. It knows no claims rows, so
// done means nothing to it.
func (s *Store) Settle(ctx context.Context, workerID int64, batch []store.Settlement, _ []int64) ([]error, error) {
	results := make([]error, len(batch))
	if len(batch) == 0 {
		return results, nil
	}
	err := s.write(ctx, func(w *work) error { return settle(w, workerID, batch, results) })
	if err != nil {
		return nil, fmt.Errorf("settle messages: %w", err)
	}
	return results, nil
}

// SettleTx records one outcome on the caller's connection.
func (s *Store) SettleTx(ctx context.Context, c bun.IConn, workerID int64, one store.Settlement) error {
	results := make([]error, 1)
	_, err := s.within(ctx, bare(c), func(w *work) error {
		return settle(w, workerID, []store.Settlement{one}, results)
	})
	if err != nil {
		return fmt.Errorf("settle message %d: %w", one.ID, err)
	}
	return results[0]
}

func settle(w *work, workerID int64, batch []store.Settlement, results []error) error {
	now, err := w.clock()
	if err != nil {
		return err
	}
	good := make([]int, 0, len(batch))
	for i := range batch {
		if batch[i].Verb == store.Succeed {
			good = append(good, i)
			continue
		}
		if results[i], err = fail(w, workerID, &batch[i], now); err != nil {
			return err
		}
	}
	for len(good) > 0 {
		n := min(settleRows, len(good))
		if err := succeed(w, workerID, batch, good[:n], results, now); err != nil {
			return err
		}
		good = good[n:]
	}
	return nil
}

// succeed moves messages to the archive. Each row is found by its primary key.
func succeed(w *work, workerID int64, batch []store.Settlement, of []int, results []error, now int64) error {
	seen := make(map[int64]struct{}, len(of))
	ids := make([]int64, 0, len(of))
	args := make([]any, 0, 4*len(of)+2)
	var again, keyed []int
	for _, i := range of {
		b := &batch[i]
		if _, twice := seen[b.ID]; twice {
			again = append(again, i)
			continue
		}
		seen[b.ID] = struct{}{}
		ids = append(ids, b.ID)
		args = append(args, b.ID, b.Token, started(now, b), nullable(b.Note))
		if b.Keyed {
			keyed = append(keyed, i)
		}
	}
	args = append(args, now, workerID)
	moved, err := w.change(`WITH told (id, token, started_at, note) AS (VALUES `+repeat("(?, ?, ?, ?)", len(ids))+`)
	INSERT OR REPLACE INTO styx_archive (id, lease_token, worker_id, started_at, finished_at, retry_count, max_retries,
	       priority, losses, snoozes, replay_count, queue, kind, last_error, note)
	SELECT m.id, m.lease_token, m.worker_id, t.started_at, ?, m.retry_count, m.max_retries,
	       m.priority, m.losses, m.snoozes, m.replay_count, m.queue, m.kind, m.last_error, t.note
	  FROM told t CROSS JOIN styx_messages m
	 WHERE m.id = t.id AND m.lease_token = t.token AND m.worker_id = ? AND m.status = 1`, args...)
	if err != nil {
		return err
	}
	gone := "DELETE FROM styx_messages WHERE id IN (SELECT value FROM json_each(?))"
	if moved < len(ids) {
		// Some were not moved: only those in the archive are.
		gone += " AND EXISTS (SELECT 1 FROM styx_archive a WHERE a.id = styx_messages.id)"
	}
	if moved > 0 {
		if _, err := w.exec(gone, jsonOf(ids)); err != nil {
			return err
		}
	}
	for _, i := range keyed {
		if _, err := w.exec(`UPDATE styx_keys SET expires_at = ? + window_us WHERE message_id = ? AND expires_at IS NULL
		AND EXISTS (SELECT 1 FROM styx_archive a WHERE a.id = styx_keys.message_id)`, now, batch[i].ID); err != nil {
			return err
		}
	}
	if moved == len(ids) {
		of = again
	}
	for _, i := range of {
		if results[i], err = already(w, workerID, &batch[i]); err != nil {
			return err
		}
	}
	return nil
}

// already answers a settlement that fits no held message: nil when the same
// outcome was recorded before, of any worker for 0. What the reaper has charged
// is not the same.
func already(w *work, workerID int64, b *store.Settlement) (refused, err error) {
	var found bool
	switch {
	case b.Verb == store.Succeed:
		err = w.scan([]any{&found}, `SELECT EXISTS (SELECT 1 FROM styx_archive
		WHERE id = ? AND lease_token = ? AND ? IN (worker_id, 0))`, b.ID, b.Token, workerID)
	case b.Verb == store.Release && b.Reason == "":
		// This one leaves no trace but the pending row.
		err = w.scan([]any{&found}, `SELECT EXISTS (SELECT 1 FROM styx_messages
		WHERE id = ? AND lease_token = ? AND status = 0)
		AND NOT EXISTS (SELECT 1 FROM styx_attempts WHERE message_id = ? AND lease_token = ?)`, b.ID, b.Token, b.ID, b.Token)
	default:
		one, other := outcomesOf(b.Verb)
		err = w.scan([]any{&found}, `SELECT EXISTS (SELECT 1 FROM styx_attempts
		WHERE message_id = ? AND lease_token = ? AND ? IN (worker_id, 0) AND outcome IN (?, ?)
		AND coalesce(reason, '') NOT IN ('worker_lost', 'timed_out'))`, b.ID, b.Token, workerID, one, other)
	}
	if err != nil || found {
		return nil, err
	}
	return message.ErrLeaseLost, nil
}

// outcomesOf returns the outcomes that a verb can have.
func outcomesOf(v store.Verb) (one, other string) {
	switch v {
	case store.Retry:
		return string(message.OutcomeRetried), string(message.OutcomeDead)
	case store.Bury:
		return string(message.OutcomeDead), string(message.OutcomeDead)
	case store.Snooze:
		return string(message.OutcomeSnoozed), string(message.OutcomeSnoozed)
	case store.Succeed, store.Release:
	}
	return string(message.OutcomeReleased), string(message.OutcomeReleased)
}

// Settled reports whether the attempt has an outcome: the archive or the
// attempts know its token, or the message waits with it.
func (s *Store) Settled(ctx context.Context, id, token int64) (settled bool, err error) {
	err = s.sql.QueryRowContext(ctx, `SELECT
	EXISTS (SELECT 1 FROM styx_archive WHERE id = ? AND lease_token = ?)
	OR EXISTS (SELECT 1 FROM styx_attempts WHERE message_id = ? AND lease_token = ?)
	OR EXISTS (SELECT 1 FROM styx_messages WHERE id = ? AND lease_token = ? AND status = 0)`,
		id, token, id, token, id, token).Scan(&settled)
	if err != nil {
		return false, fmt.Errorf("look for the outcome of message %d: %w", id, s.mapError(ctx, err))
	}
	return settled, nil
}

func none(err error) bool { return errors.Is(err, sql.ErrNoRows) }
