package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// lookTimeout bounds the look at the row after a CompleteTx.
const lookTimeout = 10 * time.Second

// execute runs one attempt to its end and returns the task whose turn it is
// then.
func (r *run) execute(t *task) (next *task) {
	ended := false
	defer func() {
		next = r.returned(t)
		if !ended && next != nil { // Goexit
			r.crew.add([]*task{next})
		}
	}()
	if t.began.IsZero() {
		t.batch.watch(t.begin(time.Now()))
	}
	if t.state.Load() != stateRunning { // not held any more
		ended = true
		return nil
	}
	ctx := r.enter(t)
	r.started(ctx, t)
	r.conclude(t, r.invoke(ctx, t))
	ended = true
	return nil
}

// conclude settles a task whose handler has come to its end.
func (r *run) conclude(t *task, err error) {
	if t.txUsed.Load() {
		done, lookErr := r.committed(t)
		switch {
		case done:
			if t.state.CompareAndSwap(stateRunning, stateReturned) {
				t.stopTimer()
				s := store.Settlement{Verb: store.Succeed}
				t.endWith(&s)
				r.told(t, &s)
				r.measureOne(t, false)
				t.inc.remove(t)
				r.busy.Add(-1)
			}
			return
		case err == nil && lookErr != nil:
			err = lookErr
		case err == nil:
			err = errNotCommitted
		}
	}
	if !t.state.CompareAndSwap(stateRunning, stateReturned) {
		return
	}
	t.stopTimer()
	s := r.decide(t, err)
	t.endWith(&s)
	r.settler.put(t, s)
}

var errNotCommitted = errors.New("worker: CompleteTx was called, but its transaction was not committed")

// committed looks whether a CompleteTx was committed.
func (r *run) committed(t *task) (bool, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context), lookTimeout)
	defer cancel()
	for pause := 10 * time.Millisecond; ; pause *= 2 {
		done, err := r.store.Settled(ctx, t.m.ID, t.m.LeaseToken)
		if err == nil || ctx.Err() != nil || t.inc.dead() {
			return done, err
		}
		select {
		case <-ctx.Done():
			return false, err
		case <-time.After(pause):
		}
	}
}

// invoke calls the handler through the middleware. A panic becomes an error
// here; after a Goexit nobody would see one.
func (r *run) invoke(ctx context.Context, t *task) (err error) {
	ended := false
	defer func() {
		if ended {
			return
		}
		if v := recover(); v != nil {
			err = panicked(v)
			return
		}
		// Goexit: the deferred calls run and nobody gets err.
		r.conclude(t, panicked(nil))
	}()
	if len(r.cfg.Middleware) == 0 {
		err = t.handler.run(ctx, t)
	} else {
		next := HandlerFunc(func(ctx context.Context, _ *message.Message) error { return t.handler.run(ctx, t) })
		for i := len(r.cfg.Middleware) - 1; i >= 0; i-- {
			next = r.cfg.Middleware[i](next)
		}
		err = next(ctx, &t.m.Message)
	}
	ended = true
	return err
}

// returned runs when a handler has ended, however it did, or was never begun.
// It returns the task whose turn it is then.
func (r *run) returned(t *task) (next *task) {
	t.cancel(nil)
	if t.state.Load() == stateReturned {
		if !r.cfg.Hooks.settles() {
			t.m.Payload = "" // messages of one claim are kept together, payloads must not be
		}
	} else {
		r.ashore(t)
	}
	next = r.free(t)
	t.batch.returned()
	r.running.Done()
	return next
}

// free gives the task's slot back, once, and returns the task which has it
// then.
func (r *run) free(t *task) (next *task) {
	if !t.freed.CompareAndSwap(false, true) {
		return nil
	}
	if t.turn {
		next = t.queue.line.leave()
	}
	t.queue.slots.give(1)
	if t.suspect {
		suspects.Store(false)
		r.wake(t.queue.spec.Name)
	}
	return next
}

// abandoned records the failure of a handler that ignores its context and
// fills its slot again; its goroutine is counted until it ends.
func (r *run) abandoned(t *task, cause error) {
	r.adrift(t)
	r.metrics.Abandoned(t.Context, t.m.Queue, t.m.Kind)
	r.log.abandoned(t)
	s := r.decide(t, &abandonedError{cause: cause})
	t.endWith(&s)
	r.settler.put(t, s)
	if next := r.free(t); next != nil {
		r.crew.add([]*task{next})
	}
}

// abandonedError is the failure of a handler that did not return.
type abandonedError struct{ cause error }

func (e *abandonedError) Error() string {
	return "handler did not return after its context ended: " + e.cause.Error()
}
func (e *abandonedError) Unwrap() error      { return e.cause }
func (e *abandonedError) ErrorClass() string { return "worker.Abandoned" }

// decide turns what a handler returned into a settlement. When a method of
// the error panics, that panic is the failure.
func (r *run) decide(t *task, err error) (s store.Settlement) {
	if err == nil {
		return r.outcome(t, nil)
	}
	if gone := apart(func() { s = r.outcome(t, err) }); gone != nil {
		return r.outcome(t, &PanicError{
			Value: fmt.Sprintf("a method of the handler's error panicked: %v", gone.cause()),
			Stack: gone.Stack, frame: gone.frame,
		})
	}
	return s
}

func (r *run) outcome(t *task, err error) store.Settlement {
	s := store.Settlement{
		ID: t.m.ID, Token: t.m.LeaseToken, Place: t.m.Place, Keyed: t.m.IdempotencyKey != "",
		Verb: store.Succeed, Elapsed: t.elapsed(),
	}
	if t.moved.Load() {
		s.Place = 0
	}
	if err == nil {
		return s
	}
	cause := context.Cause(t.Context)
	v, ok := verdictOf(err)
	switch {
	case ok && v.verb == ignore:
		s.Note = r.text(err)
		return s
	case ok && v.verb == snooze && t.m.Snoozes < r.cfg.MaxSnoozes:
		s.Verb, s.Delay, s.Reason = store.Snooze, min(v.delay, message.MaxDelay), "snoozed"
		return s
	case !ok && errors.Is(cause, ErrShutdown) && (errors.Is(err, ErrShutdown) || errors.Is(err, context.Canceled)):
		s.Verb, s.Reason = store.Release, "shutdown"
		return s
	}
	r.fail(t, &s, v, err)
	return s
}
