package client

import (
	"context"
	"slices"
	"sync"

	"github.com/styxmq/styx/internal/store"
)

// waits are the claims of a client that wait. While there is one, a watch
// wakes them; the last to leave ends it. The zero value is ready.
type waits struct {
	mu     sync.Mutex
	crowds map[string]*crowd
	count  int
	watch  *watch // nil without anybody
}

// crowd are those who wait for the same: the same kinds of the same queue.
type crowd struct {
	key, queue string
	waiting    []*waiter // whose turn it is stands first
}

// waiter is a claim that waits.
type waiter struct {
	of    *crowd
	woken chan struct{} // holds one
}

func (ws *waits) join(ctx context.Context, st store.Store, r store.RemoteClaim) *waiter {
	key := store.CursorKey(r.Queue, r.Kinds)
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.crowds == nil {
		ws.crowds = map[string]*crowd{}
	}
	c := ws.crowds[key]
	if c == nil {
		c = &crowd{key: key, queue: r.Queue}
		ws.crowds[key] = c
	}
	w := &waiter{of: c, woken: make(chan struct{}, 1)}
	c.waiting = append(c.waiting, w)
	if ws.count++; ws.watch == nil {
		ws.watch = startWatch(ctx, ws, st)
	}
	ws.watch.look()
	return w
}

// leave takes the waiter out. A wake-up that it has not used is for another.
// The last one ends the watch and waits for that.
func (ws *waits) leave(w *waiter) {
	ws.mu.Lock()
	c := w.of
	c.waiting = slices.DeleteFunc(c.waiting, func(o *waiter) bool { return o == w })
	select {
	case <-w.woken:
		c.wake(1)
	default:
	}
	if len(c.waiting) == 0 {
		delete(ws.crowds, c.key)
	}
	var last *watch
	if ws.count--; ws.count == 0 {
		last, ws.watch = ws.watch, nil
	}
	ws.mu.Unlock()
	if last != nil {
		last.stop()
	}
}

// more says that a waiter found something: there may be more.
func (ws *waits) more(w *waiter) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	select {
	case <-w.woken: // it has no use for it any more
	default:
	}
	w.of.wake(wakeFew)
}

// wake wakes up to n of each crowd of the queue, of every queue for "".
func (ws *waits) wake(queue string, n int) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, c := range ws.crowds {
		if queue == "" || c.queue == queue {
			c.wake(n)
		}
	}
}

// wake wakes the first n that are not awake; they go to the end.
func (c *crowd) wake(n int) {
	passed := 0
	for _, w := range c.waiting {
		if n == 0 {
			break
		}
		passed++
		select {
		case w.woken <- struct{}{}:
			n--
		default:
		}
	}
	if passed < len(c.waiting) {
		c.waiting = append(slices.Clone(c.waiting[passed:]), c.waiting[:passed]...)
	}
}

// queues are those that somebody waits at.
func (ws *waits) queues() map[string]struct{} {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	queues := make(map[string]struct{}, len(ws.crowds))
	for _, c := range ws.crowds {
		queues[c.queue] = struct{}{}
	}
	return queues
}
