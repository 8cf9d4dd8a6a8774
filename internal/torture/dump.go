//go:build unix

package torture

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/styxmq/styx/internal/torture/check"
)

// tables are the statements that read an engine's tables. Those of messages
// return id, token, status (0 pending, 1 processing, 2 succeeded, 3 dead),
// worker, retries, budget, time, replays, decision and payload.
type tables struct {
	unfinished, attempts, workers string
	messages                      []string
}

var dumps = map[Engine]tables{
	Postgres: {
		unfinished: `SELECT count(*) FROM styx.messages`,
		messages: []string{
			`SELECT id, lease_token, status, worker_id, retry_count, max_retries, 0::bigint, replay_count, '', payload FROM styx.messages`,
			`SELECT id, lease_token, 2, worker_id, retry_count, max_retries, (extract(epoch FROM finished_at) * 1000000)::bigint,
	replay_count, '', payload FROM styx.archive`,
			`SELECT message_id, lease_token, 3, worker_id, retry_count, max_retries, (extract(epoch FROM dead_at) * 1000000)::bigint,
	replay_count, decision, payload FROM styx.dead_letters WHERE resolution IS DISTINCT FROM 'replayed'`,
		},
		attempts: `SELECT message_id, lease_token, worker_id, outcome, coalesce(reason, ''), coalesce(error_class, ''),
	(extract(epoch FROM finished_at) * 1000000)::bigint FROM styx.attempts`,
		workers: `SELECT id, name, (extract(epoch FROM beat_at) * 1000000)::bigint,
	coalesce((extract(epoch FROM dead_at) * 1000000)::bigint, 0), lease_ms * 1000 FROM styx.workers`,
	},
	SQLite: {
		unfinished: `SELECT count(*) FROM styx_messages`,
		messages: []string{
			`SELECT m.id, lease_token, status, worker_id, retry_count, max_retries, 0, replay_count, '', payload
	FROM styx_messages m LEFT JOIN styx_contents c ON c.id = m.id`,
			`SELECT a.id, lease_token, 2, worker_id, retry_count, max_retries, finished_at, replay_count, '', payload
	FROM styx_archive a LEFT JOIN styx_contents c ON c.id = a.id`,
			`SELECT message_id, lease_token, 3, worker_id, retry_count, max_retries, dead_at, replay_count, decision, payload
	FROM styx_dead_letters d LEFT JOIN styx_contents c ON c.id = d.message_id WHERE resolution IS NOT 'replayed'`,
		},
		attempts: `SELECT message_id, lease_token, worker_id, outcome, coalesce(reason, ''), coalesce(error_class, ''), finished_at
	FROM styx_attempts`,
		workers: `SELECT id, name, beat_at, coalesce(dead_at, 0), lease_us FROM styx_workers`,
	},
}

// unfinished counts what is pending or processing.
func unfinished(ctx context.Context, db *bun.DB, e Engine) (n int, err error) {
	err = db.QueryRowContext(ctx, dumps[e].unfinished).Scan(&n)
	return n, err
}

// dump reads what the database holds.
func dump(ctx context.Context, db *bun.DB, e Engine) (*check.Final, error) {
	var f check.Final
	d := dumps[e]
	places := []check.Place{check.Pending, check.Processing, check.Succeeded, check.Dead}
	for _, text := range d.messages {
		err := each(ctx, db, text, func(scan func(...any) error) error {
			var (
				m       check.Message
				status  int
				payload string
			)
			if err := scan(&m.ID, &m.Token, &status, &m.Worker, &m.Retries, &m.Budget, &m.At, &m.ReplaysOfMessage,
				&m.DecisionOfDeath, &payload); err != nil {
				return err
			}
			j := decode(payload)
			m.Place, m.Op, m.CompletedInTx = places[status], j.Op, j.Do.inTx()
			f.Messages = append(f.Messages, m)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	err := each(ctx, db, d.attempts, func(scan func(...any) error) error {
		var a check.Attempt
		err := scan(&a.ID, &a.Token, &a.Worker, &a.Outcome, &a.Reason, &a.Class, &a.At)
		f.Attempts = append(f.Attempts, a)
		return err
	})
	if err != nil {
		return nil, err
	}
	err = each(ctx, db, d.workers, func(scan func(...any) error) error {
		var w check.Worker
		err := scan(&w.ID, &w.Process, &w.Beat, &w.Dead, &w.Lease)
		f.Workers = append(f.Workers, w)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &f, each(ctx, db, `SELECT id, token FROM torture_effects`, func(scan func(...any) error) error {
		var l check.Lease
		err := scan(&l.ID, &l.Token)
		f.Effects = append(f.Effects, l)
		return err
	})
}

// each calls f for every row of a statement.
func each(ctx context.Context, db *bun.DB, text string, f func(scan func(...any) error) error) error {
	rows, err := db.QueryContext(ctx, text)
	if err != nil {
		return fmt.Errorf("read what is left: %w", err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := f(rows.Scan); err != nil {
			return fmt.Errorf("read what is left: %w", err)
		}
	}
	return rows.Err()
}
