package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// Settle records the outcomes, successes in one statement and everything else
// in another. Each statement stands for itself, since repeating what was
// recorded is answered from the archive and the attempts.
func (s *Store) Settle(ctx context.Context, workerID int64, batch []store.Settlement, done []int64) ([]error, error) {
	results := make([]error, len(batch))
	rest := make([]int, len(batch))
	for i := range rest {
		rest[i] = i
	}
	for first := true; len(rest) > 0 || first && len(done) > 0; first = false {
		var now []int
		now, rest = oncePerID(batch, rest)
		if !first {
			done = nil
		}
		lost, err := s.settleOnce(ctx, workerID, batch, now, done)
		if err != nil {
			return nil, mapError(err)
		}
		for _, i := range lost {
			results[i] = message.ErrLeaseLost
		}
	}
	return results, nil
}

// oncePerID takes the first settlement of each message, by id; a second one, of
// another token or told twice, is for the next round.
func oncePerID(batch []store.Settlement, of []int) (now, rest []int) {
	slices.SortStableFunc(of, func(a, b int) int { return compareID(batch[a].ID, batch[b].ID) })
	now = make([]int, 0, len(of))
	for n, i := range of {
		if n > 0 && batch[of[n-1]].ID == batch[i].ID {
			rest = append(rest, i)
		} else {
			now = append(now, i)
		}
	}
	return now, rest
}

// settleOnce records settlements of different messages, by id, and returns
// those that were not recorded.
func (s *Store) settleOnce(ctx context.Context, workerID int64, batch []store.Settlement, of []int, done []int64) ([]int, error) {
	var good, bad []int
	for _, i := range of {
		if batch[i].Verb == store.Succeed {
			good = append(good, i)
		} else {
			bad = append(bad, i)
		}
	}
	settled := map[int64]struct{}{}
	if len(good) > 0 || len(done) > 0 {
		n, err := s.succeed(ctx, s.sql, workerID, batch, good, done, true)
		if err != nil {
			return nil, err
		}
		if n < len(good) {
			more, err := s.succeed(ctx, s.sql, workerID, batch, good, nil, false)
			if err != nil {
				return nil, err
			}
			n += more
		}
		if n == len(good) {
			of = bad
		} // otherwise the archive tells which
	}
	if len(bad) > 0 {
		if err := s.fail(ctx, s.sql, workerID, batch, bad, settled); err != nil {
			return nil, err
		}
		if err := s.failSkipped(ctx, workerID, batch, missing(batch, bad, settled), settled); err != nil {
			return nil, err
		}
	}
	left := missing(batch, of, settled)
	if len(left) == 0 {
		return nil, nil
	}
	err := s.already(ctx, s.sql, batch, left, settled)
	return missing(batch, left, settled), err
}

// SettleTx records one outcome on the caller's connection.
func (s *Store) SettleTx(ctx context.Context, c bun.IConn, workerID int64, one store.Settlement) error {
	on, batch, first := bare(c), []store.Settlement{one}, []int{0}
	settled := map[int64]struct{}{}
	var (
		n   int
		err error
	)
	if one.Verb == store.Succeed {
		n, err = s.succeed(ctx, on, workerID, batch, first, nil, false)
	} else {
		err = s.fail(ctx, on, workerID, batch, first, settled)
	}
	if err == nil && n+len(settled) == 0 {
		err = s.already(ctx, on, batch, first, settled)
	}
	switch {
	case err != nil:
		return mapError(err)
	case n+len(settled) == 0:
		return message.ErrLeaseLost
	}
	return nil
}

func missing(batch []store.Settlement, of []int, settled map[int64]struct{}) []int {
	var left []int
	for _, i := range of {
		if _, ok := settled[batch[i].ID]; !ok {
			left = append(left, i)
		}
	}
	return left
}

// succeed moves messages to the archive and returns how many.
//
// Locks: the rows that it deletes, and the keys' rows of those with a key.
// Index: none on the first try, which goes to the places where the claim left
// the rows (a row does not move while it is held, but for an Extend, which
// makes a new version); the primary key on the second. Either way every row
// is checked against its id, token, worker and status.
func (s *Store) succeed(ctx context.Context, on conn, workerID int64, batch []store.Settlement, of []int, done []int64, byPlace bool) (n int, err error) {
	ids, tokens, elapsed := make([]int64, len(of)), make([]int64, len(of)), make([]int64, len(of))
	places := make([]uint64, len(of))
	keyed, noted := false, false
	var notes []string
	for n, i := range of {
		b := &batch[i]
		ids[n], tokens[n], elapsed[n] = b.ID, b.Token, b.Elapsed.Microseconds()
		places[n] = b.Place
		keyed, noted = keyed || b.Keyed, noted || b.Note != ""
	}
	if noted {
		notes = make([]string, len(of))
		for n, i := range of {
			notes[n] = batch[i].Note
		}
	}
	text := s.hot.get(fmt.Sprintf("succeed %t %t %t", byPlace, keyed, noted), func() string {
		return succeedText(byPlace, keyed, noted)
	})
	run := func() (int, error) {
		args := []any{workerID, intArray(ids), intArray(tokens), intArray(elapsed), intArray(done), placeArray(places)}
		if noted {
			args = append(args, nullableTextArray(notes))
		}
		return affected(ctx, on, text, args)
	}
	if byPlace && on == conn(s.sql) {
		plain := run
		run = func() (int, error) {
			params := []Param{
				int8Param(workerID), int8ArrayParam(ids), int8ArrayParam(tokens), int8ArrayParam(elapsed),
				int8ArrayParam(done), placeArrayParam(places),
			}
			if noted {
				params = append(params, textArrayParam(notes, true))
			}
			n, err := s.native(ctx, on, text, params, nil)
			if errors.Is(err, store.ErrNoNative) {
				return plain()
			}
			return n, err
		}
	}
	n, err = run()
	if sqlState(err) == "23514" && on == conn(s.sql) { // no partition for today
		if err := s.ensurePartition(ctx); err != nil {
			return 0, err
		}
		n, err = run()
	}
	return n, err
}

// What moves a message from messages to the archive, and lets its key go.
const (
	settledColumns = `m.id, m.lease_token, m.worker_id, m.created_at, m.retry_count, m.max_retries, m.priority, m.losses,
	          m.snoozes, m.replay_count, m.queue, m.kind, m.payload, m.headers, m.tenant, m.correlation_id,
	          m.idempotency_key, m.last_error, m.trace`

	archivedColumns = `id, lease_token, worker_id, created_at, started_at, finished_at, retry_count, max_retries,
       priority, losses, snoozes, replay_count, queue, kind, payload, headers, tenant, correlation_id,
       idempotency_key, last_error, trace, note`

	freedKeys = `, freed AS (
	UPDATE {{s}}keys k SET expires_at = clock_timestamp() + k.window_ms * interval '1 ms'
	  FROM gone g WHERE g.idempotency_key IS NOT NULL AND k.queue = g.queue AND k.key = g.idempotency_key AND k.message_id = g.id
)`
)

// succeedText writes the statement. The pairs of id and token are compared
// through width_bucket, which finds an id in the sorted array by halving: a
// join or IN would let the planner compare every row with every pair.
//
// Parameters: $1 worker, $2 ids ascending, $3 their tokens, $4 microseconds
// that each ran, $5 claim numbers to forget, $6 places, $7 notes.
func succeedText(byPlace, keyed, noted bool) string {
	where := "m.id = ANY($2::bigint[]) AND $6::text IS NOT NULL"
	if byPlace {
		where = "m.ctid = ANY($6::tid[])"
	}
	note, freed := "NULL", ""
	if noted {
		note = "($7::text[])[width_bucket(g.id, $2::bigint[])]"
	}
	if keyed {
		freed = freedKeys
	}
	return `WITH gone AS MATERIALIZED (
	DELETE FROM {{s}}messages m
	 WHERE ` + where + ` AND m.status = 1 AND m.worker_id = $1
	   AND ($2::bigint[])[width_bucket(m.id, $2::bigint[])] = m.id
	   AND ($3::bigint[])[width_bucket(m.id, $2::bigint[])] = m.lease_token
	RETURNING ` + settledColumns + `
)` + freed + `, forgotten AS (
	DELETE FROM {{s}}claims WHERE worker_id = $1 AND number = ANY($5::bigint[])
)
INSERT INTO {{s}}archive (` + archivedColumns + `)
SELECT g.id, g.lease_token, g.worker_id, g.created_at,
       clock_timestamp() - ($4::bigint[])[width_bucket(g.id, $2::bigint[])] * interval '1 microsecond',
       clock_timestamp(), g.retry_count, g.max_retries, g.priority, g.losses, g.snoozes, g.replay_count, g.queue,
       g.kind, g.payload, g.headers, g.tenant, g.correlation_id, g.idempotency_key, g.last_error, g.trace, ` + note + `
  FROM gone g`
}

// affected runs a statement and returns the number of rows that it wrote.
func affected(ctx context.Context, on conn, text string, args []any) (int, error) {
	result, err := on.ExecContext(ctx, text, args...)
	if err != nil {
		return 0, err
	}
	n, err := result.RowsAffected()
	return int(n), err
}

// collectIDs runs a statement that returns ids.
func collectIDs(ctx context.Context, on conn, text string, args []any, into map[int64]struct{}) error {
	rows, err := on.QueryContext(ctx, text, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return err
		}
		into[id] = struct{}{}
	}
	return rows.Err()
}

// already finds those settlements that were recorded before with the same
// outcome, their reply lost. Locks nothing; indexes: archive_id and the
// unique one of attempts.
func (s *Store) already(ctx context.Context, on conn, batch []store.Settlement, of []int, settled map[int64]struct{}) error {
	ids, tokens, outcomes := make([]int64, len(of)), make([]int64, len(of)), newTextArray(0, false)
	for n, i := range of {
		ids[n], tokens[n] = batch[i].ID, batch[i].Token
		outcomes.add(outcomeOf(batch[i].Verb))
	}
	return collectIDs(ctx, on, s.text(`SELECT u.id FROM unnest($1::bigint[], $2::bigint[], $3::text[]) AS u (id, token, outcome)
	WHERE CASE u.outcome
	      WHEN 'succeeded' THEN (SELECT true FROM {{s}}archive a WHERE a.id = u.id AND a.lease_token = u.token LIMIT 1)
	      WHEN 'retried' THEN (SELECT true FROM {{s}}attempts t WHERE t.message_id = u.id AND t.lease_token = u.token
	                              AND t.outcome IN ('retried', 'dead') AND `+byHolder+` LIMIT 1)
	      ELSE (SELECT true FROM {{s}}attempts t WHERE t.message_id = u.id AND t.lease_token = u.token
	                              AND t.outcome = u.outcome AND `+byHolder+` LIMIT 1) END`),
		[]any{intArray(ids), intArray(tokens), outcomes.String()}, settled)
}

// byHolder leaves out the attempts that the reaper has charged.
const byHolder = `coalesce(t.reason, '') NOT IN ('worker_lost', 'timed_out')`

func outcomeOf(v store.Verb) string {
	switch v {
	case store.Succeed:
		return "succeeded"
	case store.Retry:
		return string(message.OutcomeRetried)
	case store.Bury:
		return string(message.OutcomeDead)
	case store.Snooze:
		return string(message.OutcomeSnoozed)
	case store.Release:
	}
	return string(message.OutcomeReleased)
}

// Settled reports whether the attempt has been settled: the message is not
// held under this token any more and the archive, the attempts or a letter
// know the token.
func (s *Store) Settled(ctx context.Context, id, token int64) (settled bool, err error) {
	err = s.sql.QueryRowContext(ctx, s.text(`SELECT
	EXISTS (SELECT FROM {{s}}archive a WHERE a.id = $1 AND a.lease_token = $2)
	OR EXISTS (SELECT FROM {{s}}attempts t WHERE t.message_id = $1 AND t.lease_token = $2)`), id, token).Scan(&settled)
	return settled, mapError(err)
}
