package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// ClaimRemote claims with a cursor of its own from a pool.
func (s *Store) ClaimRemote(ctx context.Context, r store.RemoteClaim) ([]message.Message, error) {
	key := store.CursorKey(r.Queue, r.Kinds)
	c, more := s.remotes.Borrow(key, func() *cursor {
		return s.newCursor(store.CursorSpec{WorkerID: store.RemoteWorker, Queue: r.Queue, Kinds: r.Kinds})
	})
	c.remote, c.own, c.spec.Lease = true, r.Lease <= 0, r.Lease
	if c.own {
		c.spec.Lease = r.Default
	}
	got, more, err := c.gather(ctx, r.Limit, more)
	s.remotes.Return(key, c, more)
	if err != nil && len(got) == 0 {
		return nil, err
	}
	messages := make([]message.Message, len(got))
	for i := range got {
		messages[i] = got[i].Message
	}
	return messages, nil
}

// gather claims until it has limit messages or nothing more is there. A
// suspect comes first and alone. What was claimed before an error is returned
// beside it.
func (c *cursor) gather(ctx context.Context, limit int, more bool) (got []store.Claimed, again bool, err error) {
	if !more {
		c.more, c.turns = false, 0
	}
	for len(got) < limit {
		looked := !c.more
		batch, err := c.Claim(ctx, store.ClaimRequest{Limit: limit - len(got), Suspect: len(got) == 0})
		if err != nil {
			return got, false, err
		}
		got, again = append(got, batch.Messages...), batch.Again
		if len(got) > 0 && (got[0].WorkerLosses > 0 || !again) || len(got) == 0 && !again && looked {
			break
		}
	}
	return got, again, nil
}

// exactDelay is 2, 4, 8, 16 … seconds by the number of the attempt, an hour
// at most.
func exactDelay(n int) time.Duration {
	const doublings = 20 // far beyond the cap
	return min(delayCap, firstDelay<<min(max(n-1, 0), doublings))
}

// ExtendRemote moves the deadline of a held message, found by its primary key.
func (s *Store) ExtendRemote(ctx context.Context, queue string, id, token int64, d time.Duration) (deadline time.Time, err error) {
	var refused error
	err = s.write(ctx, func(w *work) error {
		now, err := w.clock()
		if err != nil {
			return err
		}
		at := now + micros(max(0, d))
		changed, err := w.change(`UPDATE styx_messages SET deadline = ?, updated_at = ?
		WHERE id = ? AND queue = ? AND status = 1 AND ? IN (0, lease_token)`, at, now, id, queue, token)
		if err == nil && changed == 0 {
			refused, err = refusal(w, queue, &store.Settlement{ID: id, Token: token})
			return err
		}
		deadline = time.UnixMicro(at).UTC()
		return err
	})
	if err != nil {
		return time.Time{}, fmt.Errorf("extend message %d: %w", id, err)
	}
	return deadline, refused
}
