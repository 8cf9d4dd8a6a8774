package worker

import (
	"context"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

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

// The options that are the same for every attempt.
var (
	consumes = trace.WithSpanKind(trace.SpanKindConsumer)
	newRoot  = trace.WithNewRoot()
)

// attempt is the span of a task, or what stands for it.
type attempt struct {
	span  trace.Span // nil when nobody records
	ended atomic.Bool

	// origin leads to the span that enqueued the message. With opts it is
	// kept here to spare each attempt an allocation.
	origin [1]trace.Link
	opts   [4]trace.SpanStartOption
}

// from returns the span that enqueued the message, which is not valid when
// nothing is known of it.
func (a *attempt) from() trace.SpanContext { return a.origin[0].SpanContext }

// spanContext returns that of the span; without one, of the producer's.
func (a *attempt) spanContext() trace.SpanContext {
	if a.span == nil {
		return a.from()
	}
	return a.span.SpanContext()
}

// within returns ctx with the span; without one, with the producer's, so that
// what is enqueued there belongs to the same trace.
func (a *attempt) within(ctx context.Context) context.Context {
	if a.span == nil {
		return trace.ContextWithRemoteSpanContext(ctx, a.from())
	}
	return trace.ContextWithSpan(ctx, a.span)
}

// enter returns the context of a task's handler: with the span of the attempt
// and the baggage that may pass.
func (r *run) enter(t *task) context.Context {
	on := r.tracing.On()
	if !on && len(t.m.Headers) == 0 {
		return t
	}
	var from trace.SpanContext
	if r.cfg.TraceMode != TraceNone {
		from = r.tracing.Origin(t.m.Headers)
	}
	ctx := r.tracing.WithBaggage(t, t.m.Headers)
	if !on && !from.IsValid() {
		return ctx
	}
	a := new(attempt)
	if from.IsValid() {
		a.origin[0] = telemetry.Link(from, telemetry.LinkCreation)
	}
	if on {
		ctx, a.span = r.process(ctx, t, a)
	} else {
		ctx = a.within(ctx)
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
func (r *run) process(ctx context.Context, t *task, a *attempt) (context.Context, trace.Span) {
	opening := r.tracing.Processing(&t.m.Message)
	opts := append(a.opts[:0], consumes, opening.Attributes)
	linked := a.from().IsValid()
	if linked {
		opts = append(opts, trace.WithLinks(a.origin[:]...))
	}
	if t.m.ReplayCount > 0 {
		if death := r.tracing.Death(t.m.Headers); death.IsValid() {
			opts = append(opts, trace.WithLinks(telemetry.Link(death, telemetry.LinkDeath)))
		}
	}
	if linked && r.cfg.TraceMode == TraceAuto && t.prompt() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, a.from())
	} else {
		opts = append(opts, newRoot)
	}
	ctx, span := r.tracing.Start(ctx, opening.Name, opts...)
	telemetry.Identify(span, t.m.ID, t.m.CorrelationID)
	return ctx, span
}

// prompt reports whether this is the first time that anybody holds the
// message, soon after it was due.
func (t *task) prompt() bool {
	due := t.m.CreatedAt
	if t.m.RetryAfter.After(due) {
		due = t.m.RetryAfter
	}
	return t.m.LeaseToken == 1 && t.claimed.Sub(due) < PromptAttempt
}

// spanContext returns that of the task's span, which is not valid when there
// is none.
func (t *task) spanContext() trace.SpanContext {
	if a := t.attempt.Load(); a != nil {
		return a.spanContext()
	}
	return trace.SpanContext{}
}

// end ends the task's span, once, with its outcome.
func (t *task) end(outcome, class, text string) {
	if a := t.attempt.Load(); a != nil && a.span != nil && a.ended.CompareAndSwap(false, true) {
		telemetry.EndAttempt(a.span, outcome, class, text)
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
	if !r.tracing.On() {
		return ctx, nil
	}
	var links []trace.Link
	queue := batch[0].task.m.Queue
	for i := range batch {
		s := &batch[i]
		if s.task.m.Queue != queue {
			queue = ""
		}
		if sc := s.task.spanContext(); sc.IsSampled() && len(links) < telemetry.MaxLinks {
			links = append(links, telemetry.Link(sc, telemetry.LinkAttempt, telemetry.ID(s.s.ID)))
		}
	}
	if len(links) == 0 {
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
	var from trace.SpanContext
	if a := t.attempt.Load(); a != nil {
		ctx, from = trace.ContextWithSpanContext(ctx, a.spanContext()), a.from()
	} else { // it was not run
		opts = append(opts, newRoot)
		if r.cfg.TraceMode != TraceNone {
			from = r.tracing.Origin(t.m.Headers)
		}
	}
	if from.IsValid() {
		opts = append(opts, trace.WithLinks(telemetry.Link(from, telemetry.LinkCreation)))
	}
	_, span := r.tracing.Start(ctx, telemetry.SpanName(telemetry.OperationDeadLetter, t.m.Queue), opts...)
	telemetry.End(span, f.Class, f.Message)
}
