package worker

import (
	"context"
	"errors"
	"time"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/failure"
	"github.com/styxmq/styx/internal/store"
)

// maxNote is the largest note of a success, in bytes.
const maxNote = 1 << 10

func (r *run) text(err error) string { return failure.Clean(failure.Text(err), maxNote) }

// fail fills in a settlement of failure: its kind, whether it is the last,
// the delay of the next attempt, and what is kept of the error.
func (r *run) fail(t *task, s *store.Settlement, v verdict, err error) {
	kind := r.classify(t, v, err)
	timedOut := errors.Is(context.Cause(t.Context), ErrTimeout) &&
		(errors.Is(err, ErrTimeout) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled))
	f := &store.Failure{
		Kind: kind, Class: failure.Class(err), Message: failure.Text(err), Version: r.cfg.Version,
		Decision: message.DecisionExhausted, TraceID: t.traceparent(),
	}
	if timedOut {
		f.Decision, f.Class = message.DecisionTimedOut, "worker.Timeout"
		var gone *abandonedError
		if errors.As(err, &gone) {
			f.Class = gone.ErrorClass()
		} else {
			f.Message = failure.Clean(ErrTimeout.Error()+": "+f.Message, failure.MaxMessage)
		}
	}
	var p *PanicError
	frame := ""
	if errors.As(err, &p) {
		f.Stack, frame = p.Stack, p.frame
	}
	f.Fingerprint = failure.Fingerprint(t.m.Kind, f.Class, f.Message, frame)
	s.Verb, s.Failure = store.Retry, f
	switch {
	case kind == message.FailurePermanent:
		s.Verb, f.Decision = store.Bury, message.DecisionPoison
	case t.m.Attempt >= t.m.MaxRetries:
		s.Verb = store.Bury
	case v.verb == retryAfter:
		s.Delay = v.delay
	default:
		s.Delay = r.delay(t, kind, err)
	}
	s.Delay = min(max(s.Delay, 0), message.MaxDelay)
	r.log.failed(t, s)
}

// classify asks the kind's classifier, the worker's and the default one.
func (r *run) classify(t *task, v verdict, err error) message.FailureKind {
	switch v.verb {
	case permanent:
		return message.FailurePermanent
	case retryAfter, snooze:
		return message.FailureTransient
	case ignore:
	}
	var gone *PanicError
	for _, c := range []Classifier{t.handler.options.Classifier, r.cfg.Classifier} {
		if c == nil {
			continue
		}
		if kind := r.ask(t, c, err); kind.Valid() {
			return kind
		}
	}
	if errors.As(err, &gone) {
		return message.FailureUnknown
	}
	return r.ask(t, DefaultClassifier, err)
}

func (r *run) ask(t *task, c Classifier, err error) (kind message.FailureKind) {
	if gone := apart(func() { kind = c(err) }); gone != nil {
		r.log.callback(t, "classifier", gone.cause())
		return ""
	}
	return kind
}

// delay asks the retry policy of the kind, the queue or the worker.
func (r *run) delay(t *task, kind message.FailureKind, err error) (d time.Duration) {
	policy := t.handler.options.RetryPolicy
	if policy == nil {
		policy = t.queue.spec.RetryPolicy
	}
	f := Failure{Message: t.m.Message, Attempt: t.m.Attempt, Kind: kind, Err: err}
	if gone := apart(func() { d = policy.Delay(f) }); gone != nil {
		r.log.callback(t, "retry policy", gone.cause())
		d = Exponential{}.Delay(f)
	}
	return max(d, time.Millisecond)
}
