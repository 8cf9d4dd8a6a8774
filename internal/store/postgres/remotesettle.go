package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// forgottenHints deletes the claims rows of messages that are not held any
// more; a worker's own it leaves to the worker.
const forgottenHints = `, forgotten AS (
	DELETE FROM {{s}}claims WHERE worker_id = ` + remoteID + ` AND number = ANY(ARRAY(SELECT id FROM {{gone}}))
)`

// succeedRemoteText is succeedText for whoever names the queue, and the token
// or none. Locks: as that, found by the primary key.
//
// Parameters: $1 queue, $2 ids ascending, $3 their tokens, $4 notes.
var succeedRemoteText = `WITH gone AS MATERIALIZED (
	DELETE FROM {{s}}messages m
	 WHERE m.id = ANY($2::bigint[]) AND m.status = 1 AND m.queue = $1::text
	   AND ($3::bigint[])[width_bucket(m.id, $2::bigint[])] IN (0, m.lease_token)
	RETURNING ` + settledColumns + `
)` + freedKeys + strings.ReplaceAll(forgottenHints, "{{gone}}", "gone") + `
INSERT INTO {{s}}archive (` + archivedColumns + `)
SELECT g.id, g.lease_token, g.worker_id, g.created_at, NULL, clock_timestamp(), g.retry_count, g.max_retries, g.priority,
       g.losses, g.snoozes, g.replay_count, g.queue, g.kind, g.payload, g.headers, g.tenant, g.correlation_id,
       g.idempotency_key, g.last_error, g.trace, ($4::text[])[width_bucket(g.id, $2::bigint[])]
  FROM gone g
RETURNING id`

// failRemoteText is the same of failText. It waits for a locked row: there is
// no second chance as a worker has. A negative delay is the exact schedule.
var failRemoteText = strings.NewReplacer(
	"{{holder}}", "m.lease_token AS token, m.worker_id",
	"{{delay}}", "CASE WHEN t.delay < 0 THEN (least(power(2, least(m.number, 30)), 3600) * 1000000)::bigint ELSE t.delay END",
	"{{started}}", "NULL::timestamptz",
	"{{guard}}", "(t.token = 0 OR m.lease_token = t.token) AND m.queue = $1::text",
	"{{skip}}", "",
	"{{more}}", strings.ReplaceAll(forgottenHints, "{{gone}}", "held"),
).Replace(failPattern)

// SettleRemote records outcomes of one sort in one statement, and others in
// one transaction.
func (s *Store) SettleRemote(ctx context.Context, queue string, batch []store.RemoteSettlement) ([]error, error) {
	results := make([]error, len(batch))
	told := make([]store.Settlement, len(batch))
	for i, b := range batch {
		told[i] = store.Settlement{
			ID: b.ID, Token: b.Token, Verb: b.Verb, Delay: b.Delay, Note: b.Note, Reason: b.Reason, Failure: b.Failure,
		}
	}
	rest := make([]int, len(batch))
	for i := range rest {
		rest[i] = i
	}
	if len(rest) == 0 {
		return results, nil
	}
	err := s.settleRemote(ctx, queue, told, rest, results)
	if sqlState(err) == "23514" { // no partition for today; nothing was recorded
		if err := s.ensurePartition(ctx); err != nil {
			return nil, mapError(err)
		}
		err = s.settleRemote(ctx, queue, told, rest, results)
	}
	if err != nil {
		return nil, fmt.Errorf("settle messages of queue %q: %w", queue, mapError(err))
	}
	return results, nil
}

// settleRemote records what it can and says of the rest why not. Those that
// were held all the same when they were looked at are tried again.
func (s *Store) settleRemote(ctx context.Context, queue string, told []store.Settlement, of []int, results []error) error {
	for try := 1; len(of) > 0; try++ {
		recorded := make(map[int]struct{}, len(of))
		if err := s.recordRemote(ctx, queue, told, of, recorded); err != nil {
			return err
		}
		var rest []int
		for _, i := range of {
			if _, ok := recorded[i]; ok {
				continue
			}
			held, err := s.refusal(ctx, queue, &told[i])
			if held && try < operateTries {
				rest = append(rest, i)
				continue
			}
			if results[i] = err; err != nil && !refused(err) {
				return err
			}
		}
		of = rest
	}
	return nil
}

// refused reports that an error is an answer about one message.
func refused(err error) bool {
	_, state := errors.AsType[*message.StateError](err)
	return state || errors.Is(err, message.ErrNotFound) || errors.Is(err, message.ErrLeaseLost)
}

// recordRemote runs the statements, in a transaction when there are several.
func (s *Store) recordRemote(ctx context.Context, queue string, told []store.Settlement, of []int, recorded map[int]struct{}) error {
	now, later := oncePerID(told, of)
	mixed := slices.ContainsFunc(now, func(i int) bool {
		return (told[i].Verb == store.Succeed) != (told[now[0]].Verb == store.Succeed)
	})
	if !mixed && len(later) == 0 {
		return s.recordOnce(ctx, s.sql, queue, told, now, recorded)
	}
	return s.readCommitted(ctx, func(tx *sql.Tx) error {
		for {
			if err := s.recordOnce(ctx, tx, queue, told, now, recorded); err != nil {
				return err
			}
			if len(later) == 0 {
				return nil
			}
			now, later = oncePerID(told, later)
		}
	})
}

// recordOnce records outcomes of different messages, by id.
func (s *Store) recordOnce(ctx context.Context, on conn, queue string, told []store.Settlement, of []int, recorded map[int]struct{}) error {
	var good, bad []int
	ids, tokens, notes := []int64(nil), []int64(nil), newTextArray(0, true)
	for _, i := range of {
		if told[i].Verb != store.Succeed {
			bad = append(bad, i)
			continue
		}
		good, ids, tokens = append(good, i), append(ids, told[i].ID), append(tokens, told[i].Token)
		notes.add(told[i].Note)
	}
	settled := make(map[int64]struct{}, len(of))
	if len(good) > 0 {
		text := s.hot.get("succeed remote", func() string { return succeedRemoteText })
		if err := collectIDs(ctx, on, text, []any{queue, intArray(ids), intArray(tokens), notes.String()}, settled); err != nil {
			return err
		}
	}
	if len(bad) > 0 {
		text := s.hot.get("fail remote", func() string { return failRemoteText })
		if err := collectIDs(ctx, on, text, failArgs(queue, told, bad), settled); err != nil {
			return err
		}
		s.remotes.Look(queue)
	}
	for _, i := range of {
		if _, ok := settled[told[i].ID]; ok {
			recorded[i] = struct{}{}
		}
	}
	return nil
}

// refusal says why a settlement found no message, or nil when the same was
// recorded before. held reports that the message is held by that lease after
// all.
func (s *Store) refusal(ctx context.Context, queue string, b *store.Settlement) (held bool, err error) {
	m, err := s.Get(ctx, b.ID)
	if err != nil {
		return false, err
	}
	state := &message.StateError{ID: b.ID, Operation: operationOf(b.Verb), Current: m.Status}
	processing := m.Status == message.StatusProcessing
	switch {
	case m.Queue != queue:
		return false, message.ErrNotFound
	case b.Token == 0:
		return processing, state
	case processing && m.LeaseToken == b.Token:
		return true, state
	case b.Verb == 0:
		return false, message.ErrLeaseLost
	}
	same := make(map[int64]struct{}, 1)
	if err := s.already(ctx, s.sql, []store.Settlement{*b}, []int{0}, same); err != nil {
		return false, mapError(err)
	}
	if len(same) == 0 {
		return false, message.ErrLeaseLost
	}
	return false, nil
}

// operationOf names a verb, the zero one an extension.
func operationOf(v store.Verb) string {
	switch v {
	case store.Succeed:
		return "succeed"
	case store.Retry, store.Bury:
		return "fail"
	case store.Release, store.Snooze:
		return "release"
	}
	return "extend"
}
