package postgres

import (
	"context"
	"database/sql"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// pulse beats on a reserved connection, so that handlers which use up the
// pool cannot keep a worker from showing its life.
type pulse struct {
	s    *Store
	conn *sql.Conn
}

// Pulse reserves a connection. After an error Beat reserves another.
func (s *Store) Pulse(ctx context.Context) (store.Pulse, error) {
	conn, err := s.sql.Conn(ctx)
	if err != nil {
		return nil, mapError(err)
	}
	return &pulse{s: s, conn: conn}, nil
}

// Beat renews the worker's row, whose indexes it does not touch, deletes the
// claims rows that are done with and releases orphans. A beat that comes
// after the lease is over is refused, so that a worker which others may
// already count as dead never comes back to life.
func (p *pulse) Beat(ctx context.Context, b store.Beat) (store.BeatReply, error) {
	if p.conn == nil {
		conn, err := p.s.sql.Conn(ctx)
		if err != nil {
			return store.BeatReply{}, mapError(err)
		}
		p.conn = conn
	}
	reply, err := p.beat(ctx, b)
	if err != nil && err != message.ErrLeaseLost { //nolint:errorlint // returned as it is by beat
		_ = p.conn.Close()
		p.conn = nil
	}
	return reply, err
}

func (p *pulse) beat(ctx context.Context, b store.Beat) (reply store.BeatReply, err error) {
	var alive int
	if err := p.conn.QueryRowContext(ctx, p.s.text(`WITH alive AS (
	UPDATE {{s}}workers SET beat_at = clock_timestamp()
	 WHERE id = $1 AND dead_at IS NULL AND beat_at > clock_timestamp() - lease_ms * interval '1 ms' RETURNING id
), done AS (
	DELETE FROM {{s}}claims WHERE worker_id = $1 AND number = ANY($2::bigint[])
)
SELECT count(*) FROM alive`), b.WorkerID, intArray(b.Done)).Scan(&alive); err != nil {
		return reply, mapError(err)
	}
	if alive == 0 {
		return reply, message.ErrLeaseLost
	}
	// What stands under this worker's name without its knowledge: the reply
	// to the claim was lost. Found by the primary keys of both tables.
	err = p.conn.QueryRowContext(ctx, p.s.text(`WITH orphan AS (
	DELETE FROM {{s}}claims WHERE worker_id = $1 AND number <= $2 AND number <> ALL($3::bigint[]) RETURNING ids
), back AS (
	UPDATE {{s}}messages m
	   SET status = 0, worker_id = 0, deadline = '-infinity', due_at = clock_timestamp(), updated_at = clock_timestamp()
	 WHERE m.id = ANY(ARRAY(SELECT unnest(ids) FROM orphan)) AND m.worker_id = $1 AND m.status = 1
	RETURNING 1
)
SELECT count(*) FROM back`), b.WorkerID, b.UpTo, intArray(b.Known)).Scan(&reply.Orphans)
	return reply, mapError(err)
}

// Close gives the connection back to the pool.
func (p *pulse) Close() error {
	if p.conn == nil {
		return nil
	}
	return p.conn.Close()
}
