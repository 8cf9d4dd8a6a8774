package worker

import (
	"sync"
	"time"

	"github.com/styxmq/styx/internal/store"
)

// incarnation is one registration of a worker in the database. When it is
// found dead the worker gives up what it held and registers anew.
type incarnation struct {
	id     int64
	ledger *ledger
	ended  chan struct{} // closed when it is dead
	once   sync.Once

	mu    sync.Mutex
	tasks *task // running or not settled yet, a list by next and prev
	count int
}

func newIncarnation(id int64) *incarnation {
	return &incarnation{id: id, ledger: newLedger(), ended: make(chan struct{})}
}

func (i *incarnation) add(tasks []*task) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, t := range tasks {
		if t.next = i.tasks; t.next != nil {
			t.next.prev = t
		}
		i.tasks, t.listed = t, true
	}
	i.count += len(tasks)
}

// remove ends the incarnation's interest in tasks, in one go for a batch.
func (i *incarnation) remove(tasks ...*task) {
	i.mu.Lock()
	for _, t := range tasks {
		if !t.listed {
			continue
		}
		if t.next != nil {
			t.next.prev = t.prev
		}
		if t.prev != nil {
			t.prev.next = t.next
		} else {
			i.tasks = t.next
		}
		t.next, t.prev, t.listed = nil, nil, false
		i.count--
	}
	i.mu.Unlock()
	i.ledger.settled(tasks)
}

func (i *incarnation) all() []*task {
	i.mu.Lock()
	defer i.mu.Unlock()
	out := make([]*task, 0, i.count)
	for t := i.tasks; t != nil; t = t.next {
		out = append(out, t)
	}
	return out
}

// old returns the leases of tasks that have run for longer than d: those
// worth asking after.
func (i *incarnation) old(d time.Duration) map[store.Lease]*task {
	out := map[store.Lease]*task{}
	now := time.Now()
	for _, t := range i.all() {
		if now.Sub(t.claimed) >= d && t.state.Load() == stateRunning {
			out[store.Lease{ID: t.m.ID, Token: t.m.LeaseToken}] = t
		}
	}
	return out
}

// interrupt ends the context of every handler that runs.
func (i *incarnation) interrupt(cause error) {
	for _, t := range i.all() {
		t.cancel(cause)
	}
}

// end declares the incarnation dead: every handler's context ends, and
// nothing that they return counts.
func (i *incarnation) end() {
	i.once.Do(func() {
		close(i.ended)
		for _, t := range i.all() {
			t.loseLease()
		}
	})
}

func (i *incarnation) dead() bool {
	select {
	case <-i.ended:
		return true
	default:
		return false
	}
}
