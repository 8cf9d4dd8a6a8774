package postgres

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/styxmq/styx/internal/store"
)

const (
	// groupFlights is how many inserts are under way before the next ones
	// wait for each other.
	groupFlights = 2
	// groupRows and groupBytes bound one group.
	groupRows, groupBytes = 256, 512 << 10
	// groupAlone is the size from which a payload goes by itself: it would
	// hold up the others.
	groupAlone = 32 << 10
)

// errAlone tells a member that the statement of its group was refused. Nothing
// of it was stored, and by itself each learns whether that was its own fault.
var errAlone = errors.New("the group was refused")

// groups lets messages that are enqueued one by one at the same time share a
// statement and its commit, which costs more than the rows. Nobody waits for
// company: while few inserts are under way each goes at once, and those that
// arrive meanwhile go together as soon as one of them has ended.
type groups struct {
	s *Store

	mu      sync.Mutex
	flights int
	waiting []*member
}

// member is a message that waits for its group.
type member struct {
	m      *store.NewMessage
	flight *flight       // of which it is part; nil before that has begun
	done   chan struct{} // closed when in and err are known
	in     store.Inserted
	err    error
}

// flight is a group under way.
type flight struct {
	members []*member
	present int // members whose callers still wait
	cancel  context.CancelFunc
}

// insert stores one message without a key, and returns when it is committed.
func (g *groups) insert(ctx context.Context, m *store.NewMessage) (store.Inserted, error) {
	if len(m.Payload) >= groupAlone {
		return g.alone(ctx, m)
	}
	g.mu.Lock()
	if g.flights < groupFlights {
		g.flights++
		g.mu.Unlock()
		defer g.landed(ctx)
		return g.alone(ctx, m)
	}
	w := &member{m: m, done: make(chan struct{})}
	g.waiting = append(g.waiting, w)
	g.mu.Unlock()
	select {
	case <-w.done:
	case <-ctx.Done():
		if !g.leave(w) {
			return store.Inserted{}, ctx.Err()
		}
	}
	if errors.Is(w.err, errAlone) {
		return g.alone(ctx, m)
	}
	return w.in, w.err
}

func (g *groups) alone(ctx context.Context, m *store.NewMessage) (store.Inserted, error) {
	in, _, err := g.s.insert(ctx, g.s.sql, m, false)
	return in, err
}

// leave takes a member out whose caller does not wait any longer, and reports
// whether its outcome is known all the same. The last to leave a flight ends
// it, and waits for that.
func (g *groups) leave(w *member) (known bool) {
	g.mu.Lock()
	f := w.flight
	if f == nil {
		g.waiting = slices.DeleteFunc(g.waiting, func(o *member) bool { return o == w })
		g.mu.Unlock()
		return false
	}
	f.present--
	last := f.present == 0
	g.mu.Unlock()
	if last {
		f.cancel()
		<-w.done
	}
	select {
	case <-w.done:
		return w.err == nil
	default:
		return false
	}
}

// landed lets those go who wait, when an insert has ended.
func (g *groups) landed(ctx context.Context) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) == 0 {
		g.flights--
		return
	}
	n, bytes := 0, 0
	for n < min(len(g.waiting), groupRows) && bytes < groupBytes {
		bytes += len(g.waiting[n].m.Payload)
		n++
	}
	f := &flight{members: slices.Clone(g.waiting[:n]), present: n}
	g.waiting = slices.Delete(g.waiting, 0, n)
	for _, w := range f.members {
		w.flight = f
	}
	// It ends with the last of its members, not with whoever made room.
	ctx, f.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go g.fly(ctx, f)
}

// fly stores a group. Its members' callers wait for it.
func (g *groups) fly(ctx context.Context, f *flight) {
	defer f.cancel()
	ms := make([]store.NewMessage, len(f.members))
	for i, w := range f.members {
		ms[i] = *w.m
	}
	out, _, err := g.s.insertChunk(ctx, g.s.sql, ms, nil, make([]store.Inserted, 0, len(ms)), chunkForm{mixed: !alike(ms)})
	if sqlState(err) != "" {
		err = errAlone
	}
	g.landed(ctx)
	for i, w := range f.members {
		if w.err = err; err == nil {
			w.in = out[i]
		}
		close(w.done)
	}
}

// alike reports whether messages differ in nothing but their payloads and have
// no options: then every other column is one value in the statement.
func alike(ms []store.NewMessage) bool {
	first := &ms[0]
	for i := range ms {
		m := &ms[i]
		if m.Queue != first.Queue || m.Kind != first.Kind || m.Priority != first.Priority ||
			m.MaxRetries != first.MaxRetries || m.Timeout != first.Timeout ||
			m.Tenant != "" || m.CorrelationID != "" || len(m.Headers) > 0 || m.Postponed() || m.ExpiresIn > 0 {
			return false
		}
	}
	return true
}
