package worker

import (
	"context"
	"fmt"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
	"github.com/styxmq/styx/internal/telemetry"
)

// Hooks are told what becomes of messages, for example to count or to audit
// it. Nil ones cost nothing.
//
// All but Started are called after the outcome is recorded in the database,
// for outcomes that count: of a lost lease or of an outcome that could not be
// recorded nothing is told, nor of messages that are given back or snoozed.
// What a crash interrupts is not told either; the database is the truth, and
// hooks are not a queue. They run one at a time, and what records outcomes
// (after a CompleteTx the handler's goroutine) waits for them: a slow hook
// delays every other outcome of this worker.
//
// A hook's context has the values of the handler's, its span among them,
// though that has ended, and does not end itself. The message is a copy, as it
// was claimed but for its Status. A panic or a runtime.Goexit is logged and
// changes nothing.
type Hooks struct {
	// Started is called before the handler, which waits for it, with the
	// handler's context.
	Started func(ctx context.Context, m *message.Message)
	// Succeeded is called for a message that has succeeded, an ignored one
	// too.
	Succeeded func(ctx context.Context, m *message.Message)
	// Failed is called for each attempt that has failed. Of the attempt's
	// fields those are set that do not come from the database: the ID and
	// the times are not.
	Failed func(ctx context.Context, m *message.Message, a *message.Attempt)
	// Dead is called, after Failed, when the message is dead with that.
	Dead func(ctx context.Context, m *message.Message, why message.Decision)
}

// settles reports whether a hook wants to know outcomes.
func (h *Hooks) settles() bool { return h.Succeeded != nil || h.Failed != nil || h.Dead != nil }

// started calls the hook.
func (r *run) started(ctx context.Context, t *task) {
	if hook := r.cfg.Hooks.Started; hook != nil {
		m := t.m.Message
		r.call(t, "started hook", func() { hook(ctx, &m) })
	}
}

// told calls the hooks of an outcome that was recorded.
func (r *run) told(t *task, s *store.Settlement) {
	h := &r.cfg.Hooks
	if !h.settles() {
		return
	}
	m := t.m.Message
	ctx := context.WithoutCancel(t)
	if a := t.attempt.Load(); a != nil {
		ctx = a.within(ctx)
	}
	switch {
	case s.Verb == store.Succeed && h.Succeeded != nil:
		m.Status = message.StatusSucceeded
		r.call(t, "succeeded hook", func() { h.Succeeded(ctx, &m) })
	case s.Failure != nil:
		m.Status = message.StatusPending
		a := &message.Attempt{
			MessageID: m.ID, Number: m.Attempt, LeaseToken: m.LeaseToken, Outcome: message.OutcomeRetried, Charged: true,
			FailureKind: s.Failure.Kind, ErrorClass: s.Failure.Class, ErrorMessage: s.Failure.Message,
			Stack: s.Failure.Stack, WorkerID: t.inc.id, TraceID: store.TraceID(s.Failure.TraceID),
		}
		if s.Verb == store.Bury {
			m.Status, a.Outcome = message.StatusDead, message.OutcomeDead
		}
		if h.Failed != nil {
			r.call(t, "failed hook", func() { h.Failed(ctx, &m, a) })
		}
		if s.Verb == store.Bury && h.Dead != nil {
			r.call(t, "dead hook", func() { h.Dead(ctx, &m, s.Failure.Decision) })
		}
	}
	if t.state.Load() == stateReturned {
		t.m.Payload = "" // kept until now for the hooks
	}
}

// recorded does what follows an outcome that counts.
func (r *run) recorded(ctx context.Context, t *task, s *store.Settlement) {
	if s.Verb == store.Bury {
		r.deadLetter(ctx, t, s.Failure)
	}
	r.told(t, s)
}

func (r *run) call(t *task, name string, hook func()) {
	if gone := apart(hook); gone != nil {
		r.log.hook(t, name, fmt.Sprint(gone.cause()))
	}
}

// traceparent is what a failure keeps of the attempt's span.
func (t *task) traceparent() string { return telemetry.Parent(t.spanContext()) }
