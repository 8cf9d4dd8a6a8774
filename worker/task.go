package worker

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uptrace/bun"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/origin"
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
	batch   *batch
	inc     *incarnation
	queue   *queue
	handler *handler
	number  int64
	m       *store.Claimed
	claimed time.Time
	suspect bool
	turn    bool // it has a slot

	state    atomic.Int32
	freed    atomic.Bool
	attempt  atomic.Pointer[attempt] // nil before it begins, and without a trace
	txUsed   atomic.Bool
	moved    atomic.Bool // the row has a new version: its place is stale
	mu       sync.Mutex
	began    time.Time // zero before its turn
	deadline time.Time
	overdue  *time.Timer // abandons the handler after its timeout

	next, prev *task // the incarnation's list
	listed     bool
}

// Deadline is when the attempt times out; Extend moves it.
func (t *task) Deadline() (time.Time, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.deadline, !t.deadline.IsZero()
}

// begin starts the clock of the attempt and returns its deadline.
func (t *task) begin(now time.Time) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.began = now
	if d := t.r.timeoutOf(t); d >= 0 {
		t.deadline = now.Add(d)
	}
	return t.deadline
}

// elapsed is how long ago it began.
func (t *task) elapsed() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.began.IsZero() {
		return 0
	}
	return time.Since(t.began)
}

// Value answers for the message and the task; the rest is for the context
// inside.
func (t *task) Value(key any) any {
	switch key {
	case origin.Key:
		return &t.m.Message
	case any(taskKey{}):
		return t
	}
	return t.Context.Value(key)
}

// timeout ends the context when the attempt has used up its time, and abandons
// the handler when it has not returned a while later. It returns the deadline
// if that has not come.
func (t *task) timeout() time.Time {
	if t.state.Load() != stateRunning {
		return time.Time{}
	}
	t.mu.Lock()
	switch {
	case t.deadline.IsZero() || t.overdue != nil:
		t.mu.Unlock()
		return time.Time{}
	case time.Until(t.deadline) > 0:
		defer t.mu.Unlock()
		return t.deadline
	}
	t.overdue = time.AfterFunc(abandonAfter, t.abandon)
	t.mu.Unlock()
	t.cancel(ErrTimeout)
	return time.Time{}
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
	if t.overdue != nil {
		t.overdue.Stop()
	}
}

// loseLease ends the task because the message is not this worker's any more.
func (t *task) loseLease() {
	if t.state.CompareAndSwap(stateRunning, stateLost) {
		t.cancel(message.ErrLeaseLost)
		t.stopTimer()
		t.r.adrift(t)
		t.endLost()
		t.inc.remove(t)
		t.r.busy.Add(-1)
		t.r.measureOne(t, true)
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
	if t.Err() != nil {
		t.mu.Unlock()
		return context.Cause(t.Context)
	}
	at := time.Now().Add(d)
	t.deadline = at
	t.mu.Unlock()
	t.batch.watch(at)
	return nil
}

func (t *task) completeTx(ctx context.Context, tx bun.IConn) error {
	if t.state.Load() != stateRunning {
		return message.ErrLeaseLost
	}
	t.txUsed.Store(true)
	return t.r.store.SettleTx(ctx, tx, t.inc.id, store.Settlement{
		ID: t.m.ID, Token: t.m.LeaseToken, Verb: store.Succeed, Keyed: t.m.IdempotencyKey != "",
		Elapsed: t.elapsed(),
	})
}
