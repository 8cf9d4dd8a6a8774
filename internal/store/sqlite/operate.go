package sqlite

import (
	"context"
	"errors"
	"fmt"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// Cancel moves a pending message to the dead letters, resolved at once, and
// frees its key.
func (s *Store) Cancel(ctx context.Context, id int64, by store.Actor) error {
	return s.operate(ctx, "cancel", id, func(w *work, now int64) error {
		var (
			queue               string
			retryCount, losses  int
			lastError           *string
			resolution, actor   = message.ResolutionCancelled, by.Name
			errorText, decision = "", message.DecisionCancelled
		)
		err := w.scan([]any{&queue, &retryCount, &losses, &lastError},
			"SELECT queue, retry_count, losses, last_error FROM styx_messages WHERE id = ? AND status = 0", id)
		if err != nil {
			return err
		}
		if lastError != nil {
			errorText = *lastError
		}
		if err := bury(w, id, death{decision: decision, text: errorText, retryCount: retryCount, losses: losses, now: now}); err != nil {
			return err
		}
		if _, err := w.exec(`UPDATE styx_dead_letters SET resolved_at = ?, resolution = ?, resolved_by = ?, resolve_reason = ?
		WHERE message_id = ? AND resolved_at IS NULL`, now, resolution, actor, nullable(by.Reason), id); err != nil {
			return err
		}
		if err := freeKey(w, id); err != nil {
			return err
		}
		return audit(w, now, "cancel", 1, id, queue, by)
	})
}

// Replay puts the message of the newest letter back, unless that was done
// already or another message holds its key. It comes back through the due
// ones, with its losses, so that what killed its worker runs alone again. An
// expiry that has passed is dropped: whoever replays wants it to run.
func (s *Store) Replay(ctx context.Context, id int64, by store.Actor) error {
	var queue string
	err := s.operate(ctx, "replay", id, func(w *work, now int64) error {
		var letter int64
		var trace string
		err := w.scan([]any{&letter, &queue, &trace}, `SELECT letter_id, queue, coalesce(trace_id, '') FROM styx_dead_letters
		WHERE message_id = ? AND resolution IS NOT 'replayed' ORDER BY letter_id DESC LIMIT 1`, id)
		if err != nil {
			return err
		}
		if err := retakeKey(w, id, queue, now); err != nil {
			return err
		}
		if err := linkDeath(w, id, trace); err != nil {
			return err
		}
		if _, err := w.exec(`INSERT INTO styx_messages (id, lease_token, updated_at, due_at, expires_at, timeout_us, max_retries,
		       priority, losses, replay_count, queue, kind)
		SELECT message_id, lease_token, ?, ?, CASE WHEN expires_at > ? THEN expires_at END, timeout_us, max_retries,
		       priority, losses, min(replay_count, 9223372036854775806) + 1, queue, kind
		  FROM styx_dead_letters WHERE letter_id = ?`, now, now, now, letter); err != nil {
			return err
		}
		if _, err := w.exec(`UPDATE styx_dead_letters SET resolved_at = ?, resolution = 'replayed', resolved_by = ?,
		resolve_reason = ? WHERE letter_id = ?`, now, by.Name, nullable(by.Reason), letter); err != nil {
			return err
		}
		return audit(w, now, "replay", 1, id, queue, by)
	})
	if err == nil {
		s.remotes.Look(queue)
		s.common.bell.ring(queue)
	}
	return err
}

// linkDeath gives a message that goes back a link to the span of the attempt
// that died, where that is known.
func linkDeath(w *work, id int64, trace string) error {
	const traceparent = 55 // bytes
	var err error
	if len(trace) == traceparent {
		_, err = w.exec(`UPDATE styx_contents SET headers = json_set(coalesce(headers, '{}'), '$."styx-died-in"', ?) WHERE id = ?`, trace, id)
	} else {
		_, err = w.exec(`UPDATE styx_contents SET headers = json_remove(headers, '$."styx-died-in"')
		WHERE id = ? AND headers LIKE '%"styx-died-in"%'`, id)
	}
	return err
}

// retakeKey makes sure that a message which comes back holds its key.
func retakeKey(w *work, id int64, queue string, now int64) error {
	var (
		r      newRow
		key    *string
		digest *string
		window *int64
	)
	err := w.scan([]any{&key, &digest, &window},
		"SELECT idempotency_key, key_digest, key_window_us FROM styx_contents WHERE id = ?", id)
	if none(err) || err == nil && key == nil {
		return nil
	}
	if err != nil {
		return err
	}
	r.Queue, r.IdempotencyKey = queue, *key
	if digest != nil {
		r.Digest = *digest
	}
	if window != nil {
		r.KeyWindow = durationOf(*window)
	}
	err = checkKey(w, &r, now)
	if d, ok := errors.AsType[*message.DuplicateError](err); err != nil && (!ok || d.ID != id) {
		return err
	}
	return takeKey(w, &r, id)
}

// Resolve closes the waiting letter of a message and frees its key.
func (s *Store) Resolve(ctx context.Context, id int64, by store.Actor) error {
	return s.operate(ctx, "resolve", id, func(w *work, now int64) error {
		var letter int64
		var queue string
		err := w.scan([]any{&letter, &queue},
			"SELECT letter_id, queue FROM styx_dead_letters WHERE message_id = ? AND resolved_at IS NULL", id)
		if err != nil {
			return err
		}
		if _, err := w.exec(`UPDATE styx_dead_letters SET resolved_at = ?, resolution = 'resolved', resolved_by = ?,
		resolve_reason = ? WHERE letter_id = ?`, now, by.Name, nullable(by.Reason), letter); err != nil {
			return err
		}
		if err := freeKey(w, id); err != nil {
			return err
		}
		return audit(w, now, "resolve", 1, id, queue, by)
	})
}

// operate changes one message. When change finds none to change, which it says
// with sql.ErrNoRows, the message is in another state, or nowhere.
func (s *Store) operate(ctx context.Context, operation string, id int64, change func(w *work, now int64) error) error {
	err := s.write(ctx, func(w *work) error {
		now, err := w.clock()
		if err != nil {
			return err
		}
		if err = change(w, now); !none(err) {
			return err
		}
		var r row
		if err := w.scan(r.dest(), getText, id, id, id); err != nil {
			return err
		}
		return &message.StateError{ID: id, Operation: operation, Current: message.Status(r.status)}
	})
	if none(err) {
		return message.ErrNotFound
	}
	if _, refused := errors.AsType[*message.StateError](err); refused || err == nil {
		return err
	}
	if _, refused := errors.AsType[*message.DuplicateError](err); refused {
		return err
	}
	return fmt.Errorf("%s message %d: %w", operation, id, err)
}

// freeKey frees the key that a message holds, by styx_keys_message.
func freeKey(w *work, id int64) error {
	_, err := w.exec("DELETE FROM styx_keys WHERE message_id = ?", id)
	return err
}

func audit(w *work, now int64, action string, affected int, id int64, queue string, by store.Actor) error {
	var message any
	if id != 0 {
		message = id
	}
	_, err := w.exec(`INSERT INTO styx_audit_log (at, message_id, affected, action, actor, queue, reason, origin)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, now, message, affected, action, by.Name, nullable(queue), nullable(by.Reason), nullable(by.Origin))
	return err
}
