package worker

import (
	"sync"
	"sync/atomic"
	"time"
)

// batch is the messages of one claim and the clock of their timeouts. They
// share it, since setting a timer costs and hardly one ever goes off.
type batch struct {
	tasks []task
	waits time.Time    // when those that wait for a slot are given back
	left  atomic.Int64 // tasks whose handler has not returned

	mu    sync.Mutex
	timer *time.Timer
	next  time.Time // when it goes off; zero when it does not
	over  bool
}

// watch makes the clock go off at the time, unless it does so earlier.
func (b *batch) watch(at time.Time) {
	if at.IsZero() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.over || !b.next.IsZero() && !at.Before(b.next):
		return
	case b.timer == nil:
		b.timer = time.AfterFunc(time.Until(at), b.tick)
	default:
		b.timer.Reset(time.Until(at))
	}
	b.next = at
}

// tick times out what is due, and gives back what has waited for too long.
func (b *batch) tick() {
	b.mu.Lock()
	b.next = time.Time{}
	b.mu.Unlock()
	var next time.Time
	switch {
	case b.waits.IsZero():
	case time.Until(b.waits) > 0:
		next = b.waits
	default:
		first := &b.tasks[0]
		first.r.unwait(first.queue, func(t *task) bool { return t.batch == b }, "waited for a slot")
	}
	for i := range b.tasks {
		if at := b.tasks[i].timeout(); !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	b.watch(next)
}

// returned counts a handler that has returned. After the last one nothing
// holds the messages any more.
func (b *batch) returned() {
	if b.left.Add(-1) > 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over = true
	if b.timer != nil {
		b.timer.Stop()
	}
}
