package sqlite

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// groupSize is the largest number of single enqueues in one transaction.
const groupSize = 500

// group collects single enqueues while the transaction before is under way,
// and writes them together. Whoever finds nobody writing starts a writer,
// which ends when nobody waits any more.
type group struct {
	mu      sync.Mutex
	writing bool
	waiting []*enqueue
}

// The states of an enqueue in a group.
const (
	enqueueWaits = iota
	enqueueWritten
	enqueueWithdrawn
)

type enqueue struct {
	row   newRow
	state atomic.Int32
	done  chan struct{}
	out   store.Inserted
	err   error
}

func (g *group) insert(ctx context.Context, s *Store, row newRow) (store.Inserted, error) {
	if err := ctx.Err(); err != nil {
		return store.Inserted{}, err
	}
	e := &enqueue{row: row, done: make(chan struct{})}
	g.mu.Lock()
	g.waiting = append(g.waiting, e)
	start := !g.writing
	g.writing = true
	g.mu.Unlock()
	if start {
		go g.write(context.WithoutCancel(ctx), s)
	}
	select {
	case <-e.done:
		return e.out, e.err
	case <-ctx.Done():
		e.state.CompareAndSwap(enqueueWaits, enqueueWithdrawn)
		return store.Inserted{}, ctx.Err()
	}
}

// write writes groups until nobody waits.
func (g *group) write(ctx context.Context, s *Store) {
	for {
		var taken []*enqueue
		err := s.write(ctx, func(w *work) error {
			// Only now, with the lock, so that those come along who
			// arrived while it was waited for.
			taken = g.take()
			return insertGroup(ctx, w, taken)
		})
		if err != nil && len(taken) == 0 {
			taken = g.take()
		}
		queues := map[string]struct{}{}
		for _, e := range taken {
			if err != nil {
				e.out, e.err = store.Inserted{}, err
			}
			if e.err == nil {
				queues[e.row.Queue] = struct{}{}
			}
			close(e.done)
		}
		for queue := range queues {
			s.common.bell.ring(queue)
		}
		runtime.Gosched() // those who were answered come again with the next group
		g.mu.Lock()
		if len(g.waiting) == 0 {
			g.writing = false
			g.mu.Unlock()
			return
		}
		g.mu.Unlock()
	}
}

// insertGroup answers those whose key is held, and stores the others.
func insertGroup(ctx context.Context, w *work, taken []*enqueue) error {
	var plain []*enqueue
	var rows []newRow
	for _, e := range taken {
		if e.row.IdempotencyKey == "" {
			plain, rows = append(plain, e), append(rows, e.row)
			continue
		}
		out, err := insertAll(ctx, w, []newRow{e.row})
		if _, refused := errors.AsType[*message.DuplicateError](err); refused {
			e.err = err
			continue
		}
		if err != nil {
			return err
		}
		e.out = out[0]
	}
	out, err := insertAll(ctx, w, rows)
	for i := range out {
		plain[i].out = out[i]
	}
	return err
}

// take removes those who still wait, up to groupSize.
func (g *group) take() []*enqueue {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := min(groupSize, len(g.waiting))
	taken := make([]*enqueue, 0, n)
	for _, e := range g.waiting[:n] {
		if e.state.CompareAndSwap(enqueueWaits, enqueueWritten) {
			taken = append(taken, e)
		}
	}
	g.waiting = append(g.waiting[:0:0], g.waiting[n:]...)
	return taken
}
