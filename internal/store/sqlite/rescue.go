package sqlite

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// The delays after a timeout, or after a second loss of the worker and later
// ones: twice as long each time, up to the cap, and a quarter more or less.
const (
	firstDelay = 2 * time.Second
	delayCap   = time.Hour
)

// Who counts as alive: exactly those whose beat would be accepted.
// Nobody beats for store.RemoteWorker, where only the deadline counts.
const living = `(m.worker_id = -1 OR m.worker_id IN (
	SELECT w.id FROM styx_workers w WHERE w.dead_at IS NULL AND w.beat_at + w.lease_us >= ` + clock + `))`

// heldText is what is held and lost. The index covers it.
const heldText = `styx_messages m INDEXED BY styx_messages_held WHERE m.status = 1 AND (m.deadline <= ` + clock + ` OR NOT ` + living + `)`

// Rescue goes through all that is held. Without anything lost it does not
// write.
func (s *Store) Rescue(ctx context.Context, limit int) ([]store.Rescued, error) {
	var found bool
	if err := s.row(ctx, []any{&found}, "SELECT EXISTS (SELECT 1 FROM "+heldText+")"); err != nil {
		return nil, fmt.Errorf("rescue messages: %w", s.mapError(ctx, err))
	}
	if !found {
		return nil, nil
	}
	all, err := s.rescue(ctx, "SELECT m.id FROM "+heldText+" LIMIT ?", max(limit, 1))
	if err != nil {
		return nil, fmt.Errorf("rescue messages: %w", err)
	}
	return all, nil
}

// Sweep walks the messages by primary key; since Rescue sees every row that is
// held, it finds nothing that Rescue would not.
func (s *Store) Sweep(ctx context.Context, after int64, limit int) (all []store.Rescued, next int64, err error) {
	limit = max(limit, 1)
	var found bool
	var seen int
	err = s.sql.QueryRowContext(ctx, `SELECT count(*), coalesce(max(m.id), 0),
	       coalesce(max(m.status = 1 AND (coalesce(m.deadline <= `+clock+`, false) OR NOT `+living+`)), false)
	  FROM (SELECT id, status, deadline, worker_id FROM styx_messages WHERE id > ? ORDER BY id LIMIT ?) m`, after, limit).
		Scan(&seen, &next, &found)
	if err != nil {
		return nil, after, fmt.Errorf("sweep messages: %w", s.mapError(ctx, err))
	}
	if found {
		all, err = s.rescue(ctx, `SELECT m.id FROM styx_messages m WHERE m.id > ? AND m.id <= ? AND m.status = 1
		AND (m.deadline <= `+clock+` OR NOT `+living+`)`, after, next)
		if err != nil {
			return nil, after, fmt.Errorf("sweep messages: %w", err)
		}
	}
	if seen < limit {
		next = 0
	}
	return all, next, nil
}

// rescue takes back and charges what a statement selects. The write lock is
// held since then, so nothing can change in between.
func (s *Store) rescue(ctx context.Context, text string, args ...any) (all []store.Rescued, err error) {
	err = s.write(ctx, func(w *work) error {
		now, err := w.clock()
		if err != nil {
			return err
		}
		rows, err := w.query("SELECT "+rescuedColumns+", "+living+", coalesce(m.deadline <= "+clock+", false) FROM "+
			hotTables+" WHERE m.id IN ("+text+") ORDER BY m.id", args...)
		if err != nil {
			return err
		}
		found, err := readLost(rows)
		if err != nil {
			return err
		}
		all = make([]store.Rescued, len(found))
		for i := range found {
			if err := charge(w, &found[i], now); err != nil {
				return err
			}
			all[i] = found[i].Rescued
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i := range all {
		if !all[i].Dead && all[i].Decision == message.DecisionWorkerLost {
			s.common.bell.ring(all[i].Queue)
		}
	}
	return all, nil
}

// charge records the loss of a lease and returns the message, or buries it.
func charge(w *work, l *lost, now int64) error {
	kind, class := message.FailureUnknown, "styx.WorkerLost"
	l.Decision = message.DecisionWorkerLost
	l.LastError = fmt.Sprintf("worker %d was lost: no beat within its lease", l.WorkerID)
	delay := time.Duration(0)
	if l.WorkerLosses > 0 {
		delay = delayAfter(l.Attempt)
	}
	if l.alive {
		kind, class = message.FailureTransient, "styx.TimedOut"
		l.Decision = message.DecisionTimedOut
		l.LastError = fmt.Sprintf("the attempt ran past its deadline on worker %d", l.WorkerID)
		if l.WorkerID == store.RemoteWorker {
			l.LastError = "the lease ended before an outcome was told"
		}
		delay = delayAfter(l.Attempt)
	} else {
		l.WorkerLosses = next(l.WorkerLosses)
	}
	l.RetryCount = l.Attempt
	a := message.Attempt{
		MessageID: l.ID, LeaseToken: l.LeaseToken, WorkerID: l.WorkerID, Number: l.Attempt, Charged: true,
		FailureKind: kind, ErrorClass: class, ErrorMessage: l.LastError, Reason: string(l.Decision),
	}
	if l.Attempt >= l.MaxRetries {
		l.Status, l.Dead, a.Outcome = message.StatusDead, true, message.OutcomeDead
		var version *string
		if err := w.scan([]any{&version}, "SELECT max(version) FROM styx_workers WHERE id = ?", l.WorkerID); err != nil {
			return err
		}
		d := death{
			decision: l.Decision, kind: kind, class: class, text: l.LastError, fingerprint: fingerprint(l.Kind, class),
			retryCount: l.RetryCount, losses: l.WorkerLosses, lastFailed: now, now: now,
		}
		if version != nil {
			d.version = *version
		}
		if err := bury(w, l.ID, d); err != nil {
			return err
		}
		return note(w, &a, nil, nil, now)
	}
	l.Status, a.Outcome = message.StatusPending, message.OutcomeRetried
	due := now + delay.Microseconds()
	l.RetryAfter = time.UnixMicro(due).UTC()
	if err := back(w, l.ID, now, due, l.RetryCount, l.WorkerLosses, l.Snoozes, l.LastError); err != nil {
		return err
	}
	return note(w, &a, nil, due, now)
}

// delayAfter is the wait after the n-th attempt.
func delayAfter(n int) time.Duration {
	const doublings = 20 // far beyond the cap
	d := min(delayCap, firstDelay<<min(max(n-1, 0), doublings))
	return min(delayCap, time.Duration(float64(d)*(0.75+0.5*rand.Float64())))
}

// fingerprint groups the losses of one kind.
func fingerprint(kind, class string) string {
	sum := sha256.Sum256([]byte(kind + " " + class))
	return hex.EncodeToString(sum[:8])
}
