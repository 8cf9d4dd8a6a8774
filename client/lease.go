package client

import (
	"context"
	"fmt"
	"time"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/failure"
	"github.com/styxmq/styx/internal/name"
	"github.com/styxmq/styx/internal/store"
)

const (
	// DefaultLease is how long a message claimed through [Leases] is held
	// when neither the call nor the message's timeout says.
	DefaultLease = 60 * time.Second
	// MaxClaim is the largest number of messages of one claim.
	MaxClaim = 1000
	// MaxWait is the longest that a claim waits for messages.
	MaxWait = 30 * time.Second
	// MaxSettle is the largest number of settlements of one call.
	MaxSettle = 1000
)

// Leases claims and settles messages for consumers that do not run a
// worker.Worker, such as programs in other languages behind the HTTP API. A
// lease ends at its deadline; nothing beats for it, [Leases.Extend] moves it.
// Get it from [Client.Leases]. It is safe for concurrent use.
type Leases struct {
	c *Client
}

// Leases returns the operations of a consumer without a worker.
func (c *Client) Leases() *Leases { return &Leases{c} }

// ClaimOptions say what to claim.
type ClaimOptions struct {
	// Max is the largest number of messages, 1 to MaxClaim. Defaults to 1.
	Max int
	// Kinds are those wanted. Defaults to every kind.
	Kinds []string
	// Lease is how long the messages may be held, 1 s to
	// message.MaxTimeout. Defaults to the message's own timeout, else to
	// DefaultLease.
	Lease time.Duration
	// Wait is how long to wait for a first message, up to MaxWait. Defaults
	// to not waiting.
	Wait time.Duration
}

// FailOptions describe a failure.
type FailOptions struct {
	// Error is the text of the failure; it is sanitised and cut. Defaults
	// to "unspecified error".
	Error string
	// Class groups failures, such as the name of an exception, up to 128
	// bytes. Defaults to "remote".
	Class string
	// Stack is the text of a stack, sanitised and cut.
	Stack string
	// Kind says whether another attempt makes sense: a permanent failure is
	// dead at once. Defaults to message.FailureUnknown, without its longer
	// delay.
	Kind message.FailureKind
	// RetryIn is the delay until the next attempt, up to message.MaxDelay.
	// A nil RetryIn is 2, 4, 8, 16 … seconds by the number of the attempt,
	// at most an hour.
	RetryIn *time.Duration
}

// Settlement is the outcome of one claimed message.
type Settlement struct {
	// ID names the message.
	ID int64
	// Token is the message's LeaseToken from the claim. 0 settles whatever
	// lease is in force, which can take a message from a slower consumer;
	// give the token wherever it is known.
	Token int64
	// Verb is what happened.
	Verb SettleVerb
	// Fail is for VerbFail; nil takes its defaults.
	Fail *FailOptions
	// Delay until a released message is due again, up to message.MaxDelay.
	Delay time.Duration
}

// SettleVerb is what a settlement does.
type SettleVerb string

// The verbs of a settlement.
const (
	// VerbSucceed ends the message as succeeded.
	VerbSucceed SettleVerb = "succeed"
	// VerbFail charges the attempt: the message is retried, or dead.
	VerbFail SettleVerb = "fail"
	// VerbRelease gives the message back, uncharged.
	VerbRelease SettleVerb = "release"
)

// Claim takes messages of the queue, the first in its order, and returns them
// as they are now: processing, with their LeaseToken and Deadline. None is no
// error, nor is a queue that never was or one that is paused. opts may be nil.
//
// With a Wait it returns as soon as there is a message, at its end without
// one, and with ctx's error when that ends first, but with the messages of a
// claim that was under way then. When the error is that of a
// broken connection, messages may have been claimed; their leases end by
// themselves.
func (l *Leases) Claim(ctx context.Context, queue string, opts *ClaimOptions) ([]message.Message, error) {
	if opts == nil {
		opts = new(ClaimOptions)
	}
	if err := opts.check(queue); err != nil {
		return nil, err
	}
	r := store.RemoteClaim{
		Queue: queue, Kinds: opts.Kinds, Limit: max(opts.Max, 1), Lease: opts.Lease, Default: DefaultLease,
	}
	claimed, err := l.claim(ctx, r, opts.Wait)
	if err != nil {
		return nil, fmt.Errorf("claim from %q: %w", queue, err)
	}
	return claimed, nil
}

func (o *ClaimOptions) check(queue string) error {
	var p problems
	p.collect(name.Check("queue", queue))
	if o.Max < 0 || o.Max > MaxClaim {
		p.add("max", message.CodeOutOfRange, "max must be 1 to %d, not %d.", MaxClaim, o.Max)
	}
	if len(o.Kinds) > message.MaxNameLength {
		p.add("kinds", message.CodeTooLong, "kinds must be at most %d.", message.MaxNameLength)
	}
	for i, kind := range o.Kinds {
		p.collect(name.Check(fmt.Sprintf("kinds[%d]", i), kind))
	}
	p.lease("lease", o.Lease, true)
	if o.Wait < 0 || o.Wait > MaxWait {
		p.add("wait", message.CodeOutOfRange, "wait must be 0 to %s, not %s.", MaxWait, o.Wait)
	}
	return p.err()
}

func (p *problems) lease(field string, d time.Duration, optional bool) {
	if d == 0 && optional {
		return
	}
	if d < time.Second || d > message.MaxTimeout {
		p.add(field, message.CodeOutOfRange, "%s must be 1s to %s, not %s.", field, message.MaxTimeout, d)
	}
}

// Settle records outcomes of one queue's messages, at most MaxSettle, in one
// transaction. The slice has an error for each: nil, [message.ErrNotFound],
// also for a message of another queue; [message.ErrLeaseLost] when its token
// is stale; a [*message.StateError] when it is not processing. The same
// outcome under the same token again is nil. A settlement that is refused
// does not hinder the others.
//
// err is for the call: a [*message.ValidationError], before anything is
// written, names the bad item as in settlements[3].verb; after any other it is
// unknown what was recorded, and repeating the call is safe.
func (l *Leases) Settle(ctx context.Context, queue string, batch []Settlement) ([]error, error) {
	var p problems
	p.collect(name.Check("queue", queue))
	if len(batch) > MaxSettle {
		p.add("settlements", message.CodeTooLong, "settlements must be at most %d, not %d.", MaxSettle, len(batch))
		batch = nil
	}
	out := make([]store.RemoteSettlement, len(batch))
	for i := range batch {
		item := problems{}
		out[i] = item.settlement(queue, &batch[i])
		for _, err := range item.errs {
			p.prefix = fmt.Sprintf("settlements[%d].", i)
			p.collect(err)
		}
		p.prefix = ""
	}
	if err := p.err(); err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil, nil
	}
	return l.settle(ctx, queue, out)
}

// settle runs checked settlements.
func (l *Leases) settle(ctx context.Context, queue string, batch []store.RemoteSettlement) ([]error, error) {
	var results []error
	err := retry(ctx, nil, func() (err error) {
		results, err = l.c.store.SettleRemote(ctx, queue, batch)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("settle %d messages of %q: %w", len(batch), queue, err)
	}
	return results, nil
}

// Succeed ends a message as succeeded. See [Leases.Settle] for errors and for
// token.
func (l *Leases) Succeed(ctx context.Context, queue string, id, token int64) error {
	return l.one(ctx, queue, Settlement{ID: id, Token: token, Verb: VerbSucceed})
}

// Fail charges the attempt: the message is pending again, with a RetryAfter,
// or dead when its budget is used up or the failure permanent. opts may be
// nil. See [Leases.Settle] for errors and for token.
func (l *Leases) Fail(ctx context.Context, queue string, id, token int64, opts *FailOptions) error {
	return l.one(ctx, queue, Settlement{ID: id, Token: token, Verb: VerbFail, Fail: opts})
}

// Release gives a message back after a delay, uncharged. See [Leases.Settle]
// for errors and for token.
func (l *Leases) Release(ctx context.Context, queue string, id, token int64, delay time.Duration) error {
	return l.one(ctx, queue, Settlement{ID: id, Token: token, Verb: VerbRelease, Delay: delay})
}

func (l *Leases) one(ctx context.Context, queue string, s Settlement) error {
	var p problems
	p.collect(name.Check("queue", queue))
	out := p.settlement(queue, &s)
	if err := p.err(); err != nil {
		return err
	}
	results, err := l.settle(ctx, queue, []store.RemoteSettlement{out})
	if err == nil {
		err = results[0]
	}
	if err != nil {
		return fmt.Errorf("%s message %d of %q: %w", s.Verb, s.ID, queue, err)
	}
	return nil
}

// Extend moves the deadline of a held message to d from now, 1 s to
// message.MaxTimeout, and returns it. See [Leases.Settle] for errors and for
// token.
func (l *Leases) Extend(ctx context.Context, queue string, id, token int64, d time.Duration) (time.Time, error) {
	var p problems
	p.collect(name.Check("queue", queue))
	p.lease("lease", d, false)
	p.token(token)
	if err := p.err(); err != nil {
		return time.Time{}, err
	}
	var until time.Time
	err := retry(ctx, nil, func() (err error) {
		until, err = l.c.store.ExtendRemote(ctx, queue, id, token, d)
		return err
	})
	if err != nil {
		return time.Time{}, fmt.Errorf("extend message %d of %q: %w", id, queue, err)
	}
	return until, nil
}

func (p *problems) token(token int64) {
	if token < 0 {
		p.add("lease_token", message.CodeOutOfRange, "lease_token must not be negative.")
	}
}

// settlement checks s and turns it into the store's.
func (p *problems) settlement(queue string, s *Settlement) store.RemoteSettlement {
	out := store.RemoteSettlement{ID: s.ID, Token: s.Token}
	p.token(s.Token)
	if s.Delay < 0 || s.Delay > message.MaxDelay {
		p.add("delay", message.CodeOutOfRange, "delay must be 0 to %s, not %s.", message.MaxDelay, s.Delay)
	}
	switch s.Verb {
	case VerbSucceed:
		out.Verb = store.Succeed
	case VerbRelease:
		out.Verb, out.Delay, out.Reason = store.Release, s.Delay, "released"
	case VerbFail:
		p.failed(&out, queue, s.Fail)
	default:
		p.add("verb", message.CodeInvalid, "verb must be one of succeed, fail, release.")
	}
	return out
}

func (p *problems) failed(out *store.RemoteSettlement, queue string, o *FailOptions) {
	if o == nil {
		o = new(FailOptions)
	}
	f := &store.Failure{
		Kind: o.Kind, Decision: message.DecisionExhausted, Class: o.Class,
		Message: failure.Clean(o.Error, failure.MaxMessage), Stack: failure.Clean(o.Stack, failure.MaxStack),
	}
	out.Verb, out.Delay, out.Failure = store.Retry, -1, f
	if f.Message == "" {
		f.Message = "unspecified error"
	}
	p.collect(name.Optional("class", f.Class, message.MaxNameLength))
	if f.Class == "" {
		f.Class = "remote"
	}
	switch f.Kind {
	case "":
		f.Kind = message.FailureUnknown
	case message.FailurePermanent:
		out.Verb, f.Decision = store.Bury, message.DecisionPoison
	case message.FailureTransient, message.FailureUnknown:
	default:
		p.add("failure_kind", message.CodeInvalid, "failure_kind must be one of transient, permanent, unknown.")
	}
	if o.RetryIn != nil {
		if *o.RetryIn < 0 || *o.RetryIn > message.MaxDelay {
			p.add("retry_in", message.CodeOutOfRange, "retry_in must be 0 to %s, not %s.", message.MaxDelay, *o.RetryIn)
		}
		out.Delay = max(*o.RetryIn, 0)
	}
	f.Fingerprint = failure.Fingerprint(queue, f.Class, f.Message, "")
}
