package worker

import (
	"context"
	"sync/atomic"
	"time"
)

// gather is how long a fetcher waits for more slots when handlers end in
// quick succession, so that it claims batches and not single messages.
const gather = 500 * time.Microsecond

// slots counts the handlers that may still start.
type slots struct {
	size    int
	free    atomic.Int64
	waiting atomic.Bool
	signal  chan struct{} // holds a token when a slot was freed for whoever waits
}

func newSlots(n int) *slots {
	s := &slots{size: n, signal: make(chan struct{}, 1)}
	s.free.Store(int64(n))
	return s
}

func (s *slots) take(n int) { s.free.Add(int64(-n)) }

func (s *slots) give(n int) {
	s.free.Add(int64(n))
	if s.waiting.Load() && s.waiting.CompareAndSwap(true, false) {
		select {
		case s.signal <- struct{}{}:
		default:
		}
	}
}

func (s *slots) count() int { return int(s.free.Load()) }

// wait blocks until a slot is free, and a moment longer when only few are.
// It returns 0 when ctx has ended. One goroutine may wait.
func (s *slots) wait(ctx context.Context) int {
	for {
		if ctx.Err() != nil {
			return 0
		}
		s.waiting.Store(true)
		n := s.count()
		if n > 0 {
			s.waiting.Store(false)
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
