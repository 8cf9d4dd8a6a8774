package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/styxmq/styx/internal/store"
)

// Purge deletes dead letters, the oldest first, and writes how many to the
// audit log. A replayed letter goes without the attempts and the key of its
// message, which lives on.
func (s *Store) Purge(ctx context.Context, q store.PurgeQuery, by store.Actor) (purged int, err error) {
	err = s.write(ctx, func(w *work) error {
		now, err := w.clock()
		if err != nil {
			return err
		}
		var c conditions
		since := "dead_at"
		switch {
		case q.ID != 0:
			c.add("message_id = ?", q.ID)
		case q.Resolved:
			since = "resolved_at"
			c.add("resolved_at IS NOT NULL")
		default:
			c.add("resolved_at IS NULL")
		}
		c.equal("queue", q.Queue)
		if q.OlderThan > 0 {
			c.add(since+" <= ?", now-q.OlderThan.Microseconds())
		}
		if purged, _, err = deleteLetters(w, &c, since, q.Limit); err != nil || purged == 0 {
			return err
		}
		return audit(w, now, "purge", purged, q.ID, q.Queue, by)
	})
	if err != nil {
		return 0, fmt.Errorf("purge dead letters: %w", err)
	}
	return purged, nil
}

// deleteLetters deletes letters that meet the conditions, at most limit, in
// the order of a time, and with them all that is left of messages that are
// nowhere else.
func deleteLetters(w *work, c *conditions, order string, limit int) (letters, attempts int, err error) {
	rows, err := w.query(`SELECT letter_id, message_id FROM styx_dead_letters WHERE `+c.String()+`
	ORDER BY `+order+` LIMIT ?`, append(c.args, max(limit, 1))...)
	if err != nil {
		return 0, 0, err
	}
	ids, messages, err := readPairs(rows)
	if err != nil || len(ids) == 0 {
		return 0, 0, err
	}
	if letters, err = w.change("DELETE FROM styx_dead_letters WHERE letter_id IN (SELECT value FROM json_each(?))", jsonOf(ids)); err != nil {
		return 0, 0, err
	}
	attempts, err = erase(w, messages, true)
	return letters, attempts, err
}

func readPairs(rows *sql.Rows) (ids, messages []int64, err error) {
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var id, message int64
		if err := rows.Scan(&id, &message); err != nil {
			return nil, nil, err
		}
		ids, messages = append(ids, id), append(messages, message)
	}
	return ids, messages, rows.Err()
}

// erase deletes what is left of those messages that are in none of the three
// places any more: contents and attempts, and the key if it is to be freed.
func erase(w *work, messages []int64, key bool) (attempts int, err error) {
	ended, err := w.ids(`SELECT DISTINCT value FROM json_each(?) e
	WHERE NOT EXISTS (SELECT 1 FROM styx_messages m WHERE m.id = e.value)
	  AND NOT EXISTS (SELECT 1 FROM styx_archive a WHERE a.id = e.value)
	  AND NOT EXISTS (SELECT 1 FROM styx_dead_letters d WHERE d.message_id = e.value)`, jsonOf(messages))
	if err != nil || len(ended) == 0 {
		return 0, err
	}
	of := jsonOf(ended)
	if key {
		if _, err := w.exec("DELETE FROM styx_keys WHERE message_id IN (SELECT value FROM json_each(?))", of); err != nil {
			return 0, err
		}
	}
	if _, err := w.exec("DELETE FROM styx_contents WHERE id IN (SELECT value FROM json_each(?))", of); err != nil {
		return 0, err
	}
	return w.change("DELETE FROM styx_attempts WHERE message_id IN (SELECT value FROM json_each(?))", of)
}
