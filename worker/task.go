package worker

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uptrace/bun"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// The states of a task. Whoever moves it out of running decides what becomes
// of the message; a handler that returns later changes nothing.
const (
	stateRunning int32 = iota
	stateReturned
	stateAbandoned
	stateLost
)

// task is one attempt, and the context of its handler.
type task struct {
	context.Context // ends by cancel
	cancel          context.CancelCauseFunc

	r       *run
	inc     *incarnation
	queue   *queue
	handler *handler
	number  int64
	m       *store.Claimed
	started time.Time
	suspect bool

	state    atomic.Int32
	freed    atomic.Bool
	txUsed   atomic.Bool
	moved    atomic.Bool // the row has a new version: its place is stale
	mu       sync.Mutex
	timer    *time.Timer
	deadline time.Time
}

// Deadline is when the attempt times out; Extend moves it.
func (t *task) Deadline() (time.Time, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.deadline, !t.deadline.IsZero()
}

// arm starts the attempt's clock.
func (t *task) arm(timeout time.Duration) {
	if timeout < 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.deadline = time.Now().Add(timeout)
	t.timer = time.AfterFunc(timeout, t.timeout)
}

// timeout ends the context, and abandons the handler when it has not
// returned a while later.
func (t *task) timeout() {
	if t.state.Load() != stateRunning {
		return
	}
	t.mu.Lock()
	if left := time.Until(t.deadline); left > 0 { // extended meanwhile
		t.timer.Reset(left)
		t.mu.Unlock()
		return
	}
	t.timer = time.AfterFunc(abandonAfter, t.abandon)
	t.mu.Unlock()
	t.cancel(ErrTimeout)
}

// abandon gives up on a handler that ignores its context.
func (t *task) abandon() {
	if t.state.CompareAndSwap(stateRunning, stateAbandoned) {
		t.r.abandoned(t, ErrTimeout)
	}
}

func (t *task) stopTimer() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer != nil {
		t.timer.Stop()
	}
}

// loseLease ends the task because the message is not this worker's any more.
func (t *task) loseLease() {
	if t.state.CompareAndSwap(stateRunning, stateLost) {
		t.cancel(message.ErrLeaseLost)
		t.stopTimer()
		t.r.adrift(t)
		t.inc.remove(t)
		t.r.busy.Add(-1)
		t.r.log.lost(t)
	}
}

func (t *task) extend(ctx context.Context, d time.Duration) error {
	if d <= 0 || d > message.MaxTimeout {
		return &message.ValidationError{
			Field: "d", Code: message.CodeOutOfRange, Message: "an extension must be positive and at most 30 days.",
		}
	}
	if t.state.Load() != stateRunning {
		return message.ErrLeaseLost
	}
	t.moved.Store(true)
	_, err := t.r.store.Extend(ctx, t.inc.id, t.m.ID, t.m.LeaseToken, d+abandonAfter+t.r.cfg.Lease)
	if errors.Is(err, message.ErrLeaseLost) {
		t.loseLease()
		return err
	}
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.Err() != nil {
		return context.Cause(t.Context)
	}
	t.deadline = time.Now().Add(d)
	if t.timer == nil {
		t.timer = time.AfterFunc(d, t.timeout)
	} else {
		t.timer.Reset(d)
	}
	return nil
}

func (t *task) completeTx(ctx context.Context, tx bun.IConn) error {
	if t.state.Load() != stateRunning {
		return message.ErrLeaseLost
	}
	t.txUsed.Store(true)
	return t.r.store.SettleTx(ctx, tx, t.inc.id, store.Settlement{
		ID: t.m.ID, Token: t.m.LeaseToken, Verb: store.Succeed, Keyed: t.m.IdempotencyKey != "",
		Elapsed: time.Since(t.started),
	})
}
