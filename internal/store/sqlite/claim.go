package sqlite

import (
	"database/sql"
	"encoding/json"
	"strconv"
	"time"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// abandonGrace is how long after its timeout a handler's outcome still
// counts; the deadline leaves room for it.
const abandonGrace = 5 * time.Second

// claimTexts are the statements of a cursor. INDEXED BY makes each of them an
// error rather than a scan of the table, should its index not fit.
type claimTexts struct {
	kinds                     []any
	look, suspect, due, ready string
}

// claimable is what every row must meet. A token at its end could not grow.
const claimable = `m.status = 0 AND (m.expires_at IS NULL OR m.expires_at > ` + clock + `) AND m.lease_token < 9223372036854775807`

// The next time at which something of the queue is due, from now.
const nextDueText = `SELECT min(at) - ` + clock + ` FROM (
	SELECT min(m.due_at) AS at FROM styx_messages m INDEXED BY styx_messages_due
	 WHERE m.queue = ? AND m.status = 0 AND m.losses = 0 AND m.due_at > ` + clock + `
	UNION ALL
	SELECT min(m.due_at) FROM styx_messages m INDEXED BY styx_messages_suspect
	 WHERE m.queue = ? AND m.status = 0 AND m.losses > 0 AND m.due_at > ` + clock + `)`

// lastID is the highest id that was ever given.
const lastID = `coalesce((SELECT max(seq) FROM sqlite_sequence WHERE name = 'styx_messages'), 0)`

// Priorities of ready messages, each found by one descent of the index.
const (
	prioritiesText = `RECURSIVE priorities (priority) AS (
	SELECT min(m.priority) FROM styx_messages m INDEXED BY styx_messages_ready WHERE m.queue = ? AND m.status = 0 AND m.due_at IS NULL
	UNION ALL
	SELECT (SELECT min(m.priority) FROM styx_messages m INDEXED BY styx_messages_ready
	         WHERE m.queue = ? AND m.status = 0 AND m.due_at IS NULL AND m.priority > p.priority)
	  FROM priorities p WHERE p.priority IS NOT NULL)`

	nextPriorityText = `SELECT min(m.priority) FROM styx_messages m INDEXED BY styx_messages_ready
	WHERE m.queue = ? AND m.status = 0 AND m.due_at IS NULL AND m.priority > ?`
	lastPriorityText = `SELECT max(m.priority) FROM styx_messages m INDEXED BY styx_messages_ready
	WHERE m.queue = ? AND m.status = 0 AND m.due_at IS NULL`
)

func claimTextsOf(spec store.CursorSpec) claimTexts {
	var t claimTexts
	ofKind := ""
	if len(spec.Kinds) > 0 {
		ofKind = " AND m.kind IN (" + repeat("?", len(spec.Kinds)) + ")"
		for _, kind := range spec.Kinds {
			t.kinds = append(t.kinds, kind)
		}
	}
	const (
		dueOnes  = `styx_messages m INDEXED BY styx_messages_due WHERE m.queue = ? AND m.losses = 0 AND m.due_at > ? AND m.due_at <= `
		suspects = `styx_messages m INDEXED BY styx_messages_suspect WHERE m.queue = ? AND m.losses > 0 AND m.due_at <= `
	)
	// Nothing here reads more than what came since the last look, besides
	// rows that nobody can claim.
	t.look = `WITH ` + prioritiesText + `
	SELECT EXISTS (SELECT 1 FROM ` + dueOnes + clock + ` AND ` + claimable + ofKind + `)
	OR ? AND EXISTS (SELECT 1 FROM ` + suspects + clock + ` AND ` + claimable + ofKind + `)
	OR EXISTS (SELECT 1 FROM priorities p CROSS JOIN styx_messages m INDEXED BY styx_messages_ready
	    WHERE m.queue = ? AND m.priority = p.priority AND m.due_at IS NULL AND m.id > ? AND ` + claimable + ofKind + `),
	(` + nextDueText + `), ` + lastID + `, ` + clock
	t.suspect = `SELECT ` + hotColumns + ` FROM (
	SELECT m.id FROM ` + suspects + `? AND ` + claimable + ofKind + ` ORDER BY m.due_at LIMIT 1) w
	CROSS JOIN styx_messages m ON m.id = w.id LEFT JOIN styx_contents c ON c.id = m.id`
	t.due = `SELECT ` + hotColumns + ` FROM (
	SELECT w.id, w.priority FROM (
		SELECT m.id, m.priority FROM ` + dueOnes + `? AND ` + claimable + ofKind + `
		 ORDER BY m.due_at LIMIT ` + strconv.Itoa(dueWindow) + `) w
	 ORDER BY w.priority, w.id LIMIT ?) w
	CROSS JOIN styx_messages m ON m.id = w.id LEFT JOIN styx_contents c ON c.id = m.id
	ORDER BY w.priority, w.id`
	t.ready = `SELECT ` + hotColumns + `
	FROM styx_messages m INDEXED BY styx_messages_ready LEFT JOIN styx_contents c ON c.id = m.id
	WHERE m.queue = ? AND m.priority = ? AND m.due_at IS NULL AND m.id > ? AND ` + claimable + ofKind + `
	ORDER BY m.id LIMIT ?`
	return t
}

// pick adds the messages that a statement selects.
func (c *cursor) pick(w *work, got []store.Claimed, text string, args ...any) ([]store.Claimed, error) {
	rows, err := w.query(text, args...)
	if err != nil {
		return got, err
	}
	defer func() { _ = rows.Close() }()
	var r row
	dest := r.dest()
	for rows.Next() {
		if err := rows.Scan(dest...); err != nil {
			return got, err
		}
		m, err := r.message()
		if err != nil {
			return got, err
		}
		r.m.Headers = nil
		got = append(got, store.Claimed{Message: m})
	}
	return got, rows.Err()
}

// hold writes down that the worker has the messages, and completes them to
// what the rows are then. The lock is held since they were read, so no row
// can have changed.
func (c *cursor) hold(w *work, number, now int64, got []store.Claimed) error {
	if c.remote {
		return c.lend(w, now, got)
	}
	ids := make([]int64, len(got))
	own := (c.spec.Lease + abandonGrace).Microseconds()
	other := int64(-1)
	if c.spec.Timeout >= 0 {
		other = c.spec.Timeout.Microseconds()
	}
	for i := range got {
		m := &got[i]
		ids[i] = m.ID
		m.Status, m.WorkerID, m.RetryAfter = message.StatusProcessing, c.spec.WorkerID, timeOf(sql.NullInt64{})
		m.LeaseToken++
		timeout := micros(m.Timeout)
		if timeout == 0 {
			timeout = other
		}
		if timeout >= 0 {
			m.Deadline = time.UnixMicro(now + timeout + own).UTC()
		}
	}
	_, err := w.exec(`UPDATE styx_messages SET status = 1, lease_token = lease_token + 1, worker_id = ?, claim_number = ?,
	deadline = ? + CASE WHEN timeout_us = 0 THEN ? WHEN timeout_us > 0 THEN timeout_us END
	WHERE id IN (SELECT value FROM json_each(?))`, c.spec.WorkerID, number, now+own,
		sql.NullInt64{Int64: other, Valid: other >= 0}, jsonOf(ids))
	return err
}

// lend is hold for consumers without an incarnation. What a message says of
// its own timeout may count instead of the lease, but not that it has none:
// the deadline is all that ends such a lease.
func (c *cursor) lend(w *work, now int64, got []store.Claimed) error {
	ids := make([]int64, len(got))
	for i := range got {
		m := &got[i]
		ids[i] = m.ID
		m.Status, m.WorkerID, m.RetryAfter = message.StatusProcessing, store.RemoteWorker, time.Time{}
		m.LeaseToken++
		lease := c.spec.Lease
		if c.own && m.Timeout > 0 {
			lease = m.Timeout
		}
		m.UpdatedAt, m.Deadline = time.UnixMicro(now).UTC(), time.UnixMicro(now+micros(lease)).UTC()
	}
	_, err := w.exec(`UPDATE styx_messages SET status = 1, lease_token = lease_token + 1, worker_id = ?, claim_number = 0,
	updated_at = ?, deadline = ? + CASE WHEN ? AND timeout_us > 0 THEN timeout_us ELSE ? END
	WHERE id IN (SELECT value FROM json_each(?))`, store.RemoteWorker, now, now, c.own, micros(c.spec.Lease), jsonOf(ids))
	return err
}

// jsonOf writes ids as a JSON array, as json_each reads them.
func jsonOf(ids []int64) string {
	b := make([]byte, 0, 2+8*len(ids))
	b = append(b, '[')
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, id, 10)
	}
	return string(append(b, ']'))
}

// jsonTexts does so with texts.
func jsonTexts(texts []string) string {
	if len(texts) == 0 {
		return "[]"
	}
	b, err := json.Marshal(texts)
	if err != nil { // not of strings
		return "[]"
	}
	return string(b)
}
