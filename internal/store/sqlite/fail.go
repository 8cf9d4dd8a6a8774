package sqlite

import (
	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// death is how a message came to be dead.
type death struct {
	decision                message.Decision
	kind                    message.FailureKind
	class, text, stack      string
	fingerprint             string
	version, traceID        string
	retryCount, losses      int
	firstFailed, lastFailed any
	now                     int64
}

// bury moves a message to the dead letters.
func bury(w *work, id int64, d death) error {
	if d.firstFailed == nil {
		// What failed before is known from the attempts.
		var first, last any
		if err := w.scan([]any{&first, &last}, `SELECT min(finished_at), max(finished_at) FROM styx_attempts
		WHERE message_id = ? AND charged`, id); err != nil {
			return err
		}
		if first == nil {
			first = d.lastFailed
		}
		if d.lastFailed == nil {
			d.lastFailed = last
		}
		d.firstFailed = first
	}
	_, err := w.exec(`INSERT INTO styx_dead_letters (message_id, lease_token, worker_id, expires_at, first_failed_at,
	       last_failed_at, dead_at, timeout_us, retry_count, max_retries, priority, losses, snoozes, replay_count, queue, kind,
	       decision, failure_kind, error_class, error_message, stack, fingerprint, worker_version, trace_id)
	SELECT id, lease_token, worker_id, expires_at, ?, ?, ?, timeout_us, ?, max_retries, priority, ?, snoozes, replay_count,
	       queue, kind, ?, ?, ?, ?, ?, ?, ?, ?
	  FROM styx_messages WHERE id = ?`,
		d.firstFailed, d.lastFailed, d.now, d.retryCount, d.losses,
		string(d.decision), nullable(string(d.kind)), nullable(d.class), nullable(d.text), nullable(d.stack),
		nullable(d.fingerprint), nullable(d.version), nullable(d.traceID), id)
	if err != nil {
		return err
	}
	_, err = w.exec("DELETE FROM styx_messages WHERE id = ?", id)
	return err
}

// back returns a message to pending; counters that do not change are given
// as they were.
func back(w *work, id, now, due int64, retryCount, losses, snoozes int, lastError any) error {
	_, err := w.exec(`UPDATE styx_messages SET status = 0, worker_id = 0, claim_number = 0, deadline = NULL, updated_at = ?,
	due_at = ?, retry_count = ?, losses = ?, snoozes = ?, last_error = ? WHERE id = ?`,
		now, due, retryCount, losses, snoozes, lastError, id)
	return err
}

// note writes an attempt down. One that is known already stays as it is.
func note(w *work, a *message.Attempt, started, retryAfter any, now int64) error {
	_, err := w.exec(`INSERT INTO styx_attempts (message_id, lease_token, worker_id, started_at, finished_at, retry_after,
	       number, charged, outcome, failure_kind, error_class, error_message, stack, reason, trace_id)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (message_id, lease_token) DO NOTHING`,
		a.MessageID, a.LeaseToken, a.WorkerID, started, now, retryAfter, a.Number, a.Charged, string(a.Outcome),
		nullable(string(a.FailureKind)), nullable(a.ErrorClass), nullable(a.ErrorMessage), nullable(a.Stack),
		nullable(a.Reason), nullable(a.TraceID))
	return err
}

// fail records an outcome other than success, or says why not.
func fail(w *work, workerID int64, b *store.Settlement, now int64) (refused, err error) {
	var retryCount, maxRetries, losses, snoozes int
	var lastError any
	err = w.scan([]any{&retryCount, &maxRetries, &losses, &snoozes, &lastError}, `SELECT retry_count, max_retries, losses,
	snoozes, last_error FROM styx_messages WHERE id = ? AND lease_token = ? AND worker_id = ? AND status = 1`,
		b.ID, b.Token, workerID)
	if none(err) {
		return already(w, workerID, b)
	}
	if err != nil {
		return nil, err
	}
	f := b.Failure
	if f == nil {
		f = &store.Failure{}
	}
	a := message.Attempt{
		MessageID: b.ID, LeaseToken: b.Token, WorkerID: workerID, Number: next(retryCount),
		FailureKind: f.Kind, ErrorClass: f.Class, ErrorMessage: f.Message, Stack: f.Stack, TraceID: f.TraceID,
		Reason: b.Reason,
	}
	var due any = now + micros(max(0, b.Delay))
	if b.Delay < 0 {
		due = now + micros(exactDelay(a.Number))
	}
	switch b.Verb {
	case store.Retry, store.Bury:
		a.Charged, a.Outcome = true, message.OutcomeRetried
		if b.Verb == store.Retry && a.Number < maxRetries {
			retryCount, lastError = a.Number, nullable(f.Message)
			break
		}
		a.Outcome, due = message.OutcomeDead, nil
		decision := f.Decision
		if decision == "" {
			decision = message.DecisionExhausted
		}
		err = bury(w, b.ID, death{
			decision: decision, kind: f.Kind, class: f.Class, text: f.Message, stack: f.Stack,
			fingerprint: f.Fingerprint, version: f.Version, traceID: f.TraceID,
			retryCount: a.Number, losses: losses, lastFailed: now, now: now,
		})
	case store.Snooze:
		a.Outcome, snoozes = message.OutcomeSnoozed, next(snoozes)
	default:
		a.Outcome = message.OutcomeReleased
	}
	if err == nil && due != nil {
		err = back(w, b.ID, now, due.(int64), retryCount, losses, snoozes, lastError)
	}
	if err != nil || a.Outcome == message.OutcomeReleased && b.Reason == "" {
		return nil, err
	}
	return nil, note(w, &a, started(now, b), due, now)
}

// started is when an attempt began; negative Elapsed is not known.
func started(now int64, b *store.Settlement) any {
	if b.Elapsed < 0 {
		return nil
	}
	return now - b.Elapsed.Microseconds()
}
