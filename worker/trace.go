package worker

import (
	"context"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/failure"
	"github.com/styxmq/styx/internal/store"
	"github.com/styxmq/styx/internal/telemetry"
)

// TraceMode says how the span of an attempt belongs to the one that enqueued
// its message.
type TraceMode int

const (
	// TraceAuto makes the first attempt a child of the span that enqueued
	// the message when it begins within PromptAttempt of being due. Later
	// ones, retries and replays begin a trace of their own, with a link, so
	// that a trace neither stretches over days nor fails as a whole because
	// one of its attempts did.
	TraceAuto TraceMode = iota
	// TraceLink always begins a trace, with a link.
	TraceLink
	// TraceNone begins a trace that knows nothing of the producer's.
	TraceNone
)

// PromptAttempt is how soon after its message was due a first attempt must
// begin to be a child in TraceAuto, by this host's clock.
const PromptAttempt = time.Minute

// scope names this package to those who record.
const scope = "github.com/styxmq/styx/worker"

// attempt is the span of a task, or what stands for it.
type attempt struct {
	span   trace.Span
	sc     trace.SpanContext // of the span; without one, of the producer's
	origin trace.SpanContext // of the span that enqueued the message
	ended  atomic.Bool
}

// enter returns the context of a task's handler: with the span of the attempt
// and the baggage that may pass.
func (r *run) enter(t *task) context.Context {
	on := r.tracing.On()
	if !on && len(t.m.Headers) == 0 {
		return t
	}
	a := &attempt{span: noop.Span{}}
	if r.cfg.TraceMode != TraceNone {
		a.origin = r.tracing.Origin(t.m.Headers)
	}
	ctx := r.tracing.WithBaggage(t, t.m.Headers)
	switch {
	case on:
		ctx, a.span = r.process(ctx, t, a.origin)
		a.sc = a.span.SpanContext()
	case !a.origin.IsValid():
		return ctx
	default: // what the handler enqueues belongs to the same trace
		a.sc = a.origin
		ctx = trace.ContextWithRemoteSpanContext(ctx, a.sc)
	}
	t.attempt.Store(a)
	switch t.state.Load() { // whoever took the task away found no span to end
	case stateLost:
		t.endLost()
	case stateAbandoned:
		t.endAbandoned(telemetry.OutcomeReleased)
	}
	return ctx
}

// process begins the span of an attempt.
func (r *run) process(ctx context.Context, t *task, origin trace.SpanContext) (context.Context, trace.Span) {
	opts := make([]trace.SpanStartOption, 0, 4)
	opts = append(opts, trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithAttributes(telemetry.Describe(telemetry.OperationProcess, &t.m.Message)...))
	var links []trace.Link
	if origin.IsValid() {
		links = append(links, telemetry.Link(origin, telemetry.LinkCreation))
	}
	if t.m.ReplayCount > 0 {
		if death := r.tracing.Death(t.m.Headers); death.IsValid() {
			links = append(links, telemetry.Link(death, telemetry.LinkDeath))
		}
	}
	opts = append(opts, trace.WithLinks(links...))
	if origin.IsValid() && r.cfg.TraceMode == TraceAuto && t.prompt() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, origin)
	} else {
		opts = append(opts, trace.WithNewRoot())
	}
	return r.tracing.Start(ctx, telemetry.SpanName(telemetry.OperationProcess, t.m.Queue), opts...)
}

// prompt reports whether this is the first time that anybody holds the
// message, soon after it was due.
func (t *task) prompt() bool {
	due := t.m.CreatedAt
	if t.m.RetryAfter.After(due) {
		due = t.m.RetryAfter
	}
	return t.m.LeaseToken == 1 && time.Since(due) < PromptAttempt
}

// spanContext returns that of the task's span, which is not valid when there
// is none.
func (t *task) spanContext() trace.SpanContext {
	if a := t.attempt.Load(); a != nil {
		return a.sc
	}
	return trace.SpanContext{}
}

// end ends the task's span, once, with its outcome.
func (t *task) end(outcome, class, text string) {
	if a := t.attempt.Load(); a != nil && a.ended.CompareAndSwap(false, true) {
		telemetry.End(a.span, class, text, telemetry.KeyOutcome.String(outcome))
	}
}

func (t *task) endLost() {
	t.end(telemetry.OutcomeLeaseLost, "lease_lost", message.ErrLeaseLost.Error())
}

func (t *task) endAbandoned(outcome string) {
	t.end(outcome, (*abandonedError)(nil).ErrorClass(), "handler did not return after its context ended")
}

// endWith ends the task's span with what was decided.
func (t *task) endWith(s *store.Settlement) {
	if t.attempt.Load() == nil {
		return
	}
	switch {
	case s.Verb == store.Retry:
		t.end(telemetry.OutcomeRetried, s.Failure.Class, s.Failure.Message)
	case s.Verb == store.Bury:
		t.end(telemetry.OutcomeDead, s.Failure.Class, s.Failure.Message)
	case s.Verb == store.Release:
		t.end(telemetry.OutcomeReleased, "", "")
	case s.Verb == store.Snooze:
		t.end(telemetry.OutcomeSnoozed, "", "")
	case s.Note != "":
		t.end(telemetry.OutcomeIgnored, "", "")
	default:
		t.end(telemetry.OutcomeSucceeded, "", "")
	}
}

// settleSpan begins the span of a batch of outcomes; nil when none of their
// attempts is recorded.
func (r *run) settleSpan(ctx context.Context, batch []settled) (context.Context, trace.Span) {
	var links []trace.Link
	queue := batch[0].task.m.Queue
	for _, s := range batch {
		if s.task.m.Queue != queue {
			queue = ""
		}
		if sc := s.task.spanContext(); sc.IsSampled() && len(links) < telemetry.MaxLinks {
			links = append(links, telemetry.Link(sc, telemetry.LinkAttempt, telemetry.ID(s.s.ID)))
		}
	}
	if len(links) == 0 || !r.tracing.On() {
		return ctx, nil
	}
	attrs := append(telemetry.Operation(telemetry.OperationSettle, queue), telemetry.KeyBatchCount.Int(len(batch)))
	return r.tracing.Start(ctx, telemetry.SpanName(telemetry.OperationSettle, queue), trace.WithNewRoot(),
		trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attrs...), trace.WithLinks(links...))
}

// endSettle ends the span of a batch of which some came too late.
func endSettle(span trace.Span, lost int, err error) {
	switch {
	case span == nil:
	case err != nil:
		telemetry.End(span, failure.Class(err), "the outcomes could not be recorded")
	case lost > 0:
		telemetry.End(span, "lease_lost", message.ErrLeaseLost.Error(), telemetry.KeyLeaseLost.Int(lost))
	default:
		telemetry.End(span, "", "")
	}
}

// deadLetter records that a message has died, as a part of its last attempt.
func (r *run) deadLetter(ctx context.Context, t *task, f *store.Failure) {
	if !r.tracing.On() {
		return
	}
	opts := []trace.SpanStartOption{trace.WithAttributes(append(
		telemetry.Describe(telemetry.OperationDeadLetter, &t.m.Message), telemetry.KeyDecision.String(string(f.Decision)))...)}
	a := t.attempt.Load()
	switch a {
	case nil: // it was not run
		opts = append(opts, trace.WithNewRoot())
		if r.cfg.TraceMode != TraceNone {
			a = &attempt{origin: r.tracing.Origin(t.m.Headers)}
		}
	default:
		ctx = trace.ContextWithSpanContext(ctx, a.sc)
	}
	if a != nil && a.origin.IsValid() {
		opts = append(opts, trace.WithLinks(telemetry.Link(a.origin, telemetry.LinkCreation)))
	}
	_, span := r.tracing.Start(ctx, telemetry.SpanName(telemetry.OperationDeadLetter, t.m.Queue), opts...)
	telemetry.End(span, f.Class, f.Message)
}
