package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"time"
)

// lookEvery is how often a listener looks for commits of others.
const lookEvery = 10 * time.Millisecond

// bell wakes the listeners of this process after a commit.
type bell struct {
	mu        sync.Mutex
	listeners map[*listener]struct{}
}

type listener struct {
	rung chan struct{} // holds one
	// queues with news, under the bell's mu
	queues map[string]struct{}
}

func (b *bell) join() *listener {
	l := &listener{rung: make(chan struct{}, 1), queues: map[string]struct{}{}}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.listeners == nil {
		b.listeners = map[*listener]struct{}{}
	}
	b.listeners[l] = struct{}{}
	return l
}

func (b *bell) leave(l *listener) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.listeners, l)
}

// ring never waits.
func (b *bell) ring(queues ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for l := range b.listeners {
		for _, queue := range queues {
			l.queues[queue] = struct{}{}
		}
		select {
		case l.rung <- struct{}{}:
		default:
		}
	}
}

func (b *bell) news(l *listener) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	queues := make([]string, 0, len(l.queues))
	for queue := range l.queues {
		queues = append(queues, queue)
	}
	clear(l.queues)
	return queues
}

// Listen calls wake at once after what a store of the same *sql.DB has
// committed. Commits of other processes and of the application's own
// transactions are seen within lookEvery by PRAGMA data_version, which
// changes on a connection whenever another one has committed, whatever that
// was. The connection is reserved; from a small pool one is taken for each
// look instead, which then misses what that connection itself has written.
func (s *Store) Listen(ctx context.Context, wake func(queue string)) error {
	l := s.common.bell.join()
	defer s.common.bell.leave(l)
	var reserved *sql.Conn
	if s.roomy() {
		c, err := s.sql.Conn(ctx)
		if err != nil {
			return listenError(ctx, s.mapError(ctx, err))
		}
		defer func() { _ = c.Close() }()
		reserved = c
	}
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	var last int64
	for first := true; ; first = false {
		now, err := s.dataVersion(ctx, reserved)
		if err != nil {
			return listenError(ctx, s.mapError(ctx, err))
		}
		if !first && now != last {
			wake("")
		}
		last = now
	wait:
		for {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-l.rung:
				for _, queue := range s.common.bell.news(l) {
					wake(queue)
				}
			case <-ticker.C:
				break wait
			}
		}
	}
}

func listenError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("listen for commits: %w", err)
}

func (s *Store) dataVersion(ctx context.Context, reserved *sql.Conn) (version int64, err error) {
	on := conn(s.sql)
	if reserved != nil {
		on = reserved
	}
	err = on.QueryRowContext(ctx, "PRAGMA data_version").Scan(&version)
	return version, err
}

// SetIdle does nothing: listeners are woken whether idle or not.
func (s *Store) SetIdle(context.Context, int64, string, bool) error { return nil }
