package worker

import (
	"context"
	"sync/atomic"
	"time"
)

// gather is how long a fetcher waits for more slots when handlers end in
// quick succession, so that it claims batches and not single messages.
const gather = 500 * time.Microsecond

// slots counts the handlers that may still start; it is negative while
// messages are held ahead.
type slots struct {
	size   int
	free   atomic.Int64
	want   atomic.Int64  // free, from which on the one who waits is told; asleep: nobody waits
	signal chan struct{} // holds a token when that was so
}

// asleep is more than there can be.
const asleep = 1 << 62

func newSlots(n int) *slots {
	s := &slots{size: n, signal: make(chan struct{}, 1)}
	s.free.Store(int64(n))
	s.want.Store(asleep)
	return s
}

func (s *slots) take(n int) { s.free.Add(int64(-n)) }

func (s *slots) give(n int) {
	free := s.free.Add(int64(n))
	if want := s.want.Load(); free >= want && s.want.CompareAndSwap(want, asleep) {
		select {
		case s.signal <- struct{}{}:
		default:
		}
	}
}

// room is how many messages may be claimed now.
func (s *slots) room(ahead func() int) int { return int(s.free.Load()) + ahead() }

// wait blocks until messages are worth claiming and returns how many: as many
// as slots are free, for which it waits a moment longer when these are few, and
// what ahead says besides. Half of the latter may be in hand still. It returns
// 0 when ctx has ended. One goroutine may wait.
func (s *slots) wait(ctx context.Context, ahead func() int) int {
	for {
		if ctx.Err() != nil {
			return 0
		}
		more := ahead()
		want := int64(min(1, 1-more/2))
		s.want.Store(want)
		if n := s.free.Load(); n >= want {
			s.want.Store(asleep)
			if more == 0 && n*4 < int64(s.size) && s.size >= 16 {
				select {
				case <-ctx.Done():
					return 0
				case <-time.After(gather):
				}
			}
			if n := s.room(ahead); n > 0 {
				return n
			}
			continue
		}
		select {
		case <-ctx.Done():
			return 0
		case <-s.signal:
		}
	}
}
