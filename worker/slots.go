package worker

import (
	"context"
	"sync"
	"time"
)

// gather is how long a fetcher waits for more slots when handlers end in
// quick succession, so that it claims batches and not single messages.
const gather = 500 * time.Microsecond

// slots counts the handlers that may still start.
type slots struct {
	mu     sync.Mutex
	free   int
	size   int
	signal chan struct{} // holds a token when a slot was freed
}

func newSlots(n int) *slots {
	return &slots{free: n, size: n, signal: make(chan struct{}, 1)}
}

func (s *slots) take(n int) {
	s.mu.Lock()
	s.free -= n
	s.mu.Unlock()
}

func (s *slots) give(n int) {
	s.mu.Lock()
	s.free += n
	s.mu.Unlock()
	select {
	case s.signal <- struct{}{}:
	default:
	}
}

func (s *slots) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.free
}

// wait blocks until a slot is free, and a moment longer when only few are.
// It returns 0 when ctx has ended.
func (s *slots) wait(ctx context.Context) int {
	for {
		if ctx.Err() != nil {
			return 0
		}
		n := s.count()
		if n > 0 {
			if n*4 < s.size && s.size >= 16 {
				select {
				case <-ctx.Done():
					return 0
				case <-time.After(gather):
				}
				n = s.count()
			}
			return n
		}
		select {
		case <-ctx.Done():
			return 0
		case <-s.signal:
		}
	}
}
