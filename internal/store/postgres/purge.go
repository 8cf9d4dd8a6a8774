package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"time"

	"github.com/styxmq/styx/internal/store"
)

// Purge deletes dead letters, the oldest first, and writes how many to the
// audit log. A replayed letter goes without the attempts and the key of its
// message, which lives on.
func (s *Store) Purge(ctx context.Context, q store.PurgeQuery, by store.Actor) (int, error) {
	var c conditions
	since := "d.dead_at"
	switch {
	case q.ID != 0:
		c.add("d.message_id = ?::bigint", q.ID)
	case q.Resolved:
		since = "d.resolved_at"
		c.terms = append(c.terms, "d.resolved_at IS NOT NULL")
	default:
		c.terms = append(c.terms, "d.resolved_at IS NULL")
	}
	c.equal("d.queue", q.Queue)
	if q.OlderThan > 0 {
		c.add(since+" <= now() - ?::bigint * interval '1 ms'", q.OlderThan.Milliseconds())
	}
	var purged int
	err := s.calm(ctx, func(tx *sql.Tx) (err error) {
		if purged, err = s.deleteLetters(ctx, tx, &c, since, q.Limit); err != nil || purged == 0 {
			return err
		}
		return s.audit(ctx, tx, "purge", purged, q.ID, q.Queue, by)
	})
	if err != nil {
		return 0, fmt.Errorf("purge dead letters: %w", mapError(err))
	}
	return purged, nil
}

func (s *Store) audit(ctx context.Context, tx *sql.Tx, action string, affected int, id int64, queue string, by store.Actor) error {
	_, err := tx.ExecContext(ctx, s.text(`INSERT INTO {{s}}audit_log (at, message_id, affected, action, actor, queue, reason, origin)
	VALUES (clock_timestamp(), nullif($1::bigint, 0), $2, $3, $4, $5, $6, $7)`),
		id, affected, action, by.Name, nullable(queue), nullable(by.Reason), nullable(by.Origin))
	return err
}

// deleteLetters deletes letters that meet the conditions, at most limit, in
// the order of a time, and with them the attempts and the keys of messages
// that are nowhere else.
//
// The letters are locked first, skipping locked ones, and deleted by a second
// statement, whose snapshot is later: it sees what a replay that came just
// before has put back. After that none can come between, since it would need
// the lock. Keys are locked in their order, as bulk enqueues do.
//
// Indexes: dead_letters_dead, dead_letters_resolved or dead_letters_message,
// then primary keys and the message_id indexes.
func (s *Store) deleteLetters(ctx context.Context, tx *sql.Tx, c *conditions, order string, limit int) (int, error) {
	letters, err := s.ids(ctx, tx, `SELECT d.letter_id FROM {{s}}dead_letters d WHERE `+c.String()+`
	ORDER BY `+order+` LIMIT `+strconv.Itoa(max(limit, 1))+` FOR UPDATE SKIP LOCKED`, c.args...)
	if err != nil || len(letters) == 0 {
		return 0, err
	}
	var deleted int
	err = tx.QueryRowContext(ctx, s.text(`WITH gone AS (
	DELETE FROM {{s}}dead_letters d WHERE d.letter_id = ANY ($1::bigint[])
	RETURNING d.letter_id, d.message_id, d.queue, d.idempotency_key
), ended AS MATERIALIZED (
	SELECT DISTINCT g.message_id, g.queue, g.idempotency_key FROM gone g
	 WHERE (SELECT m.id FROM {{s}}messages m WHERE m.id = g.message_id LIMIT 1) IS NULL
	   AND (SELECT a.id FROM {{s}}archive a WHERE a.id = g.message_id LIMIT 1) IS NULL
	   AND (SELECT d.letter_id FROM {{s}}dead_letters d
	         WHERE d.message_id = g.message_id AND d.letter_id <> ALL ($1::bigint[]) LIMIT 1) IS NULL
), history AS (
	DELETE FROM {{s}}attempts a WHERE a.message_id = ANY (ARRAY(SELECT message_id FROM ended))
), held AS MATERIALIZED (
	SELECT k.queue, k.key FROM (
	       SELECT e.message_id, e.queue, e.idempotency_key FROM ended e WHERE e.idempotency_key IS NOT NULL
	        ORDER BY e.queue COLLATE "C", e.idempotency_key COLLATE "C") e
	 CROSS JOIN LATERAL (
	       SELECT k.queue, k.key FROM {{s}}keys k
	        WHERE k.queue = e.queue AND k.key = e.idempotency_key AND k.message_id = e.message_id LIMIT 1 FOR UPDATE) k
), freed AS (
	DELETE FROM {{s}}keys k USING held h WHERE k.queue = h.queue AND k.key = h.key
)
SELECT count(*) FROM gone`), intArray(letters)).Scan(&deleted)
	return deleted, err
}

// olderThan adds that a time is before a retention.
func (c *conditions) olderThan(column string, keep time.Duration) {
	c.add(column+" < now() - ?::bigint * interval '1 ms'", keep.Milliseconds())
}
