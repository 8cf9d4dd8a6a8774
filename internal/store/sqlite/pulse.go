package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// pulse beats on a reserved connection, so that handlers which use up the
// pool cannot keep a worker from showing its life. Its beats go to the front
// of the writers of this process.
type pulse struct {
	s *Store
	// conn is nil with a small pool and after an error.
	conn *sql.Conn
}

// Pulse reserves a connection, unless the pool is small. After an error Beat
// reserves another.
func (s *Store) Pulse(ctx context.Context) (store.Pulse, error) {
	p := &pulse{s: s}
	if !s.roomy() {
		return p, nil
	}
	var err error
	if p.conn, err = s.sql.Conn(ctx); err != nil {
		return nil, fmt.Errorf("reserve a connection for beats: %w", s.mapError(ctx, err))
	}
	return p, nil
}

// Beat renews the worker's row and releases orphans. A beat that comes after
// the lease is over is refused, so that a worker which others may already
// count as dead never comes back to life.
func (p *pulse) Beat(ctx context.Context, b store.Beat) (reply store.BeatReply, err error) {
	reply, err = p.beat(ctx, b)
	switch {
	case err == nil, errors.Is(err, message.ErrLeaseLost):
		return reply, err
	case p.conn != nil:
		_ = p.conn.Close()
		p.conn = nil
	}
	return reply, fmt.Errorf("beat for worker %d: %w", b.WorkerID, err)
}

func (p *pulse) beat(ctx context.Context, b store.Beat) (reply store.BeatReply, err error) {
	var on beginner = p.s.sql
	if p.s.roomy() {
		if p.conn == nil {
			if p.conn, err = p.s.sql.Conn(ctx); err != nil {
				return reply, p.s.mapError(ctx, err)
			}
		}
		on = p.conn
	}
	alive := 0
	err = p.s.writeOn(ctx, on, true, func(w *work) error {
		now, err := w.clock()
		if err != nil {
			return err
		}
		alive, err = w.change(`UPDATE styx_workers SET beat_at = ?
		WHERE id = ? AND dead_at IS NULL AND beat_at + lease_us >= ?`, now, b.WorkerID, now)
		if err != nil || alive == 0 {
			return err
		}
		// What stands under this worker's name without its knowledge: the
		// reply to the claim was lost. Found by styx_messages_held.
		reply.Orphans, err = w.change(`UPDATE styx_messages INDEXED BY styx_messages_held
		SET status = 0, worker_id = 0, claim_number = 0, deadline = NULL, due_at = ?, updated_at = ?
		WHERE status = 1 AND worker_id = ? AND claim_number <= ? AND claim_number NOT IN (SELECT value FROM json_each(?))`,
			now, now, b.WorkerID, b.UpTo, jsonOf(b.Known))
		return err
	})
	if err != nil {
		return store.BeatReply{}, err
	}
	if alive == 0 {
		return store.BeatReply{}, message.ErrLeaseLost
	}
	return reply, nil
}

// Close gives the connection back to the pool.
func (p *pulse) Close() error {
	if p.conn == nil {
		return nil
	}
	c := p.conn
	p.conn = nil
	return c.Close()
}
