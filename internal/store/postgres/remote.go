package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// ClaimRemote claims with a cursor of its own from a pool, so that claims at
// once do not wait for each other. A queue that had more a moment ago is
// claimed from at once; any other is looked at first, so that whatever was
// committed before the call is seen.
func (s *Store) ClaimRemote(ctx context.Context, r store.RemoteClaim) ([]message.Message, error) {
	key := store.CursorKey(r.Queue, r.Kinds)
	c, more := s.remotes.Borrow(key, func() *cursor {
		return s.newCursor(store.CursorSpec{WorkerID: store.RemoteWorker, Queue: r.Queue, Kinds: r.Kinds})
	})
	c.remote, c.spec.Lease, c.own = true, r.Lease, 0
	if r.Lease <= 0 {
		c.spec.Lease, c.own = r.Default, 1
	}
	got, more, err := c.gather(ctx, r.Limit, more)
	s.remotes.Return(key, c, more)
	if err != nil && len(got) == 0 {
		return nil, fmt.Errorf("claim from queue %q: %w", r.Queue, err)
	}
	messages := make([]message.Message, len(got))
	for i := range got {
		m := &got[i].Message
		m.RetryAfter, m.Deadline, m.UpdatedAt = time.Time{}, m.Deadline.UTC(), m.UpdatedAt.UTC()
		messages[i] = *m
	}
	return messages, nil
}

// gather claims until it has limit messages or nothing more is there. A
// suspect comes first and alone. What was claimed before an error is returned
// beside it.
func (c *cursor) gather(ctx context.Context, limit int, more bool) (got []store.Claimed, again bool, err error) {
	if !more {
		c.wake = true
	}
	looked := c.wake
	for len(got) < limit {
		batch, err := c.Claim(ctx, store.ClaimRequest{Limit: limit - len(got), Suspect: len(got) == 0})
		if err != nil {
			return got, false, err
		}
		got, again = append(got, batch.Messages...), batch.Again
		switch {
		case len(got) > 0 && got[0].WorkerLosses > 0:
			return got, again, nil
		case again:
		case len(got) == 0 && !looked:
			c.wake, looked = true, true
		default:
			return got, false, nil
		}
	}
	return got, again, nil
}

// ExtendRemote moves the deadline of a held message and, where no worker beats
// for it, the claims row that tells the reaper. Locks the row, found by its
// primary key. It changes no indexed column of the message.
func (s *Store) ExtendRemote(ctx context.Context, queue string, id, token int64, d time.Duration) (time.Time, error) {
	asked := store.Settlement{ID: id, Token: token}
	for try := 1; ; try++ {
		var deadline time.Time
		err := s.sql.QueryRowContext(ctx, s.text(`WITH held AS (
	UPDATE {{s}}messages m SET deadline = clock_timestamp() + $4::bigint * interval '1 ms', updated_at = clock_timestamp()
	 WHERE m.id = $1 AND m.queue = $2 AND m.status = 1 AND ($3::bigint = 0 OR m.lease_token = $3)
	RETURNING m.id, m.worker_id, m.deadline
), hint AS (
	INSERT INTO {{s}}claims (worker_id, number, deadline, ids)
	SELECT h.worker_id, h.id, h.deadline, ARRAY[h.id] FROM held h WHERE h.worker_id = `+remoteID+`
	ON CONFLICT (worker_id, number) DO UPDATE SET deadline = excluded.deadline, ids = excluded.ids
)
SELECT deadline FROM held`), id, queue, token, d.Milliseconds()).Scan(&deadline)
		switch {
		case err == nil:
			return deadline.UTC(), nil
		case !errors.Is(err, sql.ErrNoRows):
			return time.Time{}, fmt.Errorf("extend message %d: %w", id, mapError(err))
		}
		if held, err := s.refusal(ctx, queue, &asked); !held || try == operateTries {
			return time.Time{}, err
		}
	}
}
